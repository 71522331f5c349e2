"""Environments in the sandbox of bubblewrap."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from toolcrib import BackgroundProcess, EnvironmentFailed, ExecOutcome, ExecRequest, FileInfo, Health, PortableState
from tools.environments._request import never_run
from tools.environments._workers import Workers
from tools.environments.local import LocalEnvironment, files
from tools.environments.local.sandbox import Sandbox, private_mounts
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.shell.launcher import is_supported

_T = TypeVar("_T")
MASKED = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.docker", "~/.kube"),
    *("~/.netrc", "~/.pgpass", "~/.git-credentials"),
    *("~/.config/toolcrib", "~/.local/state/toolcrib"),
)
"""Paths that are empty in the sandbox by default: commands that read and send files must not find keys."""
PROCESSES = 4096
_starters = Workers("toolcrib-sandbox", 4)
_TRIES = 5


class BubblewrapEnvironment(LocalEnvironment):
    """An environment on this machine, in a sandbox.

    Only ``writable`` folders and the one it starts in can be written, ``masked`` paths are empty, ``network`` says whether there
    is any, and ``processes`` limits how many there may be at once (the kernel does not hold root to it). Raises
    EnvironmentFailed where a sandbox is unavailable; it never runs without one.

    Files are seen as commands see them: masked paths are empty, and read-only files refuse to be written (OSError, EROFS). /tmp
    is the sandbox's own and is deleted with it.
    """

    def __init__(
        self,
        cwd: str | None = None,
        *,
        pass_env: Sequence[str] = (),
        writable: Sequence[str] = (),
        masked: Sequence[str] = MASKED,
        network: bool = False,
        processes: int = PROCESSES,
        own: OwnFiles = NONE,
    ) -> None:
        for name, given in (("writable", writable), ("masked", masked)):
            if isinstance(given, str):
                raise EnvironmentFailed(f"{name} takes a list of paths: [{given!r}]")
        if not is_supported():
            raise EnvironmentFailed("the bubblewrap sandbox needs Linux and bash: install bash, or choose sandbox: none")
        super().__init__(cwd, pass_env=pass_env, own=own)
        self._writable = [_folder(self._cwd, "the working folder"), *(_folder(path, "the writable folder") for path in writable)]
        self._masked = _outermost({os.path.realpath(Path(path).expanduser()) for path in masked})
        self._network, self._processes = network, processes
        self._sandbox: Sandbox | None = None
        self._interrupts = 0

    @property
    def identity(self) -> str:
        return Sandbox.where

    def _launcher(self, root: str) -> Sandbox:
        self._sandbox = Sandbox(root, self._writable, self._masked, self._network, self._processes)
        return self._sandbox

    def _view(self) -> str:
        self._open()
        assert self._sandbox is not None  # noqa: S101 - _open made it
        return self._sandbox.view()

    def _seen(self, look: Callable[[str], _T], *, again: bool = False) -> _T:
        """Return the result of ``look`` at the sandbox's root folder. A file that is not found in a sandbox that was ending is
        looked for in the next; ``again``: ``look`` reports a missing file by its result too, not only by an error.
        """
        for _ in range(_TRIES):
            view = self._view()
            assert self._sandbox is not None  # noqa: S101 - _view made it
            try:
                found = look(view)
            except OSError:
                if self._sandbox.serves(view):
                    raise
                continue
            if not again or self._sandbox.serves(view):
                return found
        raise EnvironmentFailed("the sandbox ends whenever it was started: something kills its processes")

    def _is_folder(self, path: str) -> bool:
        return self._seen(
            lambda view: os.path.isdir(files.resolve_under(view, path, "/", inside=True)),  # noqa: PTH112 - a string with links resolved
            again=True,
        )

    async def _up(self) -> None:
        """Start the sandbox where it is not up, in another thread, as it takes a while. Raises EnvironmentFailed."""
        self._open()
        assert self._sandbox is not None  # noqa: S101 - _open made it
        if not self._sandbox.is_up():
            await _starters.run(self._sandbox.view)

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        before = self._interrupts
        await self._up()
        if self._interrupts != before:
            return never_run(self.cwd, self.identity)
        return await super().execute(request)

    def interrupt(self) -> None:
        self._interrupts += 1
        super().interrupt()

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        await self._up()
        return await super().spawn(request)

    async def restore_state(self, state: PortableState) -> None:
        await self._up()
        await super().restore_state(state)

    async def health(self) -> Health:
        try:
            await self._up()
        except EnvironmentFailed as error:
            return Health(str(error))
        return await super().health()

    def person_argv(self) -> list[str]:
        """Return the command line that starts a shell for a person, in a sandbox like this one."""
        options = Sandbox("", self._writable, self._masked, self._network, self._processes).options()
        return [*private_mounts(), "bwrap", *options, "--die-with-parent", "--chdir", self._cwd, "--", "bash"]

    async def close(self) -> None:
        await super().close()
        if self._sandbox is not None:
            await _starters.run(self._sandbox.close)

    # -- files ---------------------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        await self._up()
        return self._seen(lambda view: self._own.leads_to(files.resolve_under(view, path, self.cwd), root=view), again=True)

    async def stat(self, path: str) -> FileInfo | None:
        await self._up()
        folder, _, name = path.rstrip("/").rpartition("/")

        def look(view: str) -> FileInfo | None:
            return files.info(f"{files.resolve_under(view, folder or '/', self.cwd)}/{name}".replace("//", "/"), view)

        return self._seen(look, again=True)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        await self._up()
        return self._seen(lambda view: files.read(path, limit, view, own=self._own))

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self.replace_file(path, data, mode=mode)

    async def replace_file(
        self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
    ) -> Sequence[str]:
        await self._up()
        with self._explained(path):
            return self._seen(lambda view: files.write(path, data, mode, view, mtime_ns=mtime_ns, own=self._own))

    async def delete_file(self, path: str) -> None:
        await self._up()
        with self._explained(path):
            self._seen(lambda view: files.delete(path, view))

    def holder(self, path: str) -> str:
        """Return the holder of this file: this machine, or the sandbox, whose /tmp is deleted with it."""
        inside = any(path.startswith(f"{folder}/") for folder in self._writable)
        return super().holder(path) if inside else f"{self.identity} {self._root}"

    async def give_file(self, path: str, uid: int, gid: int) -> None:
        await self._up()
        with self._explained(path):
            self._seen(lambda view: files.give(path, uid, gid, view))

    async def attributes(self, path: str) -> Mapping[str, bytes | None]:
        await self._up()
        return self._seen(lambda view: files.attributes_of(path, view))

    async def give_attributes(self, path: str, attributes: Mapping[str, bytes]) -> Sequence[str]:
        await self._up()
        with self._explained(path):
            return self._seen(lambda view: files.give_attributes(path, attributes, view))

    async def delete_folder(self, path: str) -> None:
        await self._up()
        with self._explained(path):
            self._seen(lambda view: files.delete_folder(path, view))

    async def list_dir(self, path: str) -> list[FileInfo]:
        await self._up()
        return self._seen(lambda view: files.list_dir(path, view))

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.EROFS:
                where = ", ".join(self._writable)
                raise OSError(
                    errno.EROFS, f"read-only in the sandbox, where /tmp and these are writable: {where}", path
                ) from error
            raise


def _outermost(paths: Iterable[str]) -> list[str]:
    """Drop paths that lie in another of them: an empty folder has nothing to cover."""
    kept: list[str] = []
    for path in sorted(paths):
        if not any(path.startswith(f"{folder}/") for folder in kept):
            kept.append(path)
    return kept


def _folder(path: str, what: str) -> str:
    found = os.path.realpath(Path(path).expanduser())
    if not Path(found).is_dir():
        wrong = "is not a folder: choose one" if Path(found).exists() else "does not exist: create it or choose another"
        raise EnvironmentFailed(f"{what} {found} {wrong}")
    if found == "/":
        raise EnvironmentFailed(f"{what} is /, which would make the whole machine writable: choose a folder below it")
    return found
