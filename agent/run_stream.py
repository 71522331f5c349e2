"""Streams: a request whose events the caller reads with ``async for``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.conversation.state import RunResult
    from agent.events import Emit, Event


class RunStream:
    """The events of one request, in the order they happen. Afterwards ``result`` is the run's result.

        stream = agent.stream("Which test fails?")
        async for event in stream:
            print(event)
        print(stream.result.text)

    The message is sent when the loop begins. The loop raises what ``Agent.aask`` raises, after the events before the error.
    Leaving the loop early cancels the run.
    """

    def __init__(self, ask: Callable[[Emit], Coroutine[Any, Any, RunResult]]) -> None:
        self._ask = ask
        self._is_read = False
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """The result of the run. Raises ToolcribError before the run has ended."""
        if self._result is None:
            raise ToolcribError("this stream has no result yet: read its events to the end first")
        return self._result

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._is_read:
            raise ToolcribError("this stream was already read; call stream() again to send another message")
        self._is_read = True
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.ensure_future(self._ask(events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            self._result = await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
