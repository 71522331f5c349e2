"""The contract of an environment, where commands run and files live: this machine, a container, another host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import ShellState

Ended: TypeAlias = Literal["exited", "timeout", "interrupted"]
"""Cause of a command's end: itself, its time limit, or ``interrupt``."""


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A shell command to execute.

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
    """The kept part of one stream: all of it in ``head`` if ``total`` is no more than that, else its two ends."""

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
    """End of a command. ``exit_code`` is 128 + N for signal N; ``ended`` says by what. ``duration`` is in seconds.

    ``notice`` is set where something happened to the environment itself, such as a shell that died and was replaced.
    """

    exit_code: int
    stdout: Captured
    stderr: Captured
    cwd: str
    duration: float
    where: str
    ended: Ended = "exited"
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """Usability of a backend. ``problem`` says what is wrong and how to put it right, "" where it can be used.

    ``note`` is what else a person should know: it works, but with less than it could have.
    """

    problem: str = ""
    note: str = ""

    @property
    def ok(self) -> bool:
        """True where the environment can be used."""
        return not self.problem


class BackgroundProcess(Protocol):
    """A command that runs beside the session's others. ``pid`` is its shell's, as this machine or the environment has it."""

    @property
    def pid(self) -> int:
        """The process's number in its environment."""
        ...

    async def read(self, *, within: float | None = None) -> tuple[str, bytes] | None:
        """The next chunk that it prints: (stream name, bytes). None at its end; b"" of stdout when ``within`` seconds passed."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to the process's stdin. Raises BrokenPipeError where nobody reads any more."""
        ...

    def close_stdin(self) -> None:
        """Close stdin: the process meets the end of its input."""
        ...

    async def wait(self) -> int:
        """Return the exit code once the process has ended, 128 + N for signal N."""
        ...

    async def kill(self) -> None:
        """INT, TERM, KILL to all that it started, as far as needed."""
        ...


@dataclass(frozen=True, slots=True)
class FileInfo:
    """``size`` in bytes, ``mtime`` in Unix seconds, ``mode`` the permission bits, ``owner`` UID and GID, None where unknown.

    ``mtime_ns`` is the exact time of the last change in Unix nanoseconds, None where only ``mtime`` is known.
    """

    path: str
    kind: Literal["file", "dir", "link", "other"]
    size: int
    mtime: float
    mode: int
    owner: tuple[int, int] | None = None
    mtime_ns: int | None = None


class Environment(Protocol):
    """An opened backend, in which commands run. It knows nothing of approval: whoever calls has been let through already.

    Every method raises EnvironmentFailed where the environment itself is lost; a failing command is no error but an exit code.
    File methods but ``resolve`` and ``stat`` take what ``resolve`` answered, and refuse a link that they meet (OSError): so
    what was judged is what is opened. They raise the usual OSError kinds (FileNotFoundError, PermissionError ...).

    What not every environment can do stands below, as protocols of their own: ReleasesIdle, Portable, HoldsFiles, GivesFiles,
    ReplacesFiles, GivesAttributes, RemovesFolders, SearchesPath, KnowsHome.
    """

    @property
    def identity(self) -> str:
        """Name the environment for results, such as ``local`` or ``docker:NAME``."""
        ...

    @property
    def cwd(self) -> str:
        """Return the folder in which the next command starts; absolute."""
        ...

    @property
    def generation(self) -> int:
        """Grows whenever the shell or the container behind this was replaced: what lived in it is gone."""
        ...

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        """Run to the end, its time limit or ``interrupt``. When cancelled, ends what it started first."""
        ...

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        """Start beside the others. ``timeout``, ``keep``, ``spill`` and ``on_output`` of the request do not apply; its ``stdin``
        is written first. ``close`` ends what still runs.
        """
        ...

    async def shell_state(self) -> ShellState | None:
        """Return the state of the shell that reads the next command; None where each command gets a new shell.

        The same object until a command has ended in that shell, or the environment has rested.
        """
        ...

    async def health(self) -> Health:
        """Try the environment for real."""
        ...

    async def resolve(self, path: str) -> str:
        """The absolute path that ``path`` (may be ``~`` or relative to cwd) leads to, every link followed. It need not exist."""
        ...

    async def stat(self, path: str) -> FileInfo | None:
        """Describe a file or folder; None where nothing is."""
        ...

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """The first ``limit`` bytes of a regular file, or all."""
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace or create a file at once (never half), with its parents.

        ``path`` is resolved: a link met now is refused (OSError).
        """
        ...

    async def delete_file(self, path: str) -> None:
        """Delete the file at ``path``. Raises OSError."""
        ...

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """List a folder, by name."""
        ...

    def interrupt(self) -> None:
        """End what runs now, from any thread; the execute call returns with ``ended == "interrupted"``."""
        ...

    async def close(self) -> None:
        """End what still runs and free everything. May be called twice."""
        ...


# -- abilities that an environment may have besides: ask with isinstance ----------------------------------------------


@dataclass(frozen=True, slots=True)
class PortableState:
    """State with which another process can continue in an equal environment: the folder, and exported variables by name.

    Plain data. An environment does not know which values are secret: leave those out before the state is stored.
    """

    cwd: str
    variables: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class ReleasesIdle(Protocol):
    """An environment that can do without its shells for a while."""

    async def release_idle(self) -> bool:
        """Give back shells, descriptors and threads, and keep the state in memory: the next call starts a shell with the same
        folder, variables, functions, aliases, options, traps and limits; ``generation`` stays and there is no ``notice``.

        Return False where it can't rest now, which changes nothing for the next call: a command runs, processes that commands
        left in the background live, or the shell holds what no other can be given, such as files that ``exec`` opened.
        True where it rests, also if it did before.
        """
        ...


@runtime_checkable
class Restable(Protocol):
    """The old name of ReleasesIdle. An environment that has ``rest`` alone is still called by it, with a DeprecationWarning."""

    async def rest(self) -> bool:
        """See ``ReleasesIdle.release_idle``."""
        ...


@runtime_checkable
class Portable(Protocol):
    """An environment whose state can be handed to another process, also a week later."""

    async def portable_state(self) -> PortableState:
        """Return the folder and the exported variables as of the last command that ended; those that every new environment of
        this kind gets by itself may be left out. Starts no shell. Raises EnvironmentFailed.
        """
        ...

    async def restore_state(self, state: PortableState) -> None:
        """Enter the folder and export the variables before the next command. Raises EnvironmentFailed where the folder is gone
        or a variable cannot be set; nothing has changed then.
        """
        ...


@runtime_checkable
class HoldsFiles(Protocol):
    """An environment whose files outlive it, or are another's too."""

    def holder(self, path: str) -> str:
        """Name what holds this file. An undo is done wherever the holder is the same; by default that is the identity."""
        ...


@runtime_checkable
class GivesFiles(Protocol):
    """An environment where ``stat`` tells owners, and a file may be given to another."""

    async def give_file(self, path: str, uid: int, gid: int) -> None:
        """Change the owner of a regular file. Raises PermissionError where only root may do so."""
        ...


@runtime_checkable
class ReplacesFiles(Protocol):
    """An environment that keeps what a file has beside its content where that is replaced: its other names (hard links), extended
    attributes, an access control list (ACL). Edits and undo use it in place of ``write_file``.
    """

    async def replace_file(
        self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
    ) -> Sequence[str]:
        """Write as ``write_file`` does; ``mtime_ns``: the time of the last change that the file is to have, in Unix nanoseconds.
        A file with other names is written in place, never half as far as that goes.

        Return what the file had and could not be kept, or given, each in words such as "its ACL".
        """
        ...


@runtime_checkable
class GivesAttributes(Protocol):
    """An environment that can tell a file's extended attributes, its ACL among them, and give them to another: to one that was
    renamed, or deleted and is brought back.
    """

    async def attributes(self, path: str) -> Mapping[str, bytes | None]:
        """Return them by name; None for one that may not be read. Raises OSError."""
        ...

    async def give_attributes(self, path: str, attributes: Mapping[str, bytes]) -> Sequence[str]:
        """Give them to a regular file, in place of the ACL that its folder gave it. Return what it could not be given, each in
        words such as "its ACL". Raises OSError.
        """
        ...


@runtime_checkable
class RemovesFolders(Protocol):
    """An environment that can remove folders; undo takes back those that were made for a file."""

    async def delete_folder(self, path: str) -> None:
        """Remove an empty folder. Raises OSError for any other."""
        ...


@runtime_checkable
class SearchesPath(Protocol):
    """An environment that knows where its next shell looks for programs."""

    @property
    def search_path(self) -> str:
        """The value of PATH."""
        ...


@runtime_checkable
class KnowsHome(Protocol):
    """An environment whose account has another home than the person who runs toolcrib."""

    async def home(self) -> str:
        """The folder that ``~`` is in a new shell: absolute, as it is written there; "" where there is none."""
        ...
