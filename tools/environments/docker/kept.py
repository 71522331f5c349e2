"""Checks whether a kept container lost its processes and in-memory files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker.models.containers import Container

_NEVER = "0001-"
"""Beginning of the engine's timestamps that mean "never"."""
# A file that a restart deletes marks the last use: in /dev/shm, or in /tmp.
_SEEN = """
for d in /dev/shm /tmp; do
  f=$d/.toolcrib-seen; t=; IFS= read -r t <"$f"
  [ "$t" = "$1" ] && exit 0
  printf '%s\\n' "$1" >"$f" && break
done 2>/dev/null
exit 1
"""


def started_again(container: Container) -> str:
    """Return a notice if the container was stopped and started again since its last use by toolcrib; else "".

    Call it only for a running container. Raises any error of the engine's client.
    """
    state = container.attrs["State"]
    if str(state.get("FinishedAt", _NEVER)).startswith(_NEVER):
        return ""
    if container.exec_run(["/bin/sh", "-c", _SEEN, "sh", state["StartedAt"]]).exit_code == 0:
        return ""
    gone = "its processes and the contents of its /tmp and /dev/shm are gone"
    return f"docker:{container.name} was restarted since it was last used: {gone}."
