"""A container that was kept: whether what was only in its memory is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker.models.containers import Container

_NEVER = "0001-"
"""Beginning of the engine's moments that have not come."""
# What a restart takes away remembers whether one of us was there since: /dev/shm, else /tmp.
_SEEN = """
for d in /dev/shm /tmp; do
  f=$d/.toolcrib-seen; t=; IFS= read -r t <"$f"
  [ "$t" = "$1" ] && exit 0
  printf '%s\\n' "$1" >"$f" && break
done 2>/dev/null
exit 1
"""


def started_again(container: Container) -> str:
    """Return a notice if the container was stopped since one of us used it last, whoever started it; else "". It only looks at
    a running container.

    Raises what the engine's client raises.
    """
    state = container.attrs["State"]
    if str(state.get("FinishedAt", _NEVER)).startswith(_NEVER):
        return ""
    if container.exec_run(["/bin/sh", "-c", _SEEN, "sh", state["StartedAt"]]).exit_code == 0:
        return ""
    gone = "processes, and what was in its /tmp and /dev/shm, are gone"
    return f"docker:{container.name} was stopped and started again since it was last used: {gone}."
