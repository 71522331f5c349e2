"""A call that a server works on, and what the server may ask of its client meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.mcp.asking import MOST_FIELDS, Declined, Question, questions_of
from toolcrib.contract.context import ProgressStatus, ToolCallContext
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from mcp_types import (
        CallToolResult,
        CreateMessageRequestParams,
        CreateMessageResult,
        CreateMessageResultWithTools,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
    )

    from agent.mcp.sampling import AnswersRequests

_log = logging.getLogger(__name__)


class CallInFlight:
    """A call. It belongs to one event loop. ``ctx`` is that of the latest run of its handler."""

    def __init__(self, ctx: ToolCallContext) -> None:
        self.ctx = ctx
        self.task: asyncio.Task[CallToolResult]
        self._question: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[Json] | None = None
        self._turn = asyncio.Lock()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show the server's progress."""
        self.ctx.report_progress(ProgressStatus.RUNNING, message, min(progress / total, 1.0) if total else None)

    async def next(self) -> CallToolResult | Question:
        """Wait for the result or the next question. Raises the call's exception."""
        both: list[asyncio.Future[Any]] = [self._question, self.task]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            return self.task.result()
        question, self._question = self._question.result(), asyncio.get_running_loop().create_future()
        return question

    def answer(self, payload: Json) -> None:
        """Answer the question."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(payload)

    async def ask(self, question: Question) -> Json:
        """Put a question to the user, and return the value. Raises Declined."""
        async with self._turn:
            while True:
                self._answer = asyncio.get_running_loop().create_future()
                self._question.set_result(question)
                try:
                    return question.value(await self._answer)
                except ValueError as error:
                    question = question._replace(text=f"{question.text}\n({error})")

    async def cancel(self) -> None:
        """Cancel the call, and notify its server."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.task


RUNS: ContextVar[CallInFlight | None] = ContextVar("runs", default=None)
"""The call that the current task runs. In the protocol since 2026 a server's question arrives in the task of its call."""


def callbacks_for(
    calls: Sequence[CallInFlight], folder: str, sampling: str, model_of: Callable[[ToolCallContext], AnswersRequests | None]
) -> Mapping[str, Any]:
    """Return the SDK's callbacks for a server. ``calls`` are its calls in flight.

    ``sampling`` is the server's key of that name; ``model_of`` returns the model of a call's session.
    """

    async def elicit(_context: object, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        from mcp_types import INVALID_REQUEST, ElicitResult, ErrorData

        questions = questions_of(params)
        if not calls:
            return ErrorData(code=INVALID_REQUEST, message="no call is in flight, so the user can't be asked")
        if questions is None:
            return ErrorData(code=INVALID_REQUEST, message=f"the form has more than {MOST_FIELDS} fields")
        content: dict[str, Any] = {}
        going = _asked_by(calls)
        try:
            for question in questions:
                value = await going.ask(question)
                if question.name:
                    content[question.name] = value
        except Declined:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=content if params.mode == "form" else None)

    async def create_message(
        _context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        from mcp_types import INVALID_REQUEST, ErrorData

        if not calls:
            return ErrorData(code=INVALID_REQUEST, message="there is no call that this request belongs to")
        return await _sampled(_asked_by(calls), params, sampling, model_of)

    async def roots(_context: object) -> ListRootsResult:
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        found = Path(folder or Path.cwd())
        return ListRootsResult(roots=[Root(uri=FileUrl(found.as_uri()), name=found.name)])

    async def logged(params: Any) -> None:
        _log.debug("an MCP server says (%s): %r", params.level, params.data)

    found = {"elicitation_callback": elicit, "list_roots_callback": roots, "logging_callback": logged}
    return found if sampling == "never" else {**found, "sampling_callback": create_message}


def _asked_by(calls: Sequence[CallInFlight]) -> CallInFlight:
    """Return the call that a question belongs to: the oldest, if the question does not show it."""
    found = RUNS.get()
    return found if found is not None and found in calls else calls[0]


async def _sampled(
    going: CallInFlight,
    params: CreateMessageRequestParams,
    sampling: str,
    model_of: Callable[[ToolCallContext], AnswersRequests | None],
) -> CreateMessageResult | ErrorData:
    from mcp_types import INVALID_REQUEST, ErrorData

    from agent.mcp.sampling import sample

    try:
        return await sample(params, model_of(going.ctx), going.ask if sampling == "ask" else None)
    except ToolcribError as error:
        return ErrorData(code=INVALID_REQUEST, message=f"refused: {error}")
