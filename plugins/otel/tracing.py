"""Spans and metrics from hooks: the spans are ``invoke_agent`` for a run, ``chat`` for a turn, ``execute_tool`` for a call."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from toolcrib import RunIdentity, ToolCall, ToolResult

from .exporting import CLOSE_SECONDS, Exporting

_log = logging.getLogger(__name__)
SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
_PROVIDERS = {"gemini": "gcp.gemini", "chat": "openai", "responses": "openai", "text": "openai"}
"""The conventions' provider names for protocols with other names in toolcrib. A protocol's provider is the company that designed
it, whichever server answers.
"""
_MOST_OPEN = 10_000
_MOST_TEXT = 20_000
_Key = tuple[str, ...]


class _Open:
    """A span that has not ended, with the data for its metrics."""

    def __init__(self, span: Span, attributes: Mapping[str, str]) -> None:
        self.span = span
        self.attributes = dict(attributes)
        self.begun = time.monotonic()


class Tracing:
    """Spans and metrics; thread-safe. ``content``: the spans also contain the text of users, models and tools, passed through
    ``redact``.
    """

    def __init__(self, *, endpoint: str, content: bool, redact: Callable[[str], str]) -> None:
        self._exporting = Exporting(endpoint)
        self._tracer = self._exporting.tracers.get_tracer("toolcrib", schema_url=SCHEMA)
        meter = self._exporting.meters.get_meter("toolcrib", schema_url=SCHEMA)
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Number of input and output tokens used")
        self._seconds = meter.create_histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration")
        self._content = content
        self._redact = redact
        self._open: dict[_Key, _Open] = {}
        self._lock = threading.Lock()
        self._is_told = False

    def guarded(self, what: str, *given: Any) -> None:
        """Call the method for an event. An exception does not affect the run, and only the first one is logged."""
        try:
            getattr(self, what)(*given)
        except Exception as error:  # noqa: BLE001 - an observer
            if not self._is_told:
                self._is_told = True
                _log.warning("OpenTelemetry: %s was not traced: %s", what, type(error).__name__)

    async def close(self) -> None:
        """End open spans, and export what is left, within a few seconds."""
        with self._lock:
            left, self._open = list(self._open.values()), {}
        for one in left:
            one.span.set_attribute("error.type", "unfinished")
            one.span.set_status(Status(StatusCode.ERROR))
            one.span.end()
        is_done = await asyncio.to_thread(self._exporting.close)
        if not is_done and not self._exporting.told.is_told:
            _log.warning("OpenTelemetry: spans that were not exported within %.0f s are lost", CLOSE_SECONDS)

    # -- runs ----------------------------------------------------------------------------------------------------

    def run_started(self, identity: RunIdentity) -> None:
        """Begin a run's span. The span of a delegate's run is a child of the span of the call that started the delegate."""
        above = trace.get_current_span()
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "toolcrib"}
        about = {"gen_ai.conversation.id": identity.session_id, "toolcrib.platform": identity.platform}
        parent = trace.set_span_in_context(above) if above.is_recording() else context.Context()
        self._begin(("run", identity.session_id), "invoke_agent toolcrib", SpanKind.INTERNAL, parent, attributes, about)

    def run_ended(self, identity: RunIdentity, stopped: str, error: str) -> None:
        """End a run's span."""
        self._end(("run", identity.session_id), {"toolcrib.run.stopped": stopped} if stopped else {}, error)

    def session_ended(self, identity: RunIdentity) -> None:
        """End all open spans of a session."""
        with self._lock:
            left = [key for key in self._open if key[1] == identity.session_id]
        for key in left:
            self._end(key, {}, "unfinished")

    # -- models --------------------------------------------------------------------------------------------------

    def chat_started(self, identity: RunIdentity, model: str, provider: str) -> None:
        """Begin the span of a turn."""
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or "_OTHER"}
        if model:
            attributes["gen_ai.request.model"] = model
        about = {"gen_ai.conversation.id": identity.session_id}
        key = "chat", identity.session_id
        self._begin(key, f"chat {model}".strip(), SpanKind.CLIENT, self._within(identity), attributes, about)

    def chat_ended(self, identity: RunIdentity, model: str, usage: Mapping[str, int], finish: str, text: str) -> None:
        """End the span of a turn, and record its tokens."""
        key = "chat", identity.session_id
        with self._lock:
            found = self._open.get(key)
        if found is None:
            return
        more: dict[str, Any] = {"gen_ai.response.finish_reasons": [finish]} if finish else {}
        if model:
            more["gen_ai.response.model"] = found.attributes["gen_ai.response.model"] = model
        for kind in ("input", "output"):
            if kind in usage:
                more[f"gen_ai.usage.{kind}_tokens"] = usage[kind]
                self._tokens.record(usage[kind], {**found.attributes, "gen_ai.token.type": kind}, self._context(found))
        for name, called in (("cached", "cache_read.input_tokens"), ("reasoning", "reasoning.output_tokens")):
            if name in usage:
                more[f"gen_ai.usage.{called}"] = usage[name]
        if self._content:
            parts = [{"role": "assistant", "parts": [{"type": "text", "content": self._cut(text)}], "finish_reason": finish}]
            more["gen_ai.output.messages"] = json.dumps(parts, ensure_ascii=False)
        self._end(key, more, "")

    def chat_failed(self, identity: RunIdentity, error: str) -> None:
        """End the span of a turn that failed."""
        self._end(("chat", identity.session_id), {}, error)

    # -- tools ---------------------------------------------------------------------------------------------------

    def tool_started(self, identity: RunIdentity, call: ToolCall) -> None:
        """Begin a call's span; spans that the handler creates are its children."""
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name}
        about = {"gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function", "gen_ai.conversation.id": identity.session_id}
        if self._content:
            about["gen_ai.tool.call.arguments"] = self._cut(json.dumps(call.args, ensure_ascii=False, default=str))
        key = "tool", identity.session_id, call.id
        opened = self._begin(key, f"execute_tool {call.name}", SpanKind.INTERNAL, self._within(identity), attributes, about)
        context.attach(self._context(opened))

    def tool_ended(self, identity: RunIdentity, call: ToolCall, result: ToolResult) -> None:
        """End a call's span. A call that ends without a start, such as a blocked one, gets a span without duration."""
        key = "tool", identity.session_id, call.id
        with self._lock:
            is_open = key in self._open
        if not is_open:
            if result.is_pending:  # the call waits for an approval or another answer
                return
            self.tool_started(identity, call)
        more = {"gen_ai.tool.call.result": self._cut(json.dumps(result.data, default=str))} if self._content else {}
        failure = getattr(result.failure, "kind", None) or "tool_error"
        self._end(key, more, str(failure) if result.is_error else "")
        context.attach(self._within(identity))

    # -- spans ---------------------------------------------------------------------------------------------------

    def _within(self, identity: RunIdentity) -> context.Context:
        with self._lock:
            run = self._open.get(("run", identity.session_id))
        return context.Context() if run is None else self._context(run)

    def _context(self, opened: _Open) -> context.Context:
        return trace.set_span_in_context(opened.span, context.Context())

    def _begin(
        self,
        key: _Key,
        name: str,
        kind: SpanKind,
        parent: context.Context,
        attributes: Mapping[str, str],
        about: Mapping[str, Any],
    ) -> _Open:
        self._end(key, {}, "unfinished")
        opened = _Open(self._tracer.start_span(name, parent, kind, {**attributes, **about}), attributes)
        with self._lock:
            if len(self._open) < _MOST_OPEN:
                self._open[key] = opened
        return opened

    def _end(self, key: _Key, more: Mapping[str, Any], error: str) -> None:
        with self._lock:
            found = self._open.pop(key, None)
        if found is None:
            return
        attributes = found.attributes
        if error:
            attributes["error.type"] = error
            found.span.set_attribute("error.type", error)
            found.span.set_status(Status(StatusCode.ERROR))
        found.span.set_attributes(dict(more))
        self._seconds.record(time.monotonic() - found.begun, attributes, self._context(found))
        found.span.end()

    def _cut(self, text: str) -> str:
        text = self._redact(text)
        return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} [cut]"
