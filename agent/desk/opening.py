"""Open a session: create a new one, or resume a stored one where it ran before."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backends import Location
from agent.background.serving import ProcessServer
from agent.config import state_dir
from agent.conversation import modes
from agent.conversation.core import WorkspaceShare
from agent.conversation.lineage import BOUNDS, DELEGATE, depth_of, is_delegate, kept_lineage
from agent.conversation.locating import PROJECT, find_session
from agent.conversation.session import Session
from agent.delegates.delegates import Delegates
from agent.delegates.starting_point import StartingPoint
from agent.reports import Reports
from agent.store._owner import new_owner
from agent.todo import TODOS, TodoStore, loop_handlers
from toolcrib.contract.context import RunIdentity, ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import real_path
from toolcrib.contract.store import Fence, SessionInfo, Store
from toolcrib.contract.types import Handler, ToolResult
from tools.approval.policy import Policy, with_toolset

if TYPE_CHECKING:
    from agent.desk.request import SessionRequest
    from agent.events import Emit
    from agent.workspace import Workspace
    from tools.dispatch.scope import Asker


async def open_session(here: Workspace, wanted: SessionRequest) -> Session:
    """Open the session of a request in a workspace. Raises what Crib.open raises."""
    old = await _stored(here, wanted)
    here = here if old is None else here.workspace_of(old)
    if here.grants.problem is not None:
        raise here.grants.problem
    before = {} if old is None else old.place
    mode = modes.first_mode(here.config.approval.mode, before, wanted.mode)
    descent = wanted.descent
    location = here.location(wanted.backend, wanted.cwd, info=old) if descent is None else descent.location
    place = {**_record(here, location), **modes.kept(mode, before, wanted.mode), **kept_lineage(before)}
    place |= {} if descent is None else descent.place
    names = _names(here, wanted, place)
    place |= _bounds(wanted, names, before)
    names = names if wanted.principal.is_local else _bounded(names, place)
    location = replace(location, backend=location.backend.fleeting) if wanted.once else location
    session_id = old.id if old is not None else wanted.named or secrets.token_hex(16)
    identity = RunIdentity(session_id, platform=wanted.platform, user=wanted.user, roles=tuple(wanted.roles))
    todos, fence = TodoStore(), Fence()
    store = here.store.fenced(fence)
    asker = _asker(here, wanted, lambda event: session.watch(event))
    reports = Reports(lambda event: session.watch(event), wanted.sink)
    delegates = Delegates(_starting_point(here, wanted, location, place), alone=wanted.once or wanted.delegates == "awaited")
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
        | ({"send_message": _sending(here, store)} if "send_message" in names else {})
        | {**delegates.handlers, **(wanted.handlers or {})},
    )
    if descent is None and here.config.snapshots.enabled:  # a delegate shares its parent's snapshots
        from agent.snapshots import give_snapshots

        give_snapshots(scope, here.config, location, store.changes)
    session = Session(scope, names, location.backend, _share(here), store=store, fence=fence, owner=new_owner())
    session.delegates, delegates.session, session.reports = delegates, session, reports
    session.process_server = ProcessServer(scope, here.store)
    session.link.learned = here.windows_learned
    session.mode.apply(mode)
    _give_prompt(here, session, location)
    session.on_state = lambda state: todos.write(state.get(TODOS.name) or [])
    session.before = here.start_plugins
    _apply(here, wanted, session, place)
    if old is None:
        await _create(here, wanted, session, location, place)
        return session
    if old.place != place:
        await store.sessions.update(session_id, place=place)
    await session.refresh()
    if wanted.leaves_open and await session.waits_for_answers() and await store.tickets.pending(session_id):
        session.scope.asker = None  # a refusal would settle a ticket that the user may answer elsewhere
    return session


def _asker(here: Workspace, wanted: SessionRequest, watch: Emit) -> Asker | None:
    """Return the asker of the request. The model of approval.smart is asked before it, if that model may approve here."""
    if not wanted.smart or (wanted.asker is None and wanted.suspends):  # with an asker, calls would be denied, not parked
        return wanted.asker
    return here.behind_model(wanted.asker, wanted.platform, watch)


def _bounds(wanted: SessionRequest, names: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the entry for a session's bounds: the request's, or the stored ones if the request resumes the session."""
    if wanted.without or wanted.within is not None:
        return {BOUNDS: " ".join(names)}
    return {BOUNDS: before[BOUNDS]} if wanted.resume and BOUNDS in before else {}


def _bounded(names: Sequence[str], place: Mapping[str, str]) -> list[str]:
    """Return the tools within the session's bounds."""
    most = place[BOUNDS].split() if BOUNDS in place else names
    return [name for name in names if name in most]


def _apply(here: Workspace, wanted: SessionRequest, session: Session, place: Mapping[str, str]) -> None:
    """Apply the request's settings for runs to a session."""
    scope, link = session.scope, session.link
    is_bounded = wanted.descent is not None or bool(wanted.without) or wanted.within is not None
    within = list(session.names) if is_bounded else None
    others = place[BOUNDS].split() if BOUNDS in place else None
    session.outfit = here.outfit(session, wanted.enabled, wanted.disabled, within=within, others=others)
    session.watch = wanted.watch
    session.delegates.asks_at_once = wanted.delegates == "anytime"
    link.choice, link.instructions = wanted.choice, wanted.instructions
    link.admits, link.more_turns = wanted.admits, wanted.more_turns
    if wanted.limits is not None:
        session.limits = wanted.limits
    elif wanted.max_turns is not None and here.config.origin("max_turns") == "default":
        session.limits = replace(session.limits, max_turns=wanted.max_turns)
    if wanted.tool_rules is not None and isinstance(scope.policy, Policy):
        scope.policy = replace(scope.policy, tool_rules=with_toolset(wanted.tool_rules))
    if wanted.whole_results:
        scope.keep_spill, scope.artifacts = True, None
    if (who := wanted.acts_for) is not None:
        scope.identity = session.opened_for = RunIdentity(session.id, "", "", who.user, who.platform, who.roles, who.speaker)


def _share(here: Workspace) -> WorkspaceShare:
    """Return the part of the workspace that its sessions use."""
    return WorkspaceShare(
        config=here.config,
        providers=here.providers,
        registry=here.registry,
        hooks=here.hooks,
        definitions=here.definitions,
        dispatcher=lambda: here.dispatcher,
    )


def _starting_point(here: Workspace, wanted: SessionRequest, location: Location, place: Mapping[str, str]) -> StartingPoint:
    """Return the starting point for the session's delegates."""
    return StartingPoint(
        open=here.open_by,
        store=here.store,
        project_dir=here.project_dir,
        location=location,
        depth=depth_of(place),
        handlers=wanted.handlers or {},
    )


def _recalling(
    here: Workspace, session_id: str, location: Location, store: Store, session: Callable[[], Session]
) -> dict[str, Handler]:
    """Return the handlers of the tools that reach beyond the session's own conversation.

    Their modules load with the first call, so the session's first request does not wait for them.
    """
    folder = None if location.backend.is_remote else location.start

    def memory(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        from agent.memory.handler import MemoryKeeper

        most = here.config.memory.max_chars
        return MemoryKeeper(session_id, folder, here.project_dir, most, session().scope.redactor.text).handle(args, ctx)

    async def search(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        from agent.searching import SessionSearch

        who, transcript = ctx.run_identity.principal, session().transcript if session().model else None
        summariser = session().summariser if here.config.sessions.summaries else None
        redact = session().scope.redactor.text
        search = SessionSearch(store, session_id, who, location.start, transcript, summariser, redact)
        return await search.handle(args, ctx)

    async def jobs(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
        from agent.cron.handler import JobTool

        backend = location.backend.name if location.chosen else ""
        return await JobTool(here.store, here.config, session_id, location.start, backend).handle(args, ctx)

    return {"memory": memory, "session_search": search, "cronjob": jobs}


def _sending(here: Workspace, store: Store) -> Handler:
    """Return the handler of ``send_message``, which stores messages for any gateway to send."""
    from agent.gateway.messages import MessageSender

    return MessageSender(store, lambda: here.config, here.redactor().text)


async def _create(
    here: Workspace, wanted: SessionRequest, session: Session, location: Location, place: Mapping[str, str]
) -> None:
    """Store a new session."""
    via = _asked(here, wanted)
    platform, user, model = wanted.platform, wanted.user, via.get("model", "")
    create = session.store.sessions.create
    descent = {} if wanted.descent is None else {"parent": wanted.descent.parent, "why": DELEGATE}
    await create(session.id, platform=platform, user=user, model=model, cwd=location.start, place=place, via=via, **descent)


def _names(here: Workspace, wanted: SessionRequest, place: Mapping[str, str]) -> list[str]:
    """Return the tools of the session: those granted to its platform, or given by its parent."""
    if wanted.descent is not None:
        return list(wanted.descent.names)
    names = here.granted(wanted.platform, wanted.enabled, wanted.disabled, wanted.user)
    names = [name for name in names if name not in wanted.without and (wanted.within is None or name in wanted.within)]
    if depth_of(place) < here.config.delegates.max_depth:
        return names
    return [name for name in names if (entry := here.registry.get(name)) is None or entry.needs != "delegates"]


def _give_prompt(here: Workspace, session: Session, location: Location) -> None:
    """Set how the session's prompt finds its surroundings and memory; it reads them before the first request to a model."""
    from agent.context.prompt import basis_of, look_around

    wanted, redact = here.config.instructions.enabled, session.scope.redactor.text
    session.prompt.basis = basis_of(location, here.project_dir, instructions=wanted)
    session.prompt.find_surroundings = lambda: look_around(
        location, here.project_dir, instructions=wanted, redact=redact, own=here.backends.own
    )
    if here.config.remembers:
        session.prompt.recall = lambda: _recalled(here, session, location)


def _recalled(here: Workspace, session: Session, location: Location) -> str:
    """Return the prompt's text about the memory of the session's owner."""
    if not (state_dir() / "memory").is_dir():  # without memory, the module that reads it is not loaded
        return ""
    from agent.memory.telling import recalled

    folder = None if location.backend.is_remote else location.start
    limit, redact = here.config.memory.max_chars, session.scope.redactor.text
    return recalled(session.opened_for.principal, folder, here.project_dir, limit, redact)


def _asked(here: Workspace, wanted: SessionRequest) -> Mapping[str, str]:
    """Return the provider and model of a new session. They are stored, so that a request to resume it need not name them."""
    if wanted.descent is not None:
        return wanted.descent.via
    if wanted.choice is None:
        return {}
    from agent.model_choice.models import asked_by

    return asked_by(here.config, wanted.choice, here.providers)


def _record(here: Workspace, location: Location) -> dict[str, str]:
    """Return the entries of ``SessionInfo.place`` about the backend and folder of a session."""
    return {**location.record(), PROJECT: str(here.project_dir)}


class NothingToContinue(ToolcribError):
    """The folder has no stored session to continue."""


async def _stored(here: Workspace, wanted: SessionRequest) -> SessionInfo | None:
    if wanted.resume:
        return await _resumable(here, await find_session(here.store, wanted.resume))
    if wanted.named:
        return await here.store.sessions.get(wanted.named)
    if not wanted.latest:
        return None
    cwd = wanted.cwd if wanted.cwd is not None and not here.backends.get(wanted.backend).is_remote else here.start
    found = await _latest(here, wanted, cwd)
    if found is None:
        raise NothingToContinue(
            f"there is no session of this folder ({cwd}) or its project to continue. List sessions: toolcrib sessions"
        )
    return found


async def _resumable(here: Workspace, info: SessionInfo) -> SessionInfo:
    """Return the session. Raises ToolcribError for a running delegate's session: only its parent controls it."""
    if not is_delegate(info) or await here.store.runs.current(info.id) is None:
        return info
    from agent.conversation.answers import persons_session

    above = await persons_session(here.store, info.id)
    if above == info.id:
        return info
    raise ToolcribError(
        f"the session {info.id[:12]} belongs to a running delegate of {above[:12]}. Resume that session to continue both:"
        f" toolcrib run --resume {above[:12]}"
    )


async def _latest(here: Workspace, wanted: SessionRequest, cwd: str | None) -> SessionInfo | None:
    """Return the user's most recent session of the folder, or of the nearest folder above in the same project.

    Sessions of delegates are ignored.
    """
    for folder in (cwd, *_above(cwd)):
        found = await here.store.sessions.list(1, platform=wanted.platform, user=wanted.user, cwd=folder, delegates=False)
        if found:
            return found[0]
    return None


def _above(cwd: str | None) -> Iterator[str]:
    """Yield the parent folders of a folder, nearest first, up to the root of its project."""
    from agent.context.instructions import project_root

    if cwd is not None and Path(cwd).is_dir():
        folder = real_path(cwd)
        root = project_root(folder, folder)
        yield from (str(above) for above in folder.parents if above.is_relative_to(root))
