"""Shell text of background processes: the keeper of one process, and the functions of the helper that reads its folder.

A session's folder is private. It has one folder for each process, with these files: ``pid`` (the numbers and start times of the
process and its keeper), ``command``, ``cwd``, ``status`` (the exit code and the time of the end), ``in`` (the FIFO of the input
while it is open), ``full`` (if the disk was full), and ``log/N``: the output from byte N on. The keeper lives until the process
and all that write to its log have ended. A process in a terminal has ``tty``, the path of that, and no log; it is its own keeper.
"""

from __future__ import annotations

import hashlib
import os
import re

from tools import alive
from tools.environments.shell.driver import quote

MARK = "TOOLCRIB_PROCESS"
"""Variable that a process's descendants inherit. By it they are found after they left the process's session."""
FOLDERS = ("/tmp", "/var/tmp", "~")  # noqa: S108 - the folder made there is private
"""Folders for the folders of sessions; the first that can be written to is used."""
OWNER = ".owner"
"""File in a session's folder with the number and start time of a process that ends with toolcrib: toolcrib itself, if the
environment has the same numbers, otherwise the helper."""
PARTS = 16
"""Number of files of a full log. For each further one the ninth is deleted, so that the beginning and the end stay."""
AHEAD = 1 << 14
"""Bytes of new output that ``news`` prints at most."""
_STAT = 400
"""Characters of /proc/PID/stat up to the resident memory, generously counted. The others would only take time to split."""
SESSION, MEMBER, PART = "P", "M", "L"
"""First words of the lines that ``look`` and ``members`` print."""

# A keeper is started ahead of its process, and waits. A POSIX shell, because it starts faster than bash.
_KEEPER = r"""
umask 077
IFS= read -r s </proc/self/stat
session=$1 keeper=${s%% *}
set -- ${s##*) }
keeper="$keeper ${20}"
keep_log() {
  exec 5>&-
  IFS= read -r n && IFS= read -r most && cd -- "$n/log" || exit
  part=$((most / @PARTS@)) name=000000000000 size=0 total=0
  set -- "$name"
  while said=$(LC_ALL=C dd bs=32768 count="$(((part - size) / 32768 + 1))" oflag=append conv=notrunc of="$name" 2>&1); do
    bytes=${said##*
}
    bytes=${bytes%% *}
    [ "$bytes" -gt 0 ] || return 0
    size=$((size + bytes)) total=$((total + bytes))
    [ "$size" -ge "$part" ] || continue
    name=$(printf %012d "$total") size=0
    set -- "$@" "$name"
    while [ $# -gt @PARTS@ ]; do
      rm -f -- "$9"
      first="$1 $2 $3 $4 $5 $6 $7 $8"
      shift 9
      set -- $first "$@"
    done
  done
  : >../full
  exec cat >/dev/null
}
sh -s "$keeper" "$session" | keep_log
"""
# The first shell of that pipe reads this, and then the call of keep, which the helper writes to start a process.
# It must not start the command in the background: the command would ignore SIGINT.
_KEEP = r"""
keeper=$1
keep() {
n=$1 most=$2 input=$3 state=$4 mark=$5 cwd=$6 command=$7 locks=$8 holder=
cd -- "$n" && printf %s "$cwd" >cwd && printf %s "$command" >command && [ -r "$state" ] || { printf '%s\n' "$n" >&5; exit 1; }
printf '%s\n%s\n' "$n" "$most"
in=/dev/null
exec 9<"$state" </dev/null
if [ "$input" = 1 ]; then
  mkfifo in && in=in
  sleep 2147483647 <>in >/dev/null 5>&- 9<&- &
  holder=$!
  printf '%s\n' "$holder" >holder
fi
(
  IFS= read -r s </proc/self/stat
  p=${s%% *}
  set -- ${s##*) }
  printf '%s %s %s\n' "$p" "${20}" "$keeper" >pid
  printf '%s %s %s\n' "$n" "$p" "${20}" >&5
  exec 5>&-
  exec setsid env -i "@MARK@=$mark" bash --noprofile --norc -c '@RUN@' bash "$cwd" "$command" "$locks" <"$in" 2>&1
)
printf '%s %s\n' "$?" "$(date +%s)" >status
[ -z "$holder" ] || { kill "$holder"; rm -f in holder; }
exit
}
"""
_RUN = 'ulimit -x "$3" 2>/dev/null; . /dev/fd/9 2>/dev/null; exec 9<&-; export @MARK@; cd -P -- "$1" || exit 93; eval "$2"'
_FUNCTIONS = r"""
umask 077
enter() { # NAME BOOT NAMESPACE PROCESS START: the last two are toolcrib's, if the two before are also ours
  local base line kernel
  { read -r kernel </proc/sys/kernel/random/boot_id; } 2>/dev/null
  kernel="$kernel $(readlink /proc/self/ns/pid)"
  for base in @FOLDERS@; do
    [ -d "$base" ] && [ -w "$base" ] || continue
    base=$base/.toolcrib-processes-$UID
    mkdir -p -m 700 -- "$base" "$base/$1" 2>/dev/null
    [ -O "$base" ] && [ ! -L "$base" ] && [ -O "$base/$1" ] && [ ! -L "$base/$1" ] && cd -P -- "$base/$1" || continue
    if [ "$kernel" != "$2 $3" ]; then
      IFS= read -r line </proc/$$/stat
      set -- ${line##*) }
      set -- "" "" "" "$$" "${20}"
    fi
    printf '%s %s\n' "$4" "$5" >|@OWNER@
    where
    return
  done
  return 1
}
where() { # the folder, the boot, and the namespace of the numbers of processes
  pwd -P
  cat /proc/sys/kernel/random/boot_id
  readlink /proc/self/ns/pid
  :
}
spare() { # a keeper without a process: with job control it does not ignore SIGINT
  local both end
  [ -z "$job" ] || return
  exec {both}<> <(:)
  exec {answers}</dev/fd/"$both" {end}>/dev/fd/"$both" {both}<&-
  set -m
  exec {job}> >(
    for fd in "${logs[@]}"; do exec {fd}<&-; done
    exec setsid sh -c "$keeper" keeper "$PWD" >/dev/null 2>&1 5>&"$end" {end}>&- {answers}<&-
  )
  set +m
  exec {end}>&- # the answers end with the keeper
  printf '%s\n' "$keep" >&"$job"
}
start() {
  local name= said= ended
  spare
  printf '\n' >&"$job" # if the keeper was killed, this ends the helper, and another runs this script
  [ ! -e "$1" ] || { echo "the name is taken: choose another, or remove that process" >&2; return 1; }
  mkdir -m 700 -- "$1" "$1/log" || return
  printf '%s\n' "$2" >&"$job"
  IFS=' ' read -rt 20 name said <&"$answers"
  ended=$?
  exec {job}>&- {answers}<&- && job=
  if [ "$ended" = 1 ] && [ -z "$name" ]; then # the keeper ended before it started the process
    rm -rf -- "$1"
    exit
  fi
  [ -n "$said" ] || { echo "no shell answers, or its folder can't be written to" >&2; return 1; }
  printf '%s\n' "$said"
}
place() { # the folder of a process that another shell starts in a terminal
  [ ! -e "$1" ] || { echo "the name is taken: choose another, or remove that process" >&2; return 1; }
  mkdir -m 700 -- "$1" && printf %s "$2" >"$1/command" && printf %s "$3" >"$1/cwd"
}
placed() {
  local tries p s
  for ((tries = 0; tries < 2000; tries++)); do [ ! -s "$1/pid" ] || break; read -rt 0.01 <> <(:); done
  read -r p s _ <"$1/pid" && printf '%s %s\n' "$p" "$s" && cat "$1/tty"
}
awaits() { # whether programs get single keys from the terminal $1, or one in its foreground reads it; $2: its first process
  local LC_ALL=C tty=$1 f line= group call fd
  case " $(stty -a -F "$tty") " in *' -icanon '*) return ;; esac
  { IFS= read -rN @STAT@ line </proc/"$2"/stat; } 2>/dev/null
  set -- ${line##*) }
  group=$6
  for f in /proc/"$group" /proc/[0-9]*; do
    line= call=
    { IFS= read -rN @STAT@ line <"$f/stat"; } 2>/dev/null
    set -- ${line##*) }
    [ -n "$3" ] && [ "$3" = "$group" ] || continue
    if { read -r call fd _ <"$f/syscall"; } 2>/dev/null; then # 0, 3 and 63 are read, by the kind of processor
      case $call in 0 | 3 | 63) [ "$f/fd/$((fd))" -ef "$tty" ] || [ "$f/fd/$((fd))" -ef /dev/tty ] && return ;; esac
    elif { read -r call <"$f/wchan" || [ -n "$call" ]; } 2>/dev/null; then # of another user, or a child of another process
      case $call in n_tty_read | wait_woken) return ;; esac
    fi
  done
  return 1
}
ended() { [ ! -d "$1" ] || printf '%s %s\n' "$2" "$(date +%s)" >"$1/status"; }
lives() {
  local line=
  { IFS= read -rN @STAT@ line </proc/"$1"/stat; } 2>/dev/null
  local since=$2
  set -- ${line##*) }
  [ "${20}" = "$since" ] && [ "$1" != Z ]
}
about() {
  local p s k ks e= flags=-
  { read -r p s k ks <"$1/pid"; } 2>/dev/null || return
  if lives "$k" "$ks"; then flags=w; elif lives "$p" "$s"; then flags=a; fi
  [ -p "$1/in" ] && flags=${flags}i
  [ -e "$1/full" ] && flags=${flags}f
  [ -e "$1/tty" ] && flags=${flags}t
  [ -e "$1/status" ] && read -r e <"$1/status"
  printf 'P %s %s %s %s %s\n' "$1" "$p" "$s" "$flags" "$e"
}
look() {
  local LC_ALL=C n logs=
  [ $# -gt 0 ] || set -- *
  for n; do about "$n" && logs="$logs $n/log/*"; done
  [ -z "$logs" ] || stat -c 'L %s %n' -- $logs 2>/dev/null
  return 0
}
declare -A logs # open logs of processes, so that a poll starts no process
close_log() {
  local fd=${logs[$1]-}
  unset "logs[$1]"
  [ -z "$fd" ] || exec {fd}<&-
}
news() { # of a process whose newest file of the log is $2: its line, and after it what the file has from byte $3 on
  local LC_ALL=C log=$1/log/$2 fd=${logs[$1]-} at= said= last
  about "$1" || return 0
  [ -z "$fd" ] || [ ! "$log" -ef /proc/$$/fd/"$fd" ] || read -r _ at </proc/$$/fdinfo/"$fd"
  if [ "$at" != "$3" ]; then
    close_log "$1"
    [ -f "$log" ] && [ ! -L "$log" ] && exec {fd}<"$log" || return 0
    logs[$1]=$fd
    dd bs=1 count=0 skip="$3" <&"$fd" 2>/dev/null
  fi
  IFS= read -rN @AHEAD@ said <&"$fd"
  read -r _ at </proc/$$/fdinfo/"$fd"
  for last in "$1"/log/*; do :; done
  # The lengths differ if the shell can't hold what it read, such as a NUL. Then this prints nothing, and so for a newer file.
  [ "$last" != "$log" ] || [ $((at - $3)) != ${#said} ] || printf '\036%s' "$said"
}
sizes() { stat -c '%n/%s' -- */log/* */status 2>/dev/null || :; }
feed() {
  [ -p "$1/in" ] || return 3
  printf %s "$2" | timeout 10 cat 1<>"$1/in"
}
shut() {
  local p a= b=
  { read -r p <"$1/holder" && { IFS= read -rd '' a; IFS= read -rd '' b; } </proc/"$p"/cmdline; } 2>/dev/null
  [ "$a $b" != 'sleep 2147483647' ] || kill "$p" # the file may name another process
  rm -f -- "$1/in" "$1/holder"
}
forget() { # a keeper may still be writing into its folder
  local tries
  close_log "$1"
  for tries in {1..50}; do rm -rf -- "$1" 2>/dev/null && return; sleep 0.05; done
  return 1
}
members() {
  local LC_ALL=C n=$1 p=$2 s=$3 locks=$4 f line= now marked
  [ "$p" -gt 1 ] || p=none # processes of no session, such as those of the kernel, are in session 0
  { IFS= read -rN @STAT@ line </proc/"$p"/stat; } 2>/dev/null
  [ -z "$line" ] || { set -- ${line##*) }; [ "${20}" = "$s" ] || p=none; }
  marked=$(
    grep -lzsxF -- "@MARK@=$PWD/$n" /proc/[0-9]*/environ
    [ "$locks" = 0 ] || grep -lsE -- "^Max file locks +$locks " /proc/[0-9]*/limits
  )
  for f in /proc/[0-9]*/stat; do
    line=
    { IFS= read -rN @STAT@ line <"$f"; } 2>/dev/null
    set -- ${line##*) }
    case $1 in '' | Z | X) continue ;; esac
    now=${line%% *}
    [ "$4" = "$p" ] || [[ $marked == *"/proc/$now/"* ]] || continue
    printf 'M %s %s %s %s\n' "$now" "${12}" "${13}" "${22}"
  done
}
"""


def folder_name(session: str) -> str:
    """Return the name of a session's folder. ``session``: see ProcessTable."""
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_-]', '_', session.partition(' ')[0])[:24]}-{digest}"


def enter(session: str) -> str:
    """Return the call that makes a session's folder and goes there. ``session``: the folder's name."""
    numbers = [alive.boot(), f"pid:[{alive.namespace()}]", str(os.getpid()), alive.started(os.getpid()) or ""]
    return " ".join(["enter", *map(quote, [session, *numbers])])


def functions() -> str:
    """Return the text that the helper reads first."""
    return f"keeper={quote(_filled(_KEEPER))} keep={quote(_filled(_KEEP))}\n{_filled(_FUNCTIONS)}"


def _filled(text: str) -> str:
    words = {"RUN": _RUN, "MARK": MARK, "PARTS": str(PARTS), "OWNER": OWNER, "FOLDERS": " ".join(FOLDERS)}
    words |= {"STAT": str(_STAT), "AHEAD": str(AHEAD)}
    for name, word in words.items():
        text = text.replace(f"@{name}@", word)
    return text


_STATE = r"\builtin declare -p; \builtin declare -f; \builtin alias -p; \builtin shopt -p; \builtin umask -p; \builtin set +o"


def state_into(path: str) -> str:
    """Return the command that writes the state of the shell that runs it, as text for another bash, to a file."""
    return f"({{ {_STATE}; }} 2>/dev/null >|{quote(path)})"
