"""Script of a sandbox's first process."""

from __future__ import annotations

KEPT_SECONDS = 86_400
"""Seconds that the log and exit code of an ended process are kept for the next toolcrib."""
_SHELLS = "env -i TERM=dumb setsid bash --noprofile --norc bash"
# Files are read by the descriptor 9, because the next toolcrib may look for the pipe at the descriptor 0 at any time.
FIRST = rf"""
set -m
locks=$* kept= pause=
keeper() {{
  local fd folder
  trap : INT TERM HUP
  for fd in $locks; do exec {{fd}}<&-; done
  printf 'ready\n'
  while :; do
    while IFS= read -r $pause folder; do
      [[ $pause ]] && exec </proc/self/fd/0 && pause=
      case $folder in
        '') continue ;;
        'keep '*) kept=${{folder#keep }} && continue ;;
      esac
      {{
        cd "$folder" && {{ {_SHELLS}; printf '%s\n' $? >status; }}
      }} </dev/null >/dev/null 2>&1 &
    done
    has_processes || return
    if [[ ! $pause ]]; then
      exec <>/proc/self/fd/0
      pause='-t 2'
      end_shells
    fi
  done
}}
has_processes() {{
  local file pid start line now ended
  [[ $kept ]] || return
  printf -v now '%(%s)T' -1
  for file in "$kept"/*/pid; do
    {{ read -ru 9 _ _ pid start 9<"$file"; }} 2>/dev/null || continue
    line=
    {{ IFS= read -ru 9 -d '' line 9</proc/"$pid"/stat; }} 2>/dev/null
    set -- ${{line##*) }}
    [[ ${{20}} == "$start" && $1 != [ZX] ]] && return
    {{ read -ru 9 _ ended 9<"${{file%pid}}status"; }} 2>/dev/null && [[ $ended != *[!0-9]* ]] || continue
    ((now - 10#0$ended < {KEPT_SECONDS})) && return
  done
  return 1
}}
end_shells() {{
  local wrapper shell stat line found wrappers shells=' '
  read -ru 9 -a wrappers 9</proc/self/task/$BASHPID/children
  for wrapper in "${{wrappers[@]}}"; do
    shell=
    {{ read -ru 9 shell 9</proc/"$wrapper"/task/"$wrapper"/children; }} 2>/dev/null
    shells+="$shell "
  done
  for _ in {{1..50}}; do
    found=()
    for stat in /proc/[0-9]*/stat; do
      line=
      {{ IFS= read -ru 9 -d '' line 9<"$stat"; }} 2>/dev/null
      set -- "${{line%% *}}" ${{line##*) }}
      [[ $5 && $shells == *" $5 "* && $2 != [ZX] ]] && found+=("$1")
    done
    ((${{#found[@]}})) && kill -KILL "${{found[@]}}" || return
  done 2>/dev/null
}}
keeper <&0 &
exec </dev/null >/dev/null 2>&1
wait $!
"""
"""Waits for the keeper, which starts a shell for each line that it reads. With the keeper everything in the sandbox ends.

A line ``keep FOLDER`` names a folder of background processes (see tools.processes.scripts). At the end of its input the keeper
ends, unless one of them runs or ended less than KEPT_SECONDS ago. It then ends the shells, and reads further lines until none is
left that runs or ended so recently. A process that takes the sandbox over opens the keeper's input again. The script's arguments
are descriptors that the first process holds open.
"""
