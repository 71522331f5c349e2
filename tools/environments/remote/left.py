"""Find and end the remote processes that a killed toolcrib left behind, by the files in its private folder.

The file ``owner`` in that folder names the owning process. An empty file for each session (setsid) is named after its number and
start time.
"""

from __future__ import annotations

from tools.environments.shell.driver import quote

NAME = ".toolcrib-"
SPARE = 'printf %40000s x >|"$_d/spare"'
"""Script that reserves space for a shell's files, in case the disk is full later."""

_RECORD = r"""
_l=; { IFS= read -rd '' _l </proc/PID/stat; } 2>/dev/null; set -- ${_l##*) }
[ -n "$4" ] && : >|"FOLDER/$4.${20}.session"
"""
_FIND = r"""
for _b in BASES; do for _d in "$_b"/NAME*/owner; do
  [ -O "$_d" ] && { _o=; IFS= read -r _o <"$_d"; printf '%s\n%s\n' "${_d%/owner}" "$_o"; }
done; done 2>/dev/null
"""
# Stop all processes first: a shell whose child ends before it would continue with its next command.
_END = r"""
( cd /; LC_ALL=C; _f=FOLDER; _ours=' '
for _g in "$_f"/*.session; do
  _p=${_g##*/}; _t=${_p#*.}; _p=${_p%%.*}; _t=${_t%%.*}
  _l=; { IFS= read -rd '' _l <"/proc/$_p/stat"; } 2>/dev/null
  set -- ${_l##*) }
  [ -z "${20}" ] || [ "${20}" = "$_t" ] && _ours="$_ours$_p "
done
_look() {
  _left=
  for _g in /proc/[0-9]*/stat; do
    _l=; IFS= read -rN 200 _l <"$_g" # up to the session's number; the rest would only take time to split
    set -- ${_l##*) }
    case $1 in '' | Z | X) continue ;; esac
    case $_ours in *" $4 "*) ;; *) continue ;; esac
    _n=${_l%% *}; _left="$_left $_n"
    [ -n "$_said" ] || { _l=${_l#*(}; printf '%s %s\n' "$_n" "${_l%)*}"; }
  done 2>/dev/null
}
_said=
for _i in {1..40}; do
  _look; _said=1
  [ -n "$_left" ] || break
  [ $_i -le 20 ] && _s=TERM || _s=KILL
  kill -STOP $_left; kill -$_s $_left; kill -CONT $_left
  sleep 0.025
done 2>/dev/null
rm -rf -- "$_f"
)
"""


def record(folder: str, pid: int | str) -> str:
    """Return a script that records the session of the process ``pid`` as toolcrib's."""
    return _RECORD.replace("PID", str(pid)).replace("FOLDER", folder)


def find(bases: str) -> str:
    """Return a script that prints two lines for each private folder in ``bases`` (shell words): its name and its owner."""
    return _FIND.replace("BASES", bases).replace("NAME", NAME)


def read(said: str) -> list[tuple[str, str]]:
    """Parse the list of private folders and their owners."""
    lines = said.split("\n")
    return [(folder, owner) for folder, owner in zip(lines[::2], lines[1::2], strict=False) if folder.startswith("/")]


def end(folder: str) -> str:
    """Return a script that ends the folder's sessions, prints the number and name of each process, and removes the folder."""
    return _END.replace("FOLDER", quote(folder))
