"""The servers that run in one process: each starts at its first call, and stops when it is idle.

They run in one thread with an event loop of its own, because calls come from many loops, and some loops live for one call only.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent.config._mcp import McpServer
from agent.mcp.asking import Question
from agent.mcp.in_flight import RUNS, CallInFlight, callbacks_for
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ExecutionFailed
from toolcrib.contract.hooks import hookimpl
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, ToolCall, ToolResult, ToolStatus

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from agent.mcp.connection import Listed, ServerConnection, ServerLink
    from agent.mcp.sampling import AnswersRequests

T = TypeVar("T")


class Place(NamedTuple):
    """The user and the project of a server: sessions with equal places share it. ``folder`` is the project's."""

    principal: str
    folder: str


class ReachesServers(Protocol):
    """Makes the ways to servers."""

    def place_of(self, server: McpServer, ctx: ToolCallContext, /) -> Place:
        """Return the place of the server that a call of this session reaches."""
        ...

    async def link(self, name: str, server: McpServer, place: Place, /) -> ServerLink:
        """Start or reach a server. Raises ToolcribError and OSError."""
        ...


@dataclass(slots=True, eq=False)
class _Kept:
    """A server at a place. ``using`` counts calls, ``calls`` have reached it; tools in ``allowed`` may be called.

    ``is_outdated``: its configuration has changed, and it ends after its last call.
    """

    place: Place
    calls: list[CallInFlight] = field(default_factory=list)
    allowed: frozenset[str] = frozenset()
    using: int = 0
    is_outdated: bool = False
    idle: asyncio.TimerHandle | None = None
    connection: ServerConnection = field(init=False)


class Hub:
    """The running servers. Callable from any thread.

    ``servers`` returns the configured servers. ``listed`` is called with a server's name and what it lists, each time it has
    started or says that its tools have changed. It returns the tools that may be called, by the server's names. ``model_of``
    returns the model of a call's session, which the server may ask.
    """

    def __init__(
        self,
        servers: Callable[[], Mapping[str, McpServer]],
        reaching: ReachesServers,
        listed: Callable[[str, Listed], frozenset[str]],
        model_of: Callable[[ToolCallContext], AnswersRequests | None] = lambda ctx: None,
        *,
        starts_at_once: int = 4,
    ) -> None:
        self._servers = servers
        self._reaching = reaching
        self._listed = listed
        self._model_of = model_of
        self._starts_at_once = starts_at_once
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None
        self._kept: dict[tuple[str, Place], _Kept] = {}
        self._outdated: list[_Kept] = []
        self._asking: dict[tuple[str, str], CallInFlight] = {}
        """Calls whose server waits for an answer, by session and call."""
        self._starts: asyncio.Semaphore | None = None
        self._is_closed = False

    # -- from any thread -----------------------------------------------------------------------------------------

    async def call(self, server: str, tool: str, args: Mapping[str, Json], ctx: ToolCallContext) -> ToolResult:
        """Run a call of a locked tool, or continue it with the answer to the server's question. Raises ExecutionFailed."""
        from agent.mcp.results import result_of

        config = self._servers().get(server)
        if config is None or not config.enabled:
            raise ExecutionFailed(f"the MCP server {server} is no longer enabled")
        if ctx.resume_input is not None:
            given = await self._in_thread(self._answered(server, ctx))
        else:
            place = self._reaching.place_of(config, ctx)
            given = await self._in_thread(self._begin(server, config, place, tool, args, ctx))
        if isinstance(given, Question):
            ticket = given.ticket(server, ctx.call)
            return ToolResult.suspended_with(ctx.tool_name, ticket.message, ticket)
        return await result_of(ctx.tool_name, given, ctx)

    async def _in_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._is_closed:
                coroutine.close()
                raise ExecutionFailed("toolcrib ends: no MCP server is started")
            if self._thread is None:
                self._thread = _LoopThread()
            future = self._thread.submit(coroutine)
        return await asyncio.wrap_future(future)

    @hookimpl
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> None:
        """See ToolHooks. A call that has ended without the answer to its server's question is cancelled there too."""
        if self._asking and result.status is not ToolStatus.PENDING:
            with self._lock:
                if self._thread is not None:
                    self._thread.submit(self._forget(ctx.run_identity.session_id, call.id))

    def running(self) -> list[str]:
        """Return the names of the running servers: one name for each program or connection."""
        return [name for (name, _), kept in list(self._kept.items()) if kept.connection.is_open]

    def retire(self, names: frozenset[str]) -> None:
        """Stop these servers after their current calls. Later calls start them anew."""
        with self._lock:
            if self._thread is not None and names:
                self._thread.submit(self._retire(names))

    def close(self) -> None:
        """Stop all servers, from sync code. Later calls fail. May be called twice."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._stop_all()).result()
            thread.stop()

    # -- in the thread -------------------------------------------------------------------------------------------

    async def _begin(
        self, name: str, config: McpServer, place: Place, tool: str, args: Mapping[str, Json], ctx: ToolCallContext
    ) -> CallToolResult | Question:
        going = CallInFlight(ctx)
        going.task = asyncio.create_task(self._call(name, config, place, tool, args, going))
        return await self._next(going)

    async def _answered(self, name: str, ctx: ToolCallContext) -> CallToolResult | Question:
        going = self._asking.pop((ctx.run_identity.session_id, ctx.call_id), None)
        if going is None:
            raise ExecutionFailed(
                f"the MCP server {name} asked in a process of toolcrib that has ended, and its call with it; its effects are"
                " unknown"
            )
        going.ctx = ctx
        going.answer(ctx.resume_input)
        return await self._next(going)

    async def _forget(self, session: str, call: str) -> None:
        if (going := self._asking.pop((session, call), None)) is not None:
            await going.cancel()

    async def _next(self, going: CallInFlight) -> CallToolResult | Question:
        """Wait for a call's end or its next question. If this is cancelled, so is the call."""
        try:
            found = await going.next()
        except BaseException:
            await going.cancel()
            raise
        if isinstance(found, Question):
            self._asking[going.ctx.run_identity.session_id, going.ctx.call_id] = going
        return found

    async def _call(
        self, name: str, config: McpServer, place: Place, tool: str, args: Mapping[str, Json], going: CallInFlight
    ) -> CallToolResult:
        async with self._using(name, config, place) as (kept, connection):
            RUNS.set(going)  # not before: the tasks of a connection that starts must not inherit it
            if tool not in kept.allowed:
                raise ExecutionFailed(
                    f"the tool {tool} of the MCP server {name} differs from the locked one: a user can compare and lock it"
                    f" (toolcrib mcp lock {name})"
                )
            kept.calls.append(going)
            try:
                return await connection.call(tool, args, going.on_progress)
            finally:
                kept.calls.remove(going)

    @contextlib.asynccontextmanager
    async def _using(self, name: str, config: McpServer, place: Place) -> AsyncIterator[tuple[_Kept, ServerConnection]]:
        kept = await self._running(name, config, place)
        kept.using += 1
        if kept.idle is not None:
            kept.idle.cancel()
        try:
            await kept.connection.ready()
            yield kept, kept.connection
        finally:
            kept.using -= 1
            if not kept.using and kept.is_outdated:
                kept.connection.begin_stop()
            elif not kept.using and kept.connection.is_open:
                kept.idle = asyncio.get_running_loop().call_later(config.idle, self._end_idle, (name, place), kept)

    async def _running(self, name: str, config: McpServer, place: Place) -> _Kept:
        """Return the running server, after its start if it must be started."""
        from agent.mcp.connection import ServerConnection

        key = (name, place)
        while (kept := self._kept.get(key)) is not None and not kept.connection.is_open:
            if self._kept.get(key) is kept:
                del self._kept[key]
            await kept.connection.stop()  # the new one must not meet the old one's files
        if kept is not None:
            return kept
        self._starts = self._starts or asyncio.Semaphore(self._starts_at_once)
        kept = self._kept[key] = _Kept(place)

        def on_listed(listed: Listed) -> None:
            kept.allowed = self._listed(name, listed)

        kept.connection = ServerConnection(
            name,
            lambda: self._reaching.link(name, config, place),
            self._starts,
            on_listed,
            config.protocol,
            config.start_timeout,
            callbacks_for(kept.calls, place.folder, config.sampling, self._model_of),
        )
        return kept

    async def _retire(self, names: frozenset[str]) -> None:
        for key in [key for key in self._kept if key[0] in names]:
            kept = self._kept.pop(key)
            kept.is_outdated = True
            self._outdated.append(kept)
            if not kept.using:
                kept.connection.begin_stop()
        self._outdated = [kept for kept in self._outdated if kept.using or kept.connection.is_open]

    def _end_idle(self, key: tuple[str, Place], kept: _Kept) -> None:
        if not kept.using:
            kept.connection.begin_stop()

    async def _stop_all(self) -> None:
        asking, self._asking = list(self._asking.values()), {}
        await asyncio.gather(*(one.cancel() for one in asking))
        kept, self._kept = [*self._kept.values(), *self._outdated], {}
        await asyncio.gather(*(one.connection.stop() for one in kept))


class _LoopThread:
    """A thread with an event loop. At its end, remaining tasks are cancelled, as by ``asyncio.run``."""

    def __init__(self) -> None:
        self._runs = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="toolcrib-mcp", daemon=True)
        self._thread.start()
        self._runs.wait()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._runs.set()
        await self._end.wait()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
