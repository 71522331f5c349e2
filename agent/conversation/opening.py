"""Opening a session: a new one, or one that is resumed where it ran before."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backends import LOCAL, Location
from agent.config import state_dir
from agent.conversation import modes
from agent.conversation.lineage import Descent, depth_of, is_delegate, kept_lineage, never_ran, peoples_sessions
from agent.conversation.session import Session
from agent.delegates.delegates import Delegates
from agent.handlers import TODOS, TodoStore, loop_handlers
from agent.reports import Reports
from agent.store._owner import new_owner
from toolcrib import EventSink, Principal, RunIdentity, ToolCallContext, ToolcribError, ToolResult
from toolcrib._dataclass import dataclass
from toolcrib._store import Fence, SessionInfo, Store
from toolcrib._types import Handler
from tools.dispatch.scope import Asker

if TYPE_CHECKING:
    from agent.models import ModelChoice
    from agent.workspace import Workspace


_PROJECT = "project"
"""The key of the project folder in what the store keeps of where a session runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Options with which a session is opened; see Crib.open for each field."""

    platform: str = "cli"
    user: str = ""
    roles: Sequence[str] = ()
    asker: Asker | None = None
    suspends: bool = False
    cwd: str | None = None
    backend: str = ""
    enabled: Sequence[str] | None = None
    disabled: Sequence[str] | None = None
    sink: EventSink | None = None
    resume: str = ""
    latest: bool = False
    named: str = ""
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    once: bool = False
    choice: ModelChoice | None = None
    mode: str = ""
    descent: Descent | None = None
    """Inheritance of a delegate's session from its parent's; None for a session of a person's."""

    @property
    def principal(self) -> Principal:
        """The principal that the session belongs to."""
        return Principal(self.platform, self.user, tuple(self.roles))


async def open_session(here: Workspace, wanted: Opening) -> Session:
    """Raises as Crib.open."""
    old = await _stored(here, wanted)
    here = workspace_of(here, old)
    if here.grants.problem is not None:
        raise here.grants.problem
    before = {} if old is None else old.place
    mode = modes.first_mode(here.config.approval.mode, before, wanted.mode)
    descent = wanted.descent
    location = _location(here, wanted.backend, wanted.cwd, old) if descent is None else descent.location
    place = {**_record(here, location), **modes.kept(mode, before, wanted.mode), **kept_lineage(before)}
    place |= {} if descent is None else descent.place
    location = replace(location, backend=location.backend.fleeting) if wanted.once else location
    session_id = old.id if old is not None else wanted.named or secrets.token_hex(16)
    identity = RunIdentity(session_id, platform=wanted.platform, user=wanted.user, roles=tuple(wanted.roles))
    names = _names(here, wanted, place)
    todos, fence = TodoStore(), Fence()
    store = here.store.fenced(fence)
    asker = wanted.asker
    if asker is not None or not wanted.suspends:  # a model's silence would be a no, and nothing would be parked
        asker = here.behind_model(asker, wanted.platform, lambda event: session.watch(event))
    reports = Reports(lambda event: session.watch(event), wanted.sink)
    delegates = Delegates(here, location, depth_of(place), alone=wanted.once, handlers=wanted.handlers)
    scope = here.scope(
        identity,
        names,
        location,
        store=store,
        asker=asker,
        suspends=wanted.suspends,
        sink=reports,
        handlers=dict(loop_handlers(todos))
        | _recalling(here, session_id, location, store, lambda: session)
        | {**delegates.handlers, **wanted.handlers},
    )
    session = Session(
        scope,
        names,
        location.backend,
        store=store,
        fence=fence,
        owner=new_owner(),
        dispatcher=here.dispatcher,
        config=here.config,
        providers=here.providers,
    )
    session.delegates, delegates.session, session.reports = delegates, session, reports
    session.link.learned = here.windows_learned
    session.mode.apply(mode)
    _give_prompt(here, session, location)
    session.on_state = lambda state: todos.write(state.get(TODOS.name) or [])
    session.before = here.start_plugins
    session.outfit = here.outfit(session, wanted.enabled, wanted.disabled, within=None if descent is None else descent.names)
    if old is None:
        await _create(here, wanted, session, location, place)
        return session
    if old.place != place:
        await store.sessions.update(session_id, place=place)
    await session.look()
    return session


def _recalling(
    here: Workspace, session_id: str, location: Location, store: Store, session: Callable[[], Session]
) -> dict[str, Handler]:
    """Return the handlers of the tools that reach beyond the session's own conversation. What they need loads with their first
    call: the session's first request does not wait for it.
    """
    folder = None if location.backend.is_remote else location.start

    def memory(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        from agent.memory.handler import MemoryKeeper

        most = here.config.memory.max_chars
        return MemoryKeeper(session_id, folder, here.project_dir, most, session().scope.redactor.text).handle(args, ctx)

    async def search(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        from agent.searching import SessionSearch

        who, transcript = ctx.run_identity.principal, session().transcript if session().model else None
        return await SessionSearch(store, session_id, who, location.start, transcript).handle(args, ctx)

    return {"memory": memory, "session_search": search}


async def _create(here: Workspace, wanted: Opening, session: Session, location: Location, place: Mapping[str, str]) -> None:
    """Keep a new session in the store."""
    via = _asked(here, wanted)
    platform, user, model = wanted.platform, wanted.user, via.get("model", "")
    create = session.store.sessions.create
    await create(session.id, platform=platform, user=user, model=model, cwd=location.start, place=place, via=via)


def _names(here: Workspace, wanted: Opening, place: Mapping[str, str]) -> list[str]:
    """Return the tools of the session: those that its platform grants, or that its parent gave it."""
    if wanted.descent is not None:
        return list(wanted.descent.names)
    names = here.granted(wanted.platform, wanted.enabled, wanted.disabled, wanted.user)
    return names if depth_of(place) < here.config.delegates.max_depth else [name for name in names if name != "delegate_task"]


def _give_prompt(here: Workspace, session: Session, location: Location) -> None:
    """Say what the session's model is to be told of where it is; it is looked up when a model is first asked."""
    from agent.prompt import basis_of, look_around

    wanted, redact = here.config.instructions.enabled, session.scope.redactor.text
    session.prompt.basis = basis_of(location, here.project_dir, instructions=wanted)
    session.prompt.look = lambda: look_around(location, here.project_dir, instructions=wanted, redact=redact)
    if here.config.remembers:
        session.prompt.recall = lambda: _recalled(here, session, location)


def _recalled(here: Workspace, session: Session, location: Location) -> str:
    """Return what a model is told of the memory of whom the session was opened for."""
    if not (state_dir() / "memory").is_dir():  # before what reads it is loaded
        return ""
    from agent.memory.telling import recalled

    folder = None if location.backend.is_remote else location.start
    limit, redact = here.config.memory.max_chars, session.scope.redactor.text
    return recalled(session.opened_for.principal, folder, here.project_dir, limit, redact)


def _asked(here: Workspace, wanted: Opening) -> Mapping[str, str]:
    """Return what a new session asks: who resumes it after a crash need not name the model again."""
    if wanted.descent is not None:
        return wanted.descent.via
    if wanted.choice is None:
        return {}
    from agent.models import asked_by

    return asked_by(here.config, wanted.choice, here.providers)


def workspace_of(here: Workspace, old: SessionInfo | None) -> Workspace:
    """Return the workspace that a stored session belongs to, from whichever folder it is resumed: its rules are the session's."""
    folder = "" if old is None else old.place.get(_PROJECT, "")
    return here if not folder or Path(folder) == here.project_dir or not Path(folder).is_dir() else here.beside(Path(folder))


def _record(here: Workspace, location: Location) -> dict[str, str]:
    """Return what the store keeps of where a session runs."""
    return {**location.record(), _PROJECT: str(here.project_dir)}


async def find_session(here: Workspace, prefix: str) -> SessionInfo:
    """Return the stored session whose id begins so. Raises ToolcribError where there is none, or more than one."""
    found = await here.store.sessions.get(prefix)
    if found is None:
        raise ToolcribError(f"no session begins with {prefix!r}; `toolcrib sessions` lists them")
    return found


def first_location(here: Workspace, name: str = "") -> Location:
    """Return where a session that begins now would run, in the backend with that name. Raises ConfigError."""
    return _location(here, name, None, None)


def location_of(here: Workspace, info: SessionInfo, name: str = "") -> Location:
    """Return where a stored session runs, or the backend with that name. Raises ConfigError and ToolcribError."""
    return _location(here, name, None, info)


class NothingToContinue(ToolcribError):
    """No session of the folder is stored that could be continued."""


async def _stored(here: Workspace, wanted: Opening) -> SessionInfo | None:
    if wanted.resume:
        return await _resumable(here, await find_session(here, wanted.resume))
    if wanted.named:
        return await here.store.sessions.get(wanted.named)
    if not wanted.latest:
        return None
    cwd = wanted.cwd if wanted.cwd is not None and not here.backends.get(wanted.backend).is_remote else _start(here)
    found = await _latest(here, wanted, cwd)
    if found is None:
        raise NothingToContinue(
            f"there is no session of this folder ({cwd}) or of its project above to continue; `toolcrib sessions` lists all"
        )
    return found


async def _resumable(here: Workspace, info: SessionInfo) -> SessionInfo:
    """Return the session. Raises ToolcribError for a delegate's that is at work: its parent alone says what it may do."""
    if not is_delegate(info.place) or await here.store.runs.current(info.id) is None:
        return info
    from agent.conversation.answers import persons_session

    above = await persons_session(here.store, info.id)
    if above == info.id:
        return info
    raise ToolcribError(
        f"the session {info.id[:12]} is a delegate's, and at work for {above[:12]}, which goes on with both:"
        f" toolcrib run --resume {above[:12]}"
    )


async def _latest(here: Workspace, wanted: Opening, cwd: str | None) -> SessionInfo | None:
    """Return the session of a person's that was used last in the folder, else in the nearest one above of the same project:
    nobody means that of a delegate.
    """
    for folder in (cwd, *_above(cwd)):
        found = await peoples_sessions(here.store.sessions, 1, platform=wanted.platform, user=wanted.user, cwd=folder)
        if found:
            return found[0]
    return None


def _above(cwd: str | None) -> Iterator[str]:
    """Return the folders above one, the nearest first, up to the root of its project."""
    from agent.instructions import project_root

    if cwd is not None and Path(cwd).is_dir():
        folder = Path(cwd).resolve()
        root = project_root(folder, folder)
        yield from (str(above) for above in folder.parents if above.is_relative_to(root))


def _is_within(folder: str, project: Path) -> bool:
    """Return whether a folder that a file names is the project's, or one below: elsewhere nobody chose to work."""
    return Path(folder).resolve().is_relative_to(project.resolve())


def _start(here: Workspace) -> str:
    """Return the folder that sessions start in, where nobody names another."""
    return here.config.terminal.cwd or str(here.project_dir)


def _location(here: Workspace, name: str, cwd: str | None, old: SessionInfo | None) -> Location:
    """Return where a session runs: where it ran, unless somebody names a backend. Raises ConfigError and ToolcribError."""
    start = _start(here)
    imported = old is not None and never_ran(old.place)
    if old is None or name or not old.place or imported:
        backend, chosen = here.backends.get(name), bool(name)
        if old is not None and not name and not imported and backend.kind != LOCAL:
            raise ToolcribError(
                f"the session {old.id[:12]} is from before sessions were bound to backends, and {backend.name} may not be where "
                "it ran: name the backend that it shall continue in (--backend NAME)"
            )
    else:
        backend, chosen = here.backends.again(old.place, old.id), "chosen" in old.place
        cwd = cwd or old.place.get("cwd")
    if old is not None and old.cwd and Path(old.cwd).is_dir() and not (imported and not _is_within(old.cwd, here.project_dir)):
        start = old.cwd
    return Location(backend, start, cwd, chosen) if backend.is_remote else Location(backend, cwd or start, None, chosen)
