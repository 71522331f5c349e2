"""What ends, over there, everything that a connection started, when that is gone: closed, cut, or we killed.

sshd does not do that: processes without a terminal live on. A bash of its own on each connection hears from us now and then;
when it hears no more, it ends the sessions whose leaders sshd started for this connection.
"""

from __future__ import annotations

BEAT = 10.0
"""Seconds between two signs of life."""
SILENCE = 60
"""Seconds without one after which the guard acts: where a link is cut, sshd itself learns it only much later."""

# A session's number is not given away while a process is in it; so those that have ended are forgotten at once.
SCRIPT = rf"""
trap '' HUP INT TERM QUIT PIPE
cd /
declare -A ours=()
look() {{
  local file line
  local -A alive=()
  for file in /proc/[0-9]*/stat; do
    line=; IFS= read -rd '' line <"$file"
    set -- ${{line##*) }}
    [[ $4 ]] || continue
    [[ $2 == "$PPID" && $4 != "$$" ]] && ours[$4]=1
    alive[$4]=1
  done 2>/dev/null
  for line in "${{!ours[@]}}"; do [[ ${{alive[$line]}} ]] || unset "ours[$line]"; done
}}
end() {{
  local file line left=1
  for file in /proc/[0-9]*/stat; do
    line=; IFS= read -rd '' line <"$file"
    set -- "${{line%% *}}" ${{line##*) }}
    [[ $5 && ${{ours[$5]}} && $2 != [ZX] ]] || continue
    kill -"$signal" "$1"; kill -CONT "$1"; left=0
  done 2>/dev/null
  return $left
}}
look
while IFS= read -r -t {SILENCE} line; do look; done
for signal in TERM TERM KILL KILL KILL KILL KILL; do end || break; sleep 0.2; done
"""
