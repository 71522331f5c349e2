"""Environment on this machine: a persistent shell, and the files as its commands see them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.contract.deprecated import old_name
from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import (
    BackgroundProcess,
    Environment,
    ExecOutcome,
    ExecRequest,
    FileInfo,
    GivesAttributes,
    GivesFiles,
    Health,
    HoldsFiles,
    Portable,
    PortableState,
    ReleasesIdle,
    ReplacesFiles,
    SearchesPath,
)
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import real_path, with_home
from tools.environments._dropped import when_dropped
from tools.environments._portable import check, exported, gone, told_to_restore
from tools.environments._request import folder_of, may_have_run
from tools.environments._workers import Workers
from tools.environments.local import files
from tools.environments.local.child_env import child_environment
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.shell.folder import make_root
from tools.environments.shell.launcher import Launcher, LocalLauncher, is_supported
from tools.environments.shell.snapshot import first_state
from tools.environments.shell.watchdog import watchdog

if TYPE_CHECKING:  # code that runs commands is imported with the first command, after the model is asked
    from toolcrib.contract.terminal import TerminalProcess, TerminalSize
    from tools.environments.local.oneshot import LocalOneShot
    from tools.environments.shell.pool import ShellPool
    from tools.environments.shell.spawned import Begin, Spawned


def open_local(
    cwd: str | None = None,
    *,
    pass_env: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    sandbox: str = "none",
    **options: Any,
) -> Environment:
    """Open the local backend. ``sandbox`` is ``none`` or a mode of SandboxedEnvironment, which takes the ``options``.

    ``bubblewrap`` is an old name of ``workspace``. Raises EnvironmentFailed.
    """
    if sandbox != "none":
        from tools.environments.local.contained import SandboxedEnvironment
        from tools.environments.local.holding import sandbox_here
        from tools.environments.local.landlocked import LandlockedEnvironment

        if sandbox == "bubblewrap":
            return SandboxedEnvironment(cwd, pass_env=pass_env, env=env, kind=sandbox, **options)
        if sandbox not in ("workspace", "own"):
            raise EnvironmentFailed(f"unknown sandbox {sandbox!r}; known: bubblewrap, none, own, workspace")
        if sandbox == "own" and sandbox_here("own").by == "landlock":
            return LandlockedEnvironment(cwd, pass_env=pass_env, env=env, **options)
        mode: Literal["workspace", "own"] = "own" if sandbox == "own" else "workspace"
        return SandboxedEnvironment(cwd, pass_env=pass_env, env=env, mode=mode, **options)
    return LocalEnvironment(cwd, pass_env=pass_env, env=env, **options)


_removers = Workers("toolcrib-remove", 1)
_WELL = "command echo well"


class LocalEnvironment:
    """The local environment without a sandbox. Safe to use from several threads and event loops at once.

    ``cwd`` is the start folder (default: this process's current folder). ``pass_env`` names extra variables that commands may
    see, ``env`` sets variables. Hard links to ``own`` files are followed like symbolic links.

    One persistent bash reads the commands: folder, variables, functions, aliases, options (except ``set -e``, which ends with its
    command), traps, umask and positional parameters carry over. A concurrent call runs in a copy of that shell, and its changes
    do not carry over; nor does the folder of a request with its own ``cwd``. If a command ends the shell (``exit``, ``set -e``),
    a new shell continues with its state. If a command kills or replaces it (``kill -9 $$``, ``exec``), the earlier state is
    restored and the outcome's ``notice`` reports that. Without bash each command gets its own shell, and only the folder carries
    over.

    If the folder is gone, one call fails, reports that, and moves the session to the nearest existing parent folder: a command
    only runs in the folder that was judged. Background processes live until ``close``, or until the environment is dropped.
    """

    matches_hard_links = True

    def __init__(
        self,
        cwd: str | None = None,
        *,
        pass_env: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        own: OwnFiles = NONE,
    ) -> None:
        if isinstance(pass_env, str):
            raise EnvironmentFailed(f"pass_env takes a list of variable names: [{pass_env!r}]")
        start = str(real_path(with_home(cwd) if cwd is not None else Path.cwd()))
        if not Path(start).is_dir():
            raise EnvironmentFailed(f"the working folder {start} does not exist: create it or choose another")
        self._pass_env = tuple(pass_env)
        self._given = dict(env or {})
        self._own = own
        self._restored: dict[str, str] = {}
        self._inherited: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._root = ""
        self._closed = False
        self._one = None if is_supported() else self._without_bash(start)
        self._pool: ShellPool | None = None
        self._first: ShellState | None = None
        self._cwd = start

    @property
    def identity(self) -> str:
        """The environment's name: ``local``, or ``local:sh`` if commands run in sh because bash is missing."""
        return self._one.where if self._one is not None else "local"

    @property
    def cwd(self) -> str:
        place = self._one or self._pool
        return self._cwd if place is None else place.cwd

    @property
    def generation(self) -> int:
        return self._pool.generation if self._pool is not None else 0

    def _variables(self) -> Mapping[str, str]:
        return {**child_environment(self._pass_env), **self._restored, **self._given}

    def _without_bash(self, start: str) -> LocalOneShot:
        from tools.environments.local.oneshot import LocalOneShot

        return LocalOneShot(start, self._variables)

    def _launcher(self, root: str) -> Launcher:
        return LocalLauncher(root)

    def _open(self) -> ShellPool:
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            if self._pool is None:
                from tools.environments.shell.pool import ShellPool

                self._root = make_root()
                watchdog.enter(self._root)
                self._inherited = {**child_environment(self._pass_env), **self._given}
                given = {**self._inherited, **self._restored, **self._given}
                self._pool = ShellPool(self._launcher(self._root), self._cwd, lambda: given)
                self._dropped = when_dropped(self, partial(_end, self._pool, self._root))
            return self._pool

    @property
    def search_path(self) -> str:
        """The PATH of commands."""
        return self._variables()["PATH"]

    # -- commands ------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        place = self._one or self._open()
        cwd = await folder_of(request, place.cwd, self.resolve)
        self._require_folder(place, cwd)
        try:
            return await place.execute(request, cwd)
        except OSError as error:
            raise may_have_run(self.identity, error) from error

    def _require_folder(self, place: LocalOneShot | ShellPool, cwd: str) -> None:
        """Raise EnvironmentFailed if ``cwd`` does not exist. If it is the session's folder, first move the session to the nearest
        existing parent folder.
        """
        if self._is_folder(cwd):
            return
        if cwd != place.cwd:
            raise EnvironmentFailed(f"the folder {cwd} does not exist, so the command was not run: choose another cwd")
        nearest = next((str(folder) for folder in Path(cwd).parents if self._is_folder(str(folder))), None)
        if nearest is None:
            raise EnvironmentFailed(
                f"the working folder {cwd} and all folders above it are inaccessible, so the command was not run"
            )
        place.cwd = nearest
        raise EnvironmentFailed(
            f"the working folder {cwd} no longer exists, so the command was not run. The session is now in {place.cwd}: "
            "call again to run there, or name another cwd"
        )

    def _is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - before each command: a Path object costs more than the call

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        from tools.environments.shell.spawned import begin

        return await self._spawn(request, begin)

    async def open_terminal(self, request: ExecRequest, size: TerminalSize) -> TerminalProcess:
        """See OpensTerminals."""
        from tools.environments.shell.terminal import begin_in_terminal

        return await self._spawn(request, partial(begin_in_terminal, size))

    async def _spawn(self, request: ExecRequest, begin: Begin[Spawned]) -> Spawned:
        if self._one is not None:
            raise EnvironmentFailed("a separate process needs bash: install bash")
        pool = self._open()
        cwd = await folder_of(request, pool.cwd, self.resolve)
        self._require_folder(pool, cwd)
        try:
            return await pool.spawn(request, cwd, begin)
        except OSError as error:
            raise may_have_run(self.identity, error) from error

    async def shell_state(self) -> ShellState | None:
        if self._one is not None:
            return None
        if self._pool is None:  # judging alone starts no shell
            self._first = self._first or first_state(self._variables())
            return self._first
        return await self._pool.state()

    async def release_idle(self) -> bool:
        """See ReleasesIdle."""
        if self._one is not None:
            return self._one.release_idle()
        try:
            return self._pool is None or await self._pool.release_idle()
        except OSError:  # no more files can be opened for the check
            return False

    rest = old_name(release_idle, "rest")

    async def portable_state(self) -> PortableState:
        """See Portable. Leaves out variables inherited from this process: the process that restores the state has its own."""
        if self._pool is None:
            return PortableState(self.cwd, dict(self._restored))
        return PortableState(self.cwd, exported(await self._pool.state(), self._inherited))

    async def restore_state(self, state: PortableState) -> None:
        """See Portable. Does not start a shell if none runs."""
        check(state)
        if not self._is_folder(state.cwd):
            raise EnvironmentFailed(gone(state.cwd))
        with self._lock:
            fresh = self._pool is None
            if fresh:
                self._restored.update(state.variables)
                self._first, self._cwd = None, state.cwd
        if self._one is not None:
            self._one.cwd = state.cwd
        elif not fresh:
            await told_to_restore(self, state)

    def interrupt(self) -> None:
        place = self._one or self._pool
        if place is not None:
            place.interrupt()

    async def health(self) -> Health:
        try:
            outcome = await self.execute(ExecRequest(_WELL, timeout=30))
        except EnvironmentFailed as error:
            return Health(str(error))
        if outcome.stdout.head != b"well\n":
            return Health(f"a command gave unexpected output: {outcome.stderr.head!r}")
        return Health(note=self._lack())

    def _lack(self) -> str:
        if self._one is None:
            return ""
        keeps = "so each command gets its own shell, and variables and functions are not kept"
        if shutil.which("bash") is None:
            return f"bash is not found on PATH, {keeps}: install bash"
        return f"shells can be kept on Linux only, {keeps}"

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            pool, self._cwd = self._pool, self.cwd
            root, self._root = self._root, ""
        if self._one is not None:
            await self._one.close()
        if pool is not None:
            await _end(pool, root)
            self._dropped.detach()

    # -- files ---------------------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        return files.resolve(path, self.cwd, self._own)

    async def stat(self, path: str) -> FileInfo | None:
        return files.info(path)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """Read a file. ``path`` is resolved, as for ``write_file``."""
        return files.read(path, limit, own=self._own)

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self.replace_file(path, data, mode=mode)

    async def replace_file(
        self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
    ) -> Sequence[str]:
        """See ReplacesFiles."""
        return files.write(path, data, mode, mtime_ns=mtime_ns, own=self._own)

    async def delete_file(self, path: str) -> None:
        """Delete a file. ``path`` is resolved, as for ``write_file``. Raises IsADirectoryError for a folder."""
        files.delete(path)

    def holder(self, path: str) -> str:
        """Return the holder of this file: this machine, for every kind of shell."""
        return "local"

    async def give_file(self, path: str, uid: int, gid: int) -> None:
        """Change the owner of a regular file. ``path`` is resolved, as for ``write_file``."""
        files.give(path, uid, gid)

    async def attributes(self, path: str) -> Mapping[str, bytes | None]:
        """See GivesAttributes. ``path`` is resolved, as for ``write_file``."""
        return files.attributes_of(path)

    async def give_attributes(self, path: str, attributes: Mapping[str, bytes]) -> Sequence[str]:
        """See GivesAttributes. ``path`` is a resolved regular file."""
        return files.give_attributes(path, attributes)

    async def delete_folder(self, path: str) -> None:
        """Delete an empty folder. ``path`` is resolved, as for ``write_file``."""
        files.delete_folder(path)

    async def list_dir(self, path: str) -> list[FileInfo]:
        """List a folder. ``path`` is resolved, as for ``write_file``."""
        return files.list_dir(path)


async def _end(pool: ShellPool, root: str) -> None:
    await pool.close()
    if root:
        await _removers.run(partial(_remove, root))


def _remove(root: str) -> None:
    shutil.rmtree(root, ignore_errors=True)
    watchdog.leave(root)


if TYPE_CHECKING:

    def _conforms(
        environment: LocalEnvironment,
    ) -> tuple[Environment, ReleasesIdle, Portable, HoldsFiles, GivesFiles, ReplacesFiles, GivesAttributes, SearchesPath]:
        return environment, environment, environment, environment, environment, environment, environment, environment
