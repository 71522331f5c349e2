"""A connection to a running server: the SDK's client, and the calls that it makes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.mcp.extra_tools import EXTRA_TOOLS, call_extra, extra_tools
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ExecutionFailed, ToolcribError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

_log = logging.getLogger(__name__)
Streams: TypeAlias = "Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]"


@dataclass(frozen=True, slots=True)
class ServerLink:
    """A way to a server. ``streams`` are those of the SDK's transport. ``ended`` waits until the server has gone. ``why`` returns
    why it has, for people; ``close`` releases everything. ``refused`` returns why the server refused the latest request for
    its login, "" if it did not.
    """

    streams: AbstractAsyncContextManager[tuple[Any, Any]]
    ended: Callable[[], Awaitable[None]]
    why: Callable[[], str]
    close: Callable[[], Awaitable[None]]
    refused: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Listed:
    """The tools that a running server offers, in the protocol's JSON form, and the server's name, version and protocol."""

    tools: Sequence[Mapping[str, Json]]
    version: str
    protocol: str


class ServerConnection:
    """A connection to a server, from its start to its end, in one event loop. One task starts and ends the SDK's client, as
    the SDK requires.

    ``starts`` limits starts at the same time. ``on_listed`` gets the server's offers when it has started, and when it
    says that they have changed. ``mode`` is the version of the protocol, ``seconds`` limits the start.
    """

    def __init__(
        self,
        name: str,
        link: Callable[[], Awaitable[ServerLink]],
        starts: asyncio.Semaphore,
        on_listed: Callable[[Listed], None],
        mode: str,
        seconds: float,
        callbacks: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._link = link
        self._starts = starts
        self._on_listed = on_listed
        self._mode = mode
        self._seconds = seconds
        self._callbacks = callbacks or {}
        self._client: Client | None = None
        self._link_now: ServerLink | None = None
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._why = ""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name=f"mcp {name}")
        self._listing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """True from the start until it begins to stop or has failed."""
        return not (self._task.done() or self._stopping.done())

    async def ready(self) -> None:
        """Wait for the start. Raises ExecutionFailed."""
        await asyncio.shield(self._ready)

    def begin_stop(self) -> None:
        """Stop the server soon."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def stop(self) -> None:
        """Stop the server, and wait for its end. May be called twice."""
        self.begin_stop()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            async with self._open() as listed:
                self._on_listed(listed)
                self._ready.set_result(None)
                await asyncio.wait([self._stopping])
        except asyncio.CancelledError:
            self._fail("it was cancelled")
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the SDK raises, a call gets the reason
            self._fail(self._why or _reason(error))
        finally:
            self.begin_stop()
            self._client = None
            if not self._ready.done():
                self._fail(self._why or "it ended while it started")

    def _fail(self, why: str) -> None:
        self._why = self._why or why
        if not self._ready.done():
            self._ready.set_exception(ExecutionFailed(f"the MCP server {self.name} did not start: {why}"))
            self._ready.exception()  # no caller may wait for it
        else:
            _log.info("the MCP server %s has ended: %s", self.name, why)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Listed]:
        from mcp import Client

        link: ServerLink | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with self._starts, asyncio.timeout(self._seconds):
                    link = self._link_now = await self._link()
                    stack.push_async_callback(link.close)
                    client = Client(
                        _Given(link.streams), mode=self._mode, message_handler=self._on_message, cache=None, **self._callbacks
                    )
                    watch = asyncio.create_task(self._watch(link))
                    stack.callback(watch.cancel)
                    self._client = await stack.enter_async_context(client)
                    listed = await self._list(self._client)
                yield listed
        except TimeoutError:
            self._why = f"no answer within {self._seconds:g} seconds{_more(link)}"
            raise
        except BaseException as error:
            self._why = self._why or self._refused() or f"{_reason(error)}{_more(link)}"
            raise

    async def _watch(self, link: ServerLink) -> None:
        """Stop when the server has gone."""
        await link.ended()
        if not self._stopping.done():
            self._why = link.why() or "it has ended"
            self.begin_stop()

    async def _list(self, client: Client) -> Listed:
        capabilities, info = client.server_capabilities, client.server_info
        tools = await self._tools(client) if capabilities.tools is not None else []
        version = "" if info is None else f"{info.name} {info.version}"
        return Listed([*tools, *extra_tools(capabilities)], version, client.protocol_version)

    async def _tools(self, client: Client) -> list[Mapping[str, Json]]:
        tools: list[Mapping[str, Json]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(tools) > _MOST_TOOLS:
                break
        if len(tools) > _MOST_TOOLS:
            raise ToolcribError(f"it offers more than {_MOST_TOOLS:,} tools")
        return tools

    async def _on_message(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification) and (self._listing is None or self._listing.done()):
            self._listing = asyncio.create_task(self._list_again())  # not here: the session could not read the answer

    async def _list_again(self) -> None:
        await asyncio.sleep(_SETTLES)
        client = self._client
        try:
            if client is not None:
                self._on_listed(await self._list(client))
        except Exception as error:  # noqa: BLE001 - a server that does not list its tools is of no use
            self._why = f"it does not list its tools: {_reason(error)}"
            self.begin_stop()

    def _require(self) -> Client:
        if self._client is None or self._stopping.done():
            raise ExecutionFailed(f"the MCP server {self.name} has ended: {self._why or 'it was stopped'}")
        return self._client

    async def call(self, tool: str, args: Mapping[str, Json], progress: ProgressFnT) -> CallToolResult:
        """Call a tool. Raises ExecutionFailed if the server answers with an error or ends."""
        client = self._require()
        if tool in EXTRA_TOOLS:
            call = asyncio.create_task(call_extra(client, tool, args))
        else:
            call = asyncio.create_task(client.call_tool(tool, dict(args), progress_callback=progress))
        try:
            either: list[asyncio.Future[Any]] = [call, self._stopping]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                await asyncio.wait([call], timeout=_LAST_ANSWER)  # it may have arrived together with the end
            if not call.done():
                raise ExecutionFailed(self._lost())
            return call.result()
        except ExecutionFailed:
            raise
        except Exception as error:
            if self._stopping.done():
                raise ExecutionFailed(self._lost()) from error
            raise ExecutionFailed(f"the MCP server {self.name}: {self._refused() or _reason(error)}") from error
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait([call])

    def _refused(self) -> str:
        return "" if self._link_now is None else self._link_now.refused()

    def _lost(self) -> str:
        why = self._why or "it was stopped"
        return f"the MCP server {self.name} ended during the call ({why}); its effects are unknown"


_MOST_TOOLS, _MOST_PAGES = 1_000, 100
_LAST_ANSWER = 0.1
_SETTLES = 0.2
"""Seconds after which changed tools are listed. A server may announce several changes in a row."""


class _Given:
    """A transport of the SDK whose streams exist already."""

    def __init__(self, streams: AbstractAsyncContextManager[tuple[Any, Any]]) -> None:
        self._streams = streams

    async def __aenter__(self) -> tuple[Any, Any]:
        return await self._streams.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._streams.__aexit__(*error)


def _reason(error: BaseException) -> str:
    """Return the innermost reason of an error on one line: the SDK's task groups wrap errors in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:500] or type(error).__name__


def _more(link: ServerLink | None) -> str:
    said = link.why() if link is not None else ""
    return f"; {said}" if said else ""
