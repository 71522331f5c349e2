"""Where commands run and files live: this machine, a container, another host. One contract, many places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """One shell command.

    ``cwd`` None means where the last command left off. ``timeout`` is in seconds. Of each output stream at most ``keep``
    bytes stay in memory, half from its head and half from its tail; where there is more, all of it goes to ``spill``
    (a folder on this machine) if one is given. ``on_output`` sees chunks as they come: (stream name, bytes).
    """

    command: str
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout: float | None = None
    keep: int = 200_000
    spill: Path | None = None
    on_output: Callable[[str, bytes], None] | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """What was kept of one stream: all of it in ``head`` if ``total`` is no more than that, else its two ends."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    spilled_to: Path | None = None

    @property
    def omitted(self) -> int:
        """Bytes between head and tail that are not here."""
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """How a command ended. ``exit_code`` is 128 + N for signal N; ``ended`` says who ended it. ``duration`` is in seconds."""

    exit_code: int
    stdout: Captured
    stderr: Captured
    cwd: str
    duration: float
    where: str
    ended: Literal["exited", "timeout", "interrupted"] = "exited"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """``size`` in bytes, ``mtime`` in Unix seconds, ``mode`` the permission bits."""

    path: str
    kind: Literal["file", "dir", "link", "other"]
    size: int
    mtime: float
    mode: int


class Environment(Protocol):
    """A place to run. Knows nothing of approval: whoever calls has been let through already.

    Every method raises EnvironmentFailed where the place itself broke; a command that fails is no error but an exit code.
    File methods but ``resolve`` and ``stat`` take what ``resolve`` answered, and refuse a link that they meet (OSError): so
    what was judged is what is opened. They raise the usual OSError kinds (FileNotFoundError, PermissionError ...).
    """

    @property
    def identity(self) -> str:
        """What results say about where they ran, such as ``local`` or ``docker:NAME``."""
        ...

    @property
    def cwd(self) -> str:
        """Where the next command would start; absolute."""
        ...

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        """Run to the end, its time limit or ``interrupt``. When cancelled, ends the whole process group first."""
        ...

    async def resolve(self, path: str) -> str:
        """The absolute path that ``path`` (may be ``~`` or relative to cwd) leads to, every link followed. It need not exist."""
        ...

    async def stat(self, path: str) -> FileInfo | None:
        """None where nothing is."""
        ...

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """The first ``limit`` bytes of a regular file, or all."""
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace or create a file at once (never half), with its parents.

        ``path`` is resolved: a link met now is refused (OSError).
        """
        ...

    async def delete_file(self, path: str) -> None: ...

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """By name."""
        ...

    def interrupt(self) -> None:
        """End what runs now, from any thread; the execute call returns with ``ended == "interrupted"``."""
        ...

    async def close(self) -> None:
        """End what still runs and free everything. May be called twice."""
        ...
