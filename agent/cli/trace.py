"""Trace of requests and calls as they happen (000-47). Secrets are redacted in every line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.escape import one_line, tame
from agent.cli.view import model_said
from agent.events import (
    Event,
    ModelAnswered,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from toolcrib.contract.errors import ProviderError, ToolcribError
from toolcrib.contract.image import Image
from tools.dispatch.json_results import as_json
from tools.dispatch.threads import in_daemon_thread

if TYPE_CHECKING:
    from agent.conversation.session import Session

_PREVIEW = 200


class Tracer:
    """A listener for events that writes a trace to stderr."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = self._first = 0.0
        self._messages = 1

    async def set_up(self, system: str, model: str) -> None:
        """Print the tools, the session, and ``system``, the system prompt."""
        self._messages = await count_messages(self._session)
        names = self._session.names
        self._say(f"{len(names)} tools: {' '.join(names)}")
        self._say(f"session {self._session.id}, model {model or 'none'}")
        self._block("system prompt", system)

    def said(self, text: str, images: Sequence[Image] = ()) -> None:
        self._messages += 1
        self._block("user prompt", text)
        for image in images:
            self._say(f"user prompt: {image}")

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted(number=number):
                self._asked, self._first = time.perf_counter(), 0.0
                self._say(f"turn {number}: {self._messages} messages go to the model")
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                self._first = self._first or time.perf_counter()
            case TurnFinished(number=number, text=text, calls=calls, usage=usage):
                self._messages += 1
                counts = " ".join(f"{name}={count}" for name, count in usage.items())
                self._say(f"turn {number}: status 200, {self._timing()}, {calls} calls, {counts or 'no usage reported'}")
                self._say(f"turn {number}: content {one_line(text, _PREVIEW)!r}")
            case Retrying(attempt=attempt, seconds=seconds, reason=reason):
                self._say(f"attempt {attempt} failed ({self._timing()}): {reason}; next attempt in {seconds:.2f} s")
                self._asked, self._first = time.perf_counter() + seconds, 0.0
            case ModelAnswered():
                self._say(model_said(event))
            case ToolFinished(executed=executed):
                self._messages += 1
                call, took = executed.call, f"{executed.duration:.3f} s"
                self._say(f"tool {call.name} {_encoded(call.args)}")
                self._say(f"tool {call.name}: {executed.status.value}, {took}, result of {len(as_json(executed))} characters")
            case _:
                pass

    def failed(self, error: ToolcribError) -> None:
        status = f"status {error.status}, " if isinstance(error, ProviderError) and error.status else ""
        self._say(f"failed: {status}{self._timing()}: {error}")

    def _timing(self) -> str:
        if not self._asked:
            return "nothing was sent"
        now = time.perf_counter()
        first = f"first piece after {self._first - self._asked:.3f} s, " if self._first else ""
        return f"{first}{max(0.0, now - self._asked):.3f} s in all"

    def _block(self, title: str, text: str) -> None:
        self._say(f"{title}, {len(text)} characters:")
        self._say("\n".join(f"  {line}" for line in text.splitlines()))

    def _say(self, text: str) -> None:
        clean = tame(self._session.scope.redactor.text(text))
        print("\n".join(f"trace: {line}" for line in clean.splitlines()), file=sys.stderr, flush=True)


async def count_messages(session: Session) -> int:
    """Return the number of messages sent to the model, including the system prompt; each result counts as one."""
    records = await in_daemon_thread(lambda: list(session.transcript.model_records()))
    return 1 + sum(len(record["results"]) if record["role"] == "results" else 1 for record in records)


def _encoded(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False, default=str)
