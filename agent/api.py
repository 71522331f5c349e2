"""The composition root, which creates and connects all parts.

A model with tools, in ten lines:

    from toolcrib import Agent

    with Agent(model="qwen3-coder", base_url="http://127.0.0.1:11434/v1", project_dir="~/project") as agent:
        reply = agent.ask("Which test fails, and why?")
        print(reply.text, reply.usage)
        print(agent.ask("Fix it.").text)      # the same conversation
        print(agent.ask("Which files?", schema=list[str]).data)

    async with Agent(model="gpt-5", asker=my_asker) as agent:    # asker(ticket, ctx) decides approval requests
        async for event in agent.stream("Tidy the build folder."):
            print(event)

``agent.api`` also exports RunResult and RunStream. ``toolcrib`` has TextDelta, ToolFinished and the other events, and
``agent.conversation.limits`` has RunError and its subclasses, such as MaxTurnsReached, NoProgress and AnswerUnfit.

To use the tools without a model, use ``from agent.api import assemble``:

    with assemble() as crib:
        session = crib.open_session(platform="api")
        print(session.call("read_file", {"path": "README.md"}).result.data)
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from agent.config import Config, contents_path, load_config, state_dir
from agent.desk.request import SessionRequest
from agent.policy.confirmation import require_confirmed
from agent.process import Crib
from agent.store import RECORD, is_link
from toolcrib.contract.derive import entry_of
from toolcrib.contract.errors import ConfigError, ToolcribError, ToolsetError
from toolcrib.contract.image import Image
from toolcrib.contract.late import late
from toolcrib.contract.paths import real_path, with_home
from toolcrib.contract.store import Settled, Store
from toolcrib.contract.types import Answer
from tools.dispatch.bridge import is_loop_running, run_async
from tools.dispatch.scope import Asker

if TYPE_CHECKING:
    from agent.conversation.limits import RunLimits
    from agent.conversation.session import Session
    from agent.conversation.state import RunResult
    from agent.events import Emit, Event
    from agent.policy.tool_selection import ToolLine
    from agent.run_stream import RunStream
else:  # most callers of assemble open no session
    __getattr__ = late(
        __name__,
        {
            "RunLimits": "agent.conversation.limits",
            "RunResult": "agent.conversation.state",
            "RunStream": "agent.run_stream",
            "Session": "agent.conversation.session",
            "ToolLine": "agent.policy.tool_selection",
        },
    )

T = TypeVar("T")
_log = logging.getLogger(__name__)
_CLOSE_LIMIT = 10.0
"""Seconds that ``aclose`` waits for interrupted replies to end."""

__all__ = ["Agent", "Crib", "RunLimits", "RunResult", "RunStream", "Session", "ToolLine", "assemble"]


def assemble(
    *,
    config: Config | None = None,
    config_file: Path | None = None,
    profile: str | None = None,
    project_dir: Path | None = None,
    store: Store | None = None,
) -> Crib:
    """Return a Crib: all parts of toolcrib in one process. A given ``config`` is used as it is; otherwise ``config_file`` or the
    user's own file is read.

    Raises ConfigError with every fault of the configuration, UnconfirmedConfig if the file has unconfirmed changes (a given
    ``config`` is not checked for them), and StoreFailed if sessions can't be stored. ``Crib.plugins`` reports plugins that fail.
    """
    if config is None:
        config = require_confirmed(load_config(config_file, profile=profile, project_dir=project_dir or Path.cwd()))
    return Crib(config, project_dir, store or open_store(config))


def open_store(config: Config, *, late: bool = False, looks: bool = False) -> Store:
    """Return the configured store. Raises StoreFailed, and ConfigError for an unusable server.

    With ``late`` the store is opened, and StoreFailed raised, at first use. With ``looks`` no file is created for a store that
    does not exist yet, and a store file that can't be written is opened for reading only.
    """
    if not config.store.enabled or (looks and config.store_url is None and _never_stored(config)):
        from agent.store.memory import MemoryStore

        return MemoryStore()
    if config.store_url is not None:
        from agent.store.postgres.store import PostgresStore

        return PostgresStore(config.store_url, late=late)
    if looks and is_frozen(config.store_path):
        from agent.store.frozen import FrozenStore

        return FrozenStore(config.store_path)
    from agent.store.sqlite import SqliteStore

    return SqliteStore(
        config.store_path, synchronous=config.store.synchronous, late=late, backups=True, evidence=evidence_of(config)
    )


def is_frozen(path: Path) -> bool:
    """Return whether a store exists and can be read, but not written."""
    where = path.resolve()
    if not os.access(where, os.R_OK) or (os.access(where, os.W_OK) and os.access(where.parent, os.W_OK)):
        return False
    return where.is_file()


def evidence_of(config: Config) -> Sequence[Path]:
    """Return files that exist only if the store was used before. They include the store's path if that is a link.

    The use of a store outside the state folder is recorded in the state folder: while the store's disk is not mounted, nothing
    else shows that the store was used.
    """
    path = config.store_path
    found = [contents_path()] if path.parent == state_dir() else []
    found += [path] if is_link(path) else []
    if path.resolve().parent == state_dir().resolve():
        return found
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    return [*found, state_dir() / "stores" / f"{name}{RECORD}"]


def _never_stored(config: Config) -> bool:
    """Return whether the store was never used: none of its files exists. Return False also if the store can't be created."""
    path = config.store_path
    try:
        nearest = next(one for one in path.parents if os.path.lexists(one))
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            return False  # opening the store reports that it can't be created
        names = [one.name for one in path.parent.iterdir()] if nearest == path.parent else []
        return not any(name.startswith(path.name) for name in names) and not any(map(os.path.lexists, evidence_of(config)))
    except OSError:
        return False


class Agent:
    """A model with tools: one conversation. ``ask`` is for sync code, ``aask`` and ``stream`` are for async code.

    Concurrent messages are answered in order.

    Arguments that are not given come from the environment and the configuration, as on the command line. Without an ``asker``
    all calls that need approval are denied; with ``parks`` the run is parked instead. The result of a parked run has the
    ``tickets``; ``answer`` settles a ticket, and ``resume_run`` continues the run. ``on_event`` receives agent.events as they
    happen; its exceptions are logged. ``resume`` continues a stored session, with its own model unless another is named.
    ``backend`` names the backend that runs the model's commands (`toolcrib env` lists the backends); ``cwd`` is the folder that
    they start in, if that is not ``project_dir``.

    ``tools`` are the only tools that the model has: functions with ``@tool``, or names of registered tools; ``[]`` gives none.

    Raises ConfigError for an asker that can't be called with a ticket and its context, RegistrationError for a function without
    ``@tool``, and ToolsetError for the name of an unknown tool.
    """

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str = "",
        api_key_env: str = "",
        instructions: str = "",
        toolsets: Sequence[str] | None = None,
        project_dir: str | Path | None = None,
        cwd: str | None = None,
        backend: str = "",
        asker: Asker | None = None,
        parks: bool = False,
        on_event: Callable[[Event], None] = lambda event: None,
        limits: RunLimits | None = None,
        config: Config | None = None,
        resume: str = "",
        provider: str = "",
        tools: Sequence[Callable[..., Any] | str] | None = None,
    ) -> None:
        _check_asker(asker)
        from agent.model_choice.models import ModelChoice

        folder = None if project_dir is None else real_path(with_home(project_dir))
        self._watch = _logged(on_event)
        choice = ModelChoice(model, base_url, api_key_env, provider)
        names = None if tools is None else [one if isinstance(one, str) else entry_of(one).name for one in tools]
        self.crib = assemble(config=config, project_dir=folder)
        request = SessionRequest(
            platform="api",
            asker=asker,
            suspends=parks,
            cwd=cwd,
            backend=backend,
            enabled=_toolsets_of(self.crib, names) if toolsets is None and names is not None else toolsets,
            within=names,
            resume=resume,
            choice=choice,
            instructions=instructions,
            limits=limits,
            watch=self._watch,
        )
        self.session: Session = run_async(self.crib.desk.open(request))
        self._asking: set[asyncio.Task[Any] | None] = set()
        self._closed = False
        self._warned = False

    def ask(self, text: str, *, images: Sequence[Image] = (), schema: Mapping[str, Any] | type[Any] | None = None) -> RunResult:
        """Send a message with ``images``, and run until the model answers.

        Raises RunError, ProviderError and ConfigError; the conversation can continue after them.

        ``schema`` is a JSON Schema or a type, such as a pydantic class or ``list[str]``. ``RunResult.data`` is then JSON that
        matches the schema, or an object of the type. If the first answer does not match, the model is asked again; AnswerUnfit
        is raised if the second answer does not match either.
        """
        if not self._warned and is_loop_running():
            self._warned = True
            words = "Agent.ask blocks the running event loop until the model has answered; use: await agent.aask(...)"
            warnings.warn(words, RuntimeWarning, stacklevel=2)
        return run_async(self.aask(text, images=images, schema=schema))

    async def aask(
        self, text: str, *, images: Sequence[Image] = (), schema: Mapping[str, Any] | type[Any] | None = None
    ) -> RunResult:
        """Do what ``ask`` does, from async code."""
        from agent.conversation.structured import AnswerType

        answer = AnswerType(schema)
        return answer.typed(await self._noted(self.session.ask(text, images, schema=answer.schema)))

    def stream(
        self, text: str, *, images: Sequence[Image] = (), schema: Mapping[str, Any] | type[Any] | None = None
    ) -> RunStream:
        """Ask, and return the run's events for ``async for``, with the result afterwards. ``on_event`` also gets the events.

        Leaving the loop early cancels the run.
        """
        from agent.conversation.structured import AnswerType
        from agent.run_stream import RunStream

        answer = AnswerType(schema)

        async def ask(emit: Emit) -> RunResult:
            def watch(event: Event) -> None:
                self._watch(event)
                emit(event)

            try:
                return answer.typed(await self._noted(self.session.ask(text, images, schema=answer.schema, emit=watch)))
            finally:
                if self.session.watch is watch:
                    self.session.watch = self._watch

        return RunStream(ask)

    async def answer(self, ticket: str, payload: Any, *, by: str = "api") -> Settled:
        """Settle a ticket of a parked run. Raises what Session.answer raises.

        To approve a call, for example, ``payload`` is ``{"approved": True, "scope": "once"}``.
        """
        return await self.session.answer(Answer(ticket, payload=payload, by=by, at=time.time()))

    async def resume_run(self) -> RunResult | None:
        """Continue a parked run, or one that a process left unfinished. Return its result, or None if there is no such run."""
        outcomes: list[RunResult | Exception] = []
        await self._noted(self._advanced(outcomes))
        first = outcomes[0] if outcomes else None  # the outcomes of waiting messages follow
        if isinstance(first, Exception):
            raise first
        return first

    async def _advanced(self, outcomes: list[RunResult | Exception]) -> None:
        try:
            await self.session.advance(done=outcomes.append)
        except ToolcribError as error:
            if error not in outcomes:
                raise

    async def _noted(self, work: Awaitable[T]) -> T:
        if self._closed:
            if isinstance(work, Coroutine):
                work.close()
            raise ToolcribError(f"this Agent is closed; Agent(resume={self.session.id[:12]!r}) continues the conversation")
        task = asyncio.current_task()
        self._asking.add(task)
        try:
            return await work
        finally:
            self._asking.discard(task)

    def interrupt(self) -> None:
        """Interrupt the current run, from any thread; ``ask`` returns the result so far."""
        self.session.interrupt()

    def close(self) -> None:
        """Close the Agent as ``aclose`` does, from sync code. Closing again does nothing."""
        run_async(self.aclose())

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Interrupt running requests, then close the session, its connections and the store."""
        self._closed = True
        await self._answered()
        await self.session.close()
        await self.crib.aclose()

    async def _answered(self) -> None:
        """Interrupt all running requests, and wait until they have ended, for at most _CLOSE_LIMIT seconds.

        A request that closes the Agent itself is not waited for.
        """
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._asking - {asyncio.current_task()} and time.monotonic() < give_up:
            self.interrupt()  # repeated: a request that begins later clears the interrupt
            await asyncio.sleep(0.01)  # requests may run in event loops of other threads


def _toolsets_of(crib: Crib, names: Sequence[str]) -> list[str]:
    """Return the toolsets that these tools belong to. Raises ToolsetError for an unknown tool."""
    entries = [(name, crib.registry.get(name)) for name in names]
    for name, entry in entries:
        if entry is None:
            raise ToolsetError(f"unknown tool {name!r}; known: {', '.join(crib.registry.names())}")
    return list(dict.fromkeys(entry.toolset for _, entry in entries if entry is not None))


def _check_asker(asker: object) -> None:
    """Raise ConfigError now for an asker that would fail at the first question."""
    import inspect

    if asker is None:
        return
    try:
        inspect.signature(asker).bind("ticket", "context")  # type: ignore[arg-type]  # bind checks that it is callable
    except TypeError as error:
        what = f"it can't be called this way ({error})" if callable(asker) else "it is not a function"
        raise ConfigError(f"asker: expected asker(ticket, ctx), which returns an Answer; got {asker!r}: {what}") from None
    except ValueError:
        pass  # it has no signature


def _logged(on_event: Callable[[Event], None]) -> Callable[[Event], None]:
    def emit(event: Event) -> None:
        try:
            on_event(event)
        except Exception:  # noqa: BLE001 - a listener that fails must not end the run
            _log.exception("on_event failed for %s", type(event).__name__)

    return emit
