"""Protocol of a background process that a tool started with ``ctx.spawn``."""

from __future__ import annotations

from typing import Protocol


class SpawnedProcess(Protocol):
    """A background process of the session. It ends with the session. Its methods raise EnvironmentFailed if the environment is
    lost, and NotFound once the process was removed.
    """

    @property
    def name(self) -> str:
        """The name of the process in the tool ``process`` and in ``toolcrib ps``."""
        ...

    async def log(self, begin: int = 0) -> bytes:
        """Return its output on both streams from byte ``begin`` on, without bytes that the log no longer has."""
        ...

    async def wait(self, *, within: float | None = None) -> int | None:
        """Wait for its end, at most ``within`` seconds. Return its exit code, 128 + N for signal N; None if it still runs, or if
        the code was lost.
        """
        ...

    async def write(self, text: str) -> None:
        """Write to its input. Raises ExecutionFailed if the input is closed, or if the process does not read."""
        ...

    async def close(self) -> None:
        """End it and its descendants, and delete its log."""
        ...
