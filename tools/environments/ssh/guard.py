"""Guard process on the host, which ends all processes of a connection when the connection is closed or lost, or its owner is
killed.

sshd does not do that: processes without a terminal continue to run. The guard is a bash on each connection that receives signs
of life. When they stop, it ends the sessions whose leaders sshd started for this connection. A leader receives nothing before the
guard has seen it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

BEAT = 10.0
"""Seconds between two signs of life."""
SILENCE = 60
"""Seconds without a sign of life after which the guard acts. sshd itself notices a lost connection much later."""

_OVER = "over"
"""The guard's report before it ends the processes."""

_YOUNG = 50
"""Number of checks of a process that leads no session, a hundredth of a second apart."""

_HEAD = 200
"""Characters of /proc/PID/stat up to the session's number, generously counted. The others would only take time to split."""

# A session's number is not reused while a process is in it, so ended sessions are forgotten at once.
# If the connection ended before this script began, its parent is the reaper of orphans, whose children are unrelated.
SCRIPT = rf"""
trap '' HUP INT TERM QUIT PIPE
LC_ALL=C # text in other encodings takes longer
cd /
line=; ((PPID > 1)) && IFS= read -r line <"/proc/$PPID/comm"
[[ $line == *ssh* || $line == *dropbear* || $line == *tailscale* ]] || exit
declare -A ours=()
scan() {{ # files such as /proc/7/stat
  local file line
  for file; do
    line=; IFS= read -rN {_HEAD} line <"$file"
    set -- "${{line%% *}}" ${{line##*) }}
    [[ $5 ]] || continue
    alive[$5]=1
    [[ $3 == "$PPID" && $5 != "$$" && $2 != [ZX] ]] || continue
    if [[ $5 != "$1" && $try != {_YOUNG} ]]; then young=1; continue; fi
    [[ ${{ours[$5]}} ]] || new=1
    ours[$5]=1
  done 2>/dev/null
}}
look() {{ # "new": a process has just started. It is among the children that the kernel lists, or else all are scanned.
  local file line young new= try files children
  local -A alive
  # sshd answers as soon as it has forked: a child may not lead its session yet. If it never does, any session counts.
  for try in {{1..{_YOUNG}}}; do
    young= alive=()
    if [[ $1 ]]; then
      files=()
      for file in /proc/"$PPID"/task/*/children; do
        read -ra children <"$file"
        for file in "${{children[@]}}"; do files+=("/proc/$file/stat"); done
      done 2>/dev/null
    else
      files=(/proc/[0-9]*/stat)
    fi
    scan "${{files[@]}}"
    [[ $young ]] || break
    sleep 0.01
  done
  if [[ $1 ]]; then [[ $new ]] || look; return; fi
  for line in "${{!ours[@]}}"; do [[ ${{alive[$line]}} ]] || unset "ours[$line]"; done
}}
end() {{
  local file line found=()
  for file in /proc/[0-9]*/stat; do
    line=; IFS= read -rN {_HEAD} line <"$file"
    set -- "${{line%% *}}" ${{line##*) }}
    [[ $5 && ${{ours[$5]}} && $2 != [ZX] ]] || continue
    found+=("$1")
  done 2>/dev/null
  ((${{#found[@]}})) || return
  # Stop all first: a shell whose child ends before it would continue with its next command.
  for line in STOP "$signal" CONT; do kill -"$line" "${{found[@]}}"; done 2>/dev/null
}}
folder=
while IFS= read -r -t {SILENCE} line; do
  if [[ ! $line ]]; then look new; elif [[ $line == "$folder" ]]; then look; else folder=$line; exec 9<"$folder"; fi
  echo
done
echo {_OVER}
for signal in TERM TERM KILL KILL KILL KILL KILL; do end || break; sleep 0.2; done
[[ $folder ]] || exit
exec 9<&-  # otherwise this guard would be taken for another connection's
# Keep the folder for a connection that returns soon, whose own guard is there by then.
{{
  for line in {{1..20}}; do
    [[ -d $folder ]] || exit
    for file in /proc/[0-9]*/fd/9; do [[ $file -ef $folder ]] && exit; done
    sleep 0.25
  done
  rm -rf -- "$folder"
}} </dev/null >/dev/null 2>&1 &
"""


_LOOK = 0.01
_PATIENCE = 5.0
"""Seconds that a new process waits for the guard to see it. After that, it starts anyway."""


class ConnectionGuard:
    """The local side of the guard. ``channel`` runs its script."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._asked = self._looked = 0
        self._over = False
        channel.settimeout(0.0)

    def ask(self, folder: str = "") -> int:
        """Send a sign of life, and return its number for ``has_looked``. May raise paramiko's errors.

        Without a folder, the guard looks for a new process. Otherwise ``folder`` is removed at the end, unless another
        connection's guard uses it by then; when the guard knows it already, it scans all processes.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
        from tools.environments.ssh.transport import sending

        with sending(self._channel):  # may wait, so not under the lock; without bash there, the channel may be closing now
            self._channel.send(f"{folder}\n".encode("utf-8", "surrogateescape"))
        return number

    def has_looked(self, number: int) -> bool:
        """Return True when the guard has answered that sign of life."""
        from tools.environments.ssh.transport import sending

        with self._lock:
            if self._channel.recv_ready():
                with sending(self._channel):
                    said = self._channel.recv(1 << 16)
                self._looked += said.count(b"\n")
                self._over = self._over or _OVER.encode() in said
            return self._looked >= number or self._channel.closed

    @property
    def gone(self) -> bool:
        """True if the guard has ended."""
        return self._channel.closed

    def has_ended_all(self, within: float) -> bool:
        """Return True if the guard heard nothing and ended all processes. Waits up to ``within`` seconds for a sign of life.

        The guard gives no sign while it ends the processes.
        """
        give_up = time.monotonic() + within
        number = 0
        with contextlib.suppress(Exception):  # paramiko may raise anything: the guard accepts nothing more and is ending
            number = self.ask()
        while not self.gone and time.monotonic() < give_up and not (number and self.has_looked(number) and not self._over):
            time.sleep(_LOOK)
        if self.gone:
            self.has_looked(0)  # reads the last report
        return self._over and self.gone


class Ticket:
    """A new process that the guard must see before anything is sent to it."""

    def __init__(self) -> None:
        self._number = 0
        self._over = False
        self._give_up = time.monotonic() + _PATIENCE

    def is_seen(self, guard: ConnectionGuard | None) -> bool:
        """Return True when the guard has seen the process, or is unavailable."""
        if self._over or guard is None or time.monotonic() > self._give_up:
            self._over = True
            return True
        if not self._number:
            self._number = guard.ask()
        self._over = guard.has_looked(self._number)
        return self._over
