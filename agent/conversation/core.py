"""SessionCore: the state of a session, created once and shared by the parts that drive its runs."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.holding import Holding
from agent.conversation.limits import RunLimits
from agent.conversation.link import ModelLink
from agent.conversation.modes import SessionMode
from agent.conversation.process_notices import ProcessNotices
from agent.conversation.prompting import SessionPrompt
from agent.conversation.remembered import read_state
from agent.conversation.single_requests import SingleRequests
from agent.conversation.transcript import Record, Transcript
from agent.conversation.turnstile import Turnstile
from agent.delegates.interface import SessionDelegates
from agent.plugin_host.run_hooks import call_hook
from toolcrib.contract.context import Principal, RunIdentity
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.deprecated import old_name
from toolcrib.contract.display import NO_DISPLAY, ToolDisplay
from toolcrib.contract.environment import ReleasesIdle, Restable
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderTurn
from toolcrib.contract.store import Fence, SessionInfo, Store
from tools.approval.policy import Policy
from tools.dispatch.scope import CallScope
from tools.processes.records import PROCESSES, not_ended

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.background.serving import ProcessServer
    from agent.config import Config
    from agent.context.summarising import Summariser
    from agent.conversation.state import RunState
    from agent.conversation.titling import TitleDraft
    from agent.events import Emit
    from agent.model_choice.models import ModelChoice
    from agent.providers.factory import Plugins
    from agent.reports import Reports
    from toolcrib.contract.entry import ToolEntry
    from toolcrib.contract.registry import ToolRegistry
    from toolcrib.contract.session import ProviderSession
    from toolcrib.contract.types import ToolCall
    from tools.dispatch.hooks import HookManager
    from tools.dispatch.pipeline import Dispatcher
    from tools.processes.table import ProcessTable


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceShare:
    """The part of a workspace that its sessions use. ``providers`` are those of plugins.

    ``definitions`` returns the schemas of the named tools as a model sees them in a session with the given backend.
    ``dispatcher`` returns the process's dispatcher and creates it on the first call.
    """

    config: Config
    providers: Plugins
    registry: ToolRegistry
    hooks: HookManager
    definitions: Callable[[Sequence[str], Backend], list[Any]]
    dispatcher: Callable[[], Dispatcher]


class SessionCore:
    """State of a session, recorded in ``store``. ``names`` are its granted tools.

    ``share`` comes from its workspace. ``store`` is fenced by ``fence``: when another process has taken over the session, the
    store refuses writes of this process. ``owner`` names this process. ``open_model`` opens a provider session for a choice of
    model.
    """

    def __init__(
        self,
        scope: CallScope,
        names: Sequence[str],
        backend: Backend,
        share: WorkspaceShare,
        *,
        store: Store,
        fence: Fence,
        owner: str,
        open_model: Callable[[ModelChoice | None], Awaitable[ProviderSession]],
    ) -> None:
        self.scope = scope
        self.names = list(names)
        self.backend = backend
        self.store = store
        self.config = share.config
        self.providers = share.providers
        self._share = share
        self.limits = RunLimits.of(share.config)
        self.transcript = Transcript(store, scope.identity.session_id)
        self.prompt = SessionPrompt(scope, store, self.transcript, backend, lambda: self.opened_for.principal.key)
        self.link = ModelLink(self.transcript, self.prompt, open_model, share.config.model.context_window)
        self.turnstile = Turnstile()
        self.mode = SessionMode(scope, store)
        self.holding = Holding(store, scope.identity.session_id, fence, scope.interrupt, owner)
        self.watch: Emit = lambda event: None
        """Called with each event of runs and calls."""
        self.outfit: Callable[[Principal], None] | None = None
        """Sets the tools and the approval policy for a run of the given principal."""
        self.on_state: Callable[[Mapping[str, Any]], None] = lambda state: None
        """Called with the session's state each time ``refresh`` has read it."""
        self.before: Callable[[], Awaitable[None]] | None = None
        """Awaited by ``start``; starts the process's plugins unless they are started."""
        self.delegates = SessionDelegates()
        self.reports: Reports
        """Receives progress reports of calls and passes them to ``watch``."""
        self.single_requests = SingleRequests(self)
        self.run: RunState | None = None
        """The latest run, as of its last step."""
        self.opened_for = scope.identity
        """Identity of the session's owner; another principal may start a run in it."""
        scope.tell_processes = ProcessNotices(self).tell
        scope.on_processes = self._begin_processes
        self.on_processes: Callable[[], None] = lambda: None
        """Called, from any thread, when ``running_processes`` has changed."""
        self.process_server: ProcessServer | None = None
        """Answers other processes about the session's background processes."""
        self.is_open = True
        """False once the session is closed."""
        self._started = False
        self._title: TitleDraft | None = None

    @property
    def dispatcher(self) -> Dispatcher:
        """Dispatcher of the session's calls; the process creates it on first use."""
        return self._share.dispatcher()

    @property
    def works_in_background(self) -> bool:
        """True if closing the session would end background delegates or processes."""
        return bool(self.delegates.at_work or self.running_processes)

    @property
    def running_processes(self) -> Sequence[str]:
        """Names of the background processes that run, as far as this process knows. Before it has looked, these are all that an
        earlier process recorded.
        """
        table = self.scope.opened_processes
        if table is not None:
            return sorted(table.names)
        return sorted(not_ended(self.scope.state.get(PROCESSES.name)))

    def _begin_processes(self, table: ProcessTable) -> None:
        table.on_names = lambda: self.on_processes()
        if self.process_server is not None:
            self.process_server.begin(table)

    def busy(self) -> None:
        """Send the event that another process is working on the session."""
        from agent.events import SessionBusy

        self.watch(SessionBusy(self.id))

    # -- the model -----------------------------------------------------------------------------------------------

    @property
    def via(self) -> Mapping[str, Any]:
        """The provider, model and base_url in use; empty if the user types the calls."""
        return self.link.via

    @property
    def wire(self) -> str:
        """The wire in use; "manual" if the user types the calls."""
        return self.link.wire

    @property
    def model(self) -> str:
        """The name of the model in use; "" if the user types the calls or no model is connected yet."""
        return self.link.name

    async def provider(self) -> ProviderSession:
        """Return the provider session, opened if needed."""
        return await self.link.opened()

    def tell_model(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add a message for the model without starting a run."""
        self.link.add_message(text, images)

    async def hand_over(self, turn: ProviderTurn | None, executed: Sequence[ExecutedCall]) -> None:
        """Hand a turn and its results to the provider session."""
        await self.link.hand_over(turn, executed)

    async def note_model(self, via: Mapping[str, str], *, for_good: bool) -> None:
        """Record the session's current model. With ``for_good`` the session also uses it when it is resumed."""
        known = await self.transcript.info()
        stored = None if known is None or not for_good or known.via == via else via
        model = via.get("model")
        if stored is not None or (model is not None and known is not None and known.model != model):
            await self.store.sessions.update(self.id, model=model, via=stored)

    def summariser(self) -> Summariser | None:
        """Return the session's summariser; None if the user types the calls, or the caller supplied the provider session.

        Raises ConfigError with the setting to change.
        """
        if self.link.is_given or not self.via:
            return None
        from agent.context.summarising import Summariser

        return Summariser.of(self.config, self.via, self.providers, self.limits.retry)

    # -- records and state ---------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self.scope.identity.session_id

    @property
    def identity(self) -> RunIdentity:
        """The identity of the session's runs."""
        return self.scope.identity

    async def info(self) -> SessionInfo | None:
        """Return the session's row in the store."""
        return await self.transcript.info()

    async def refresh(self) -> None:
        """Read what another process may have changed: the records, the session's state and its mode."""
        await self.mode.refresh()
        await read_state(self.store, self.scope, self.transcript)
        self.on_state(self.scope.state)

    look = old_name(refresh, "look")

    def forget_origins(self) -> None:
        """Forget the origins of files, so that they are read again: another process may have downloaded files meanwhile."""
        if isinstance(self.scope.policy, Policy):
            self.scope.policy.files.forget(self.id)

    async def keep(self, state: RunState, messages: Sequence[Record] = (), taken: Sequence[int] = ()) -> RunState:
        """Store a step of a run and return its state. If the step is already stored, return the stored state instead."""
        messages = self.transcript.marked(messages)
        if await self.store.runs.commit(state.record(), messages=messages, taken=taken):
            self.transcript.added(messages)
            if messages and messages[0]["role"] == "assistant" and "broken" not in messages[0]:
                self.link.took(len(messages))
            if state.first == 0 and state.stopped == "done" and self.config.sessions.titles == "model":
                from agent.conversation.titling import TitleDraft

                redact = self.scope.redactor.text
                self._title = TitleDraft(self.store, self.transcript, self.summariser, redact, state.text)
        else:
            known = await self.store.runs.get(state.id)
            await self.transcript.reload_if_changed()
            state = state if known is None else type(state).of(known)
        self.run = state
        return state

    # -- tools ---------------------------------------------------------------------------------------------------

    @property
    def definitions(self) -> list[Any]:
        """The schemas that the model sees; shared and read-only."""
        return self._share.definitions(self.names, self.backend)

    def emoji(self, name: str) -> str:
        """Return the tool's emoji, or "" if it has none."""
        return self.display(name).emoji

    def display(self, name: str) -> ToolDisplay:
        """Return how to display calls of the tool."""
        entry = self._share.registry.get(name)
        return NO_DISPLAY if entry is None else entry.display.with_emoji(entry.emoji)

    def polls(self, call: ToolCall) -> bool:
        """Return whether the call's tool declares that such a call waits for a change."""
        entry = self._share.registry.get(call.name)
        if entry is None or not callable(entry.polls):
            return entry is not None and entry.polls is True
        try:
            return bool(entry.polls(call.args))
        except Exception:  # noqa: BLE001 - a plugin's function, and arguments of any form
            return False

    @property
    def file_arguments(self) -> dict[str, str]:
        """Maps each tool that works on files, granted or not, to its argument that names the file."""
        return {entry.name: entry.file for entry in self._share.registry.entries() if entry.file}

    @property
    def entries(self) -> list[ToolEntry]:
        """The registry entries of the session's granted tools."""
        return [entry for name in self.names if (entry := self._share.registry.get(name)) is not None]

    # -- start and hooks -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the plugins and call their hook ``on_session_start``, before any work in the session. Later calls do nothing."""
        if self.before is not None:
            await self.before()
        if not self._started:
            self._started = True
            await self.call_hook("on_session_start")

    async def call_hook(self, hook: str, **values: Any) -> None:
        """Call a hook of each plugin that has it; see agent.plugin_host.run_hooks."""
        await call_hook(self._share.hooks, hook, self.scope, identity=self.identity, **values)

    tell = old_name(call_hook, "tell")

    async def release_idle(self) -> None:
        """Close the connection to the model, and idle shells. The next call continues as before."""
        await self.link.release_idle()
        environment = self.scope.opened
        if environment is not None and isinstance(environment, ReleasesIdle):
            await environment.release_idle()
        elif environment is not None and isinstance(environment, Restable):  # a plugin's environment, which has only the old name
            name = type(environment).__name__
            warnings.warn(f"{name}.rest is an old name: call it release_idle", DeprecationWarning, stacklevel=1)
            await environment.rest()

    rest = old_name(release_idle, "rest")
