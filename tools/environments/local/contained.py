"""Environments on this machine whose commands run in a sandbox."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from toolcrib.contract.containment import Contained, Containment, HasOutside, LimitsHosts
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import (
    ExecOutcome,
    ExecRequest,
    FileInfo,
    Health,
    KeepsProcesses,
    PortableState,
)
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._dropped import when_dropped
from tools.environments._request import never_run
from tools.environments._workers import Workers
from tools.environments.local import files, plan
from tools.environments.local.child_env import child_environment
from tools.environments.local.guarded import GuardedSandbox
from tools.environments.local.landlocked import EnvironmentWithOutside
from tools.environments.local.plan import MASKED, PROCESSES, SandboxPlan, is_within, masks
from tools.environments.local.sandbox import Sandbox
from tools.environments.local.survivor import SandboxRecord
from tools.environments.own_files import NONE, OwnFiles
from tools.environments.shell.launcher import is_supported
from tools.environments.shell.watchdog import watchdog

if TYPE_CHECKING:  # only needed for sandboxes with hosts
    from tools.environments.local.network import DeniedHost, NetworkGuard
    from tools.environments.shell.spawned import Begin, Spawned

_T = TypeVar("_T")
_starters = Workers("toolcrib-sandbox", 4)
_TRIES = 5


class SandboxedEnvironment(EnvironmentWithOutside):
    """An environment on this machine, in a sandbox. See SandboxPlan for the options.

    In the mode ``workspace`` only the ``writable`` folders and the start folder can be written, and ``masked`` paths are empty.
    In the mode ``own`` the disk is as usual, except for ``masked`` and ``closed`` paths. ``network``: use this machine's network.
    ``hosts``: the only hosts that commands reach, besides those of package managers; None: no network, or this machine's.

    ``processes`` and ``memory_mb`` limit the processes that run at the same time and their memory. Raises EnvironmentFailed if no
    sandbox can be made; commands never run without one. ``kind``: the sandbox's name in results; by default the mode.

    If this process is killed while background processes of ``session`` run, its next environment with equal options continues
    with them (see KeepsProcesses). ``records``: a folder that commands can't write, for records of such sandboxes; "" for none.

    File operations see what commands see: masked paths are empty, and read-only files cannot be written (OSError, EROFS). The
    sandbox has its own /tmp, which is deleted with it.
    """

    def __init__(
        self,
        cwd: str | None = None,
        *,
        pass_env: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        own: OwnFiles = NONE,
        mode: Literal["workspace", "own"] = "workspace",
        kind: str = "",
        writable: Sequence[str] = (),
        masked: Sequence[str] = MASKED,
        closed: Sequence[str] = (),
        caches: Literal["private", "shared"] = "private",
        network: bool = False,
        hosts: Sequence[str] | None = None,
        processes: int = PROCESSES,
        memory_mb: int = 0,
        session: str = "",
        records: str = "",
    ) -> None:
        for name, given in (("writable", writable), ("masked", masked), ("hosts", hosts)):
            if isinstance(given, str):
                raise EnvironmentFailed(f"{name} takes a list: [{given!r}]")
        if not is_supported():
            raise EnvironmentFailed("the sandbox needs Linux and bash: install bash, or choose sandbox: none")
        super().__init__(cwd, pass_env=pass_env, env=env, own=own)
        start = plan.working_folder(self._cwd) if mode == "workspace" else ""
        folders = [*filter(None, [start]), *(plan.existing_folder(path, "the writable folder") for path in writable)]
        hidden = masks(masked)
        for folder, path in ((folder, path) for folder in folders for path in hidden if is_within(folder, path)):
            raise EnvironmentFailed(f"{folder} can't be written in the sandbox, as {path} is masked in it: choose another folder")
        cached = plan.caches(caches, folders) if mode == "workspace" else ()
        self._plan = SandboxPlan(
            mode,
            tuple(dict.fromkeys([*folders, *(cached if caches == "shared" else ())])),
            hidden,
            masks(closed),
            cached if caches == "private" else (),
            links=plan.links_in(masked),
            network=network,
            hosts=hosts is not None and not network,
            processes=processes,
            memory=memory_mb << 20,
        )
        self._reach = self._reaching(hosts or (), folders) if self._plan.hosts else None
        self._projects = folders  # without caches
        self._kind = f"local:{kind or mode}"
        self._sandbox: Sandbox | None = None
        self._guard: GuardedSandbox | None = None
        self._interrupts = 0
        self._record = SandboxRecord.of(self._out_of_reach(records), session)
        self._keeps = ""

    def _out_of_reach(self, folder: str) -> str:
        """Return the folder if commands can't change anything in it, otherwise ""."""
        path, held = os.path.realpath(folder), self._plan.containment()
        if any(is_within(path, one) for one in held.masked):
            return path
        return "" if any(is_within(path, one) for one in held.writable) else path

    def _reaching(self, hosts: Sequence[str], folders: Sequence[str]) -> NetworkGuard:
        from tools.environments.local.network import NetworkGuard, learned

        outer = {**child_environment(self._pass_env), **self._given}
        try:
            reach = NetworkGuard(hosts, lambda: learned.learned_hosts(outer, os.path.expanduser("~"), *folders))  # noqa: PTH111 - a string
        except ValueError as error:
            raise EnvironmentFailed(f"sandbox.hosts: {error}") from error
        self._inside_only = reach.environment().keys()
        self._given |= reach.environment()
        self._reach_dropped = when_dropped(self, partial(_starters.run, reach.close))
        return reach

    @property
    def identity(self) -> str:
        return self._kind

    def containment(self) -> Containment:
        """See Contained."""
        held = self._plan.containment()
        return held if self._reach is None or self._reach.has_hosts() else replace(held, has_hosts=False)

    async def allow_writing(self, folder: str) -> None:
        """Make a folder writable from now on, even in the running shell, which keeps its state. Raises EnvironmentFailed."""
        path = plan.existing_folder(folder, "the writable folder")
        if any(is_within(path, one) for one in self.containment().writable):
            return
        wider = self._plan.with_folder(path).prepare()
        self._projects.append(path)
        if self._sandbox is not None:
            await _starters.run(partial(self._sandbox.allow, wider, path))
        self._plan = wider

    def _launcher(self, root: str) -> Sandbox:
        survivor, notice = self._record.find(self._plan.digest()) if self._record else (None, "")
        if survivor is None:
            self._plan = self._plan.prepare()
        else:
            self._plan = replace(self._plan, private=survivor.private, blanked=tuple(survivor.blanked))
            watchdog.leave(root)
            os.rmdir(root)  # noqa: PTH106 - a string everywhere
            self._root = root = survivor.root
        self._sandbox = Sandbox(root, self._plan, self._kind, self._reach, self._record, survivor, notice)
        self._sandbox_dropped = when_dropped(self, partial(_starters.run, self._sandbox.close))
        if self._plan.mode == "workspace" and self._kind == "local:workspace":  # not for the older name bubblewrap
            self._guard = GuardedSandbox(self._sandbox, self._projects)
        return self._sandbox

    def _seen(self, look: Callable[[str], _T], *, again: bool = False) -> _T:
        """Return the result of ``look`` at the sandbox's root folder. If the sandbox ends meanwhile, look again in the next one.

        ``again``: if the sandbox ends, ``look`` may return a wrong result instead of raising an error, so check afterwards.
        """
        self._open()
        assert self._sandbox is not None  # noqa: S101 - _open made it
        for _ in range(_TRIES):
            view = ""
            try:
                with self._sandbox.held() as view:
                    found = look(view)
            except OSError:
                if self._sandbox.serves(view):
                    raise
                continue
            if not again or self._sandbox.serves(view):
                return found
        raise EnvironmentFailed("the sandbox ends right after each start: something kills its processes")

    def _is_folder(self, path: str) -> bool:
        return self._seen(
            lambda view: os.path.isdir(files.resolve_under(view, path, "/", inside=True)),  # noqa: PTH112 - a string with links resolved
            again=True,
        )

    async def _up(self) -> None:
        """Start the sandbox if needed, and mask newly appeared paths, in another thread. Raises EnvironmentFailed."""
        pool, interrupts = self._open(), self._interrupts
        assert self._sandbox is not None  # noqa: S101 - _open made it
        if not self._sandbox.is_up():
            await pool.reserve_room(lambda: not self._closed and self._interrupts == interrupts)
            await _starters.run(self._sandbox.view if self._guard is None else self._guard.start)
        if shown := self._sandbox.shown():
            await _starters.run(partial(self._sandbox.hide, shown))

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        before = self._interrupts
        with self._open().busy():
            await self._up()
            if self._interrupts != before:
                return never_run(self.cwd, self.identity)
            await self._guard_before()
            outcome = await super().execute(request)
        why = self._sandbox.why_ended() if self._sandbox is not None else ""
        reverted = "" if self._guard is None or self._guard.is_as_noted() else await _starters.run(self._guard.after)
        forwarded = self._reach.notices() if self._reach is not None else []
        notice = " ".join(filter(None, [why, reverted, *forwarded, outcome.notice]))
        return replace(outcome, notice=notice) if notice else outcome

    async def _guard_before(self) -> None:
        if self._guard is not None and not self._guard.is_as_noted():
            await _starters.run(self._guard.before)

    def interrupt(self) -> None:
        self._interrupts += 1
        super().interrupt()

    async def _spawn(self, request: ExecRequest, begin: Begin[Spawned]) -> Spawned:
        with self._open().busy():
            await self._up()
            await self._guard_before()
            return await super()._spawn(request, begin)

    async def keep_processes(self, folder: str) -> None:
        """See KeepsProcesses."""
        self._keeps = folder
        if self._record and self._sandbox is not None and self._sandbox.keeps != folder:
            await _starters.run(partial(self._sandbox.keep, lambda: self._keeps))

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
        """Return the command line that starts a shell for the user in a sandbox like this one."""
        self._plan = self._plan.prepare()
        return self._plan.argv(["bash"], person=True)

    def person_network(self) -> NetworkGuard | None:
        """Return the guard of the user's shell's network, or None without ``hosts``. It serves one sandbox at a time."""
        return self._reach

    async def close(self) -> None:
        await self.keep_processes("")
        if self._guard is not None and self._sandbox is not None:  # no shell may write to a copy during the last merge
            await _starters.run(self._sandbox.close)
            await _starters.run(partial(self._guard.after, last=True))
        await super().close()
        if self._sandbox is not None:
            self._sandbox_dropped.detach()
            await _starters.run(self._sandbox.close)
        if self._reach is not None:
            self._reach_dropped.detach()
            await _starters.run(self._reach.close)
        used, self._plan = self._plan, replace(self._plan, private="")
        await _starters.run(used.clean)

    # -- network -------------------------------------------------------------------------------------------------

    async def unknown_hosts(self, hosts: Sequence[str]) -> Sequence[str]:
        """See LimitsHosts."""
        return [] if self._reach is None else await self._reach.unknown(hosts)

    def allowing(self, hosts: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """See LimitsHosts."""
        return contextlib.nullcontext() if self._reach is None else self._reach.allowing(hosts)

    def denied_hosts(self, since: float) -> Sequence[DeniedHost]:
        """See LimitsHosts."""
        return [] if self._reach is None else self._reach.denials(since)

    # -- files ---------------------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        await self._up()
        return self._seen(lambda view: self._own.leads_to(files.resolve_under(view, path, self.cwd), root=view), again=True)

    async def stat(self, path: str) -> FileInfo | None:
        await self._up()
        folder, _, name = path.rstrip("/").rpartition("/")

        def info_in(view: str) -> FileInfo | None:
            return files.info(f"{files.resolve_under(view, folder or '/', self.cwd)}/{name}".replace("//", "/"), view)

        return self._seen(info_in, again=True)

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
        inside = any(path.startswith(f"{folder}/") for folder in self._plan.containment().writable)
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
                where = ", ".join(self._plan.writable)
                raise OSError(
                    errno.EROFS, f"read-only in the sandbox, where /tmp and these are writable: {where}", path
                ) from error
            raise


if TYPE_CHECKING:

    def _conforms(
        sandboxed: SandboxedEnvironment,
    ) -> tuple[Contained, HasOutside, LimitsHosts, KeepsProcesses]:
        return sandboxed, sandboxed, sandboxed, sandboxed
