"""The contract of an environment, where commands run and files live: this machine, a container, another host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import ShellState

Ended: TypeAlias = Literal["exited", "timeout", "interrupted"]
"""Cause of a command's end: it exited, its time limit, or ``interrupt``."""


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A shell command to execute.

    ``cwd`` None means the folder where the last command ended. ``timeout`` is in seconds. At most ``keep`` bytes of each
    output stream stay in memory, half from its head and half from its tail; if there is more, all of it goes to ``spill`` (a
    folder on this machine) if one is given. ``on_output`` gets chunks as they arrive: (stream name, bytes).
    ``last_frames``: of a line that is redrawn with carriage returns, such as a progress bar, keep only the text after
    the last one.
    """

    command: str
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout: float | None = None
    keep: int = 200_000
    spill: Path | None = None
    on_output: Callable[[str, bytes], None] | None = None
    last_frames: bool = False


@dataclass(frozen=True, slots=True)
class Captured:
    """The kept part of one stream: ``head`` holds the whole stream if it fits, else ``head`` and ``tail`` hold its two ends.
    ``total`` is the stream's size in bytes, without the ``redrawn`` bytes that ``ExecRequest.last_frames`` left out.
    """

    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    spilled_to: Path | None = None
    redrawn: int = 0

    @property
    def omitted(self) -> int:
        """Number of bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """End of a command. ``exit_code`` is 128 + N for signal N; ``ended`` is the cause. ``duration`` is in seconds.

    ``notice`` reports an event of the environment itself, such as a shell that died and was replaced.
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
    """Usability of a backend. ``problem`` is the fault and how to fix it, "" if the backend can be used.

    ``note`` is for a person: an optional feature that a working backend lacks.
    """

    problem: str = ""
    note: str = ""

    @property
    def ok(self) -> bool:
        """True if the environment can be used."""
        return not self.problem


class BackgroundProcess(Protocol):
    """A command that runs beside the session's other commands."""

    @property
    def pid(self) -> int:
        """The process id of the command's shell, on this machine or in the environment."""
        ...

    async def read(self, *, within: float | None = None) -> tuple[str, bytes] | None:
        """Return the next chunk of output: (stream name, bytes). None at its end; b"" of stdout after ``within`` seconds without
        output.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Write to the process's stdin. Raises BrokenPipeError if the process has closed it."""
        ...

    def close_stdin(self) -> None:
        """Close stdin: the process reads the end of its input."""
        ...

    async def wait(self) -> int:
        """Wait for the process's end, and return its exit code: 128 + N for signal N."""
        ...

    async def kill(self) -> None:
        """Send INT, TERM and KILL, as needed, to all processes that it started."""
        ...


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Facts about a file. ``size`` in bytes, ``mtime`` in Unix seconds, ``mode`` the permission bits, ``owner`` UID and GID, None
    if unknown.

    ``mtime_ns`` is the exact time of the last change in Unix nanoseconds, or None if only ``mtime`` is known.
    """

    path: str
    kind: Literal["file", "dir", "link", "other"]
    size: int
    mtime: float
    mode: int
    owner: tuple[int, int] | None = None
    mtime_ns: int | None = None


class Environment(Protocol):
    """An opened backend, where commands run. It does not check approvals; its callers do so first.

    Every method raises EnvironmentFailed if the environment itself is lost; a command that fails only has another exit code. File
    methods other than ``resolve`` and ``stat`` take a path that ``resolve`` returned, and refuse a link (OSError), so
    that they open the path that was judged. They raise the usual OSError kinds (FileNotFoundError, PermissionError
    ...).

    Optional abilities have protocols of their own, below: ReleasesIdle, Portable, HoldsFiles, GivesFiles,
    ReplacesFiles, GivesAttributes, RemovesFolders, SearchesPath, KnowsHome, and in other modules Contained, OpensTerminals ...
    """

    @property
    def identity(self) -> str:
        """Name of the environment in results, such as ``local`` or ``docker:NAME``."""
        ...

    @property
    def cwd(self) -> str:
        """The folder where the next command starts; absolute."""
        ...

    @property
    def generation(self) -> int:
        """A number that grows whenever the shell or the container is replaced, which loses its state."""
        ...

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        """Run the command to its end, its time limit or ``interrupt``. If cancelled, first end the processes that the
        command started.
        """
        ...

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        """Start a command beside the others. ``timeout``, ``keep``, ``spill`` and ``on_output`` of the request do not apply; its
        ``stdin`` is written first. ``close`` ends commands that still run.
        """
        ...

    async def shell_state(self) -> ShellState | None:
        """Return the state of the shell that reads the next command, or None if each command gets a new shell.

        The object stays the same until a command has ended in that shell, or the environment has released its shells.
        """
        ...

    async def health(self) -> Health:
        """Test whether the environment works, by using it."""
        ...

    async def resolve(self, path: str) -> str:
        """Return the absolute path that ``path`` (may be ``~`` or relative to cwd) leads to, with all links followed. The
        path need not exist.
        """
        ...

    async def stat(self, path: str) -> FileInfo | None:
        """Describe a file or folder, or return None if the path does not exist."""
        ...

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """Return the first ``limit`` bytes of a regular file, or all."""
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace or create a file atomically, with its parent folders.

        ``path`` is a result of ``resolve``. Raises OSError if it has become a link.
        """
        ...

    async def delete_file(self, path: str) -> None:
        """Delete the file at ``path``. Raises OSError."""
        ...

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        """Return the entries of a folder, sorted by name."""
        ...

    def interrupt(self) -> None:
        """End the running command, from any thread; its execute call returns with ``ended == "interrupted"``."""
        ...

    async def close(self) -> None:
        """End the processes that still run, and release all resources. May be called twice."""
        ...


# -- optional abilities of an environment: ask with isinstance -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class PortableState:
    """State that lets another process continue in an equal environment: the folder, and exported variables by name.

    Plain data. An environment does not know which values are secret: remove those before the state is stored.
    """

    cwd: str
    variables: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class ReleasesIdle(Protocol):
    """An environment that can release its shells while it is idle."""

    async def release_idle(self) -> bool:
        """Release shells, descriptors and threads, and keep the state in memory: the next call starts a shell with the same
        folder, variables, functions, aliases, options, traps and limits; ``generation`` stays and there is no ``notice``.

        Return True if the shells are released, or already were. Return False, and change nothing for the next call, if they can't
        be released now: a command runs, background processes of commands live, or the shell holds something that no
        other shell can take over, such as files that ``exec`` opened.
        """
        ...


@runtime_checkable
class Restable(Protocol):
    """The old name of ReleasesIdle. The ``rest`` of an environment that has only this method is still called, with a
    DeprecationWarning.
    """

    async def rest(self) -> bool:
        """See ``ReleasesIdle.release_idle``."""
        ...


@runtime_checkable
class Portable(Protocol):
    """An environment whose state can be handed to another process, even a week later."""

    async def portable_state(self) -> PortableState:
        """Return the folder and the exported variables as of the end of the last command; variables that every new environment of
        this kind has may be left out. Starts no shell. Raises EnvironmentFailed.
        """
        ...

    async def restore_state(self, state: PortableState) -> None:
        """Enter the folder and export the variables before the next command. Raises EnvironmentFailed, and changes nothing, if
        the folder is gone or a variable can't be set.
        """
        ...


@runtime_checkable
class HoldsFiles(Protocol):
    """An environment whose files outlive it, or belong to another environment too."""

    def holder(self, path: str) -> str:
        """Return a name for the place that keeps the file. Environments that return the same name share the file, so an undo
        works in any of them. For an environment without this method, ``identity`` is that name.
        """
        ...


@runtime_checkable
class GivesFiles(Protocol):
    """An environment whose ``stat`` reports owners, and that can change the owner of a file."""

    async def give_file(self, path: str, uid: int, gid: int) -> None:
        """Change the owner of a regular file. Raises PermissionError if only root may do so."""
        ...


@runtime_checkable
class ReplacesFiles(Protocol):
    """An environment that keeps the other properties of a file when its content is replaced: other names (hard
    links), extended attributes, an access control list (ACL). Edits and undo call it instead of ``write_file``.
    """

    async def replace_file(
        self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
    ) -> Sequence[str]:
        """Write as ``write_file`` does. ``mtime_ns`` is the modification time to set, in Unix nanoseconds. A
        file with other names is written in place, as safely as that allows.

        Return the properties that could not be kept or set, each in words such as "its ACL".
        """
        ...


@runtime_checkable
class GivesAttributes(Protocol):
    """An environment that can read a file's extended attributes, including its ACL, and set them on another file, such as the
    same file after it was deleted and restored.
    """

    async def attributes(self, path: str) -> Mapping[str, bytes | None]:
        """Return the attributes by name; None for an attribute that may not be read. Raises OSError."""
        ...

    async def give_attributes(self, path: str, attributes: Mapping[str, bytes]) -> Sequence[str]:
        """Set the attributes on a regular file, in place of the ACL that it inherited from its folder. Return those
        that failed, each in words such as "its ACL". Raises OSError.
        """
        ...


@runtime_checkable
class RemovesFolders(Protocol):
    """An environment that can remove folders; undo removes folders that were made for a file."""

    async def delete_folder(self, path: str) -> None:
        """Remove an empty folder. Raises OSError if it is not empty or can't be removed."""
        ...


@runtime_checkable
class SearchesPath(Protocol):
    """An environment that knows where its next shell searches for programs."""

    @property
    def search_path(self) -> str:
        """The value of PATH."""
        ...


@runtime_checkable
class KnowsHome(Protocol):
    """An environment whose account has a different home folder from that of the person who runs toolcrib."""

    async def home(self) -> str:
        """Return the folder that ``~`` means in a new shell, as an absolute path with its links, or "" if there is none."""
        ...


@runtime_checkable
class KeepsProcesses(Protocol):
    """An environment whose background processes end with this process, unless it was asked to keep them."""

    async def keep_processes(self, folder: str) -> None:
        """If this process is killed, keep the background processes that are recorded in ``folder``, a path in the environment.
        The next environment of the same session continues with them. "" for none: everything ends with this process.
        """
        ...
