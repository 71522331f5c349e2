"""Reads a Gemini reply, streamed or whole, into one ProviderTurn.

The model's content is kept part for part, because thought signatures are valid only in their place. Only pieces that a stream
split are joined: neighbouring plain texts, and the arguments of a call. A reply has calls if it contains any, whatever its
finish reason (X-5, X-7); the finish reason decides whether they may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from agent.providers._calls import CUT_OFF, MAX_CALLS, UNREADABLE, bounded, new_event, read_arguments
from agent.providers._events import EventReader, counts, latest, whole
from agent.providers._gemini_args import BadPiece, PartialArgs
from agent.providers._images import drawn_in
from agent.reply_ends import CUT, WHOLE, end_of
from toolcrib.contract.errors import BadRequest
from toolcrib.contract.session import ProviderTurn, StreamEvent
from toolcrib.contract.types import ToolCall

WHOLE_WORDS = ("STOP",)
_UNDECLARED = "UNEXPECTED_TOOL_CALL"
_UNREADABLE_CALL = ("MALFORMED_FUNCTION_CALL", _UNDECLARED)
_COUNTS = (
    ("prompt", "promptTokenCount"),
    ("answer", "candidatesTokenCount"),
    ("cached", "cachedContentTokenCount"),
    ("tool_input", "toolUsePromptTokenCount"),
    ("reasoning", "thoughtsTokenCount"),
)


class _Call:
    """A call that is being received; ``part`` is sent back to the server."""

    __slots__ = ("args", "fault", "id", "name", "open", "part", "shown", "texts")

    def __init__(self, call_id: str, name: str, shown: str, part: dict[str, Any]) -> None:
        self.id = call_id
        self.name = name  # name on the wire
        self.shown = shown  # the tool's own name
        self.part = part
        self.args: PartialArgs | None = None  # None if they came whole
        self.open = False
        self.fault: str | None = None
        self.texts: list[str] = []


class GeminiReader(EventReader):
    """See EventReader. Raises BadRequest if the server refused the prompt.

    ``usage["output"]`` includes ``reasoning`` and ``usage["input"]`` includes ``tool_input`` (of tools that Google runs);
    Gemini counts both separately.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._parts: list[dict[str, Any]] = []
        self._run: list[str] = []  # plain texts of a stream, of one kind, that make one part
        self._run_kind = ""
        self._streamed = True
        self._content: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._growing: PartialArgs | None = None  # the arguments of the last call, while it is open
        self._grown: _Call
        self._counted: dict[str, int] = {}
        self._last_usage: dict[str, Any] = {}
        self._usage_names: list[str] = []
        self._finish = ""
        self._finish_message = ""

    @property
    def size(self) -> int:
        written = sum(len(text) for call in self._calls for text in call.texts)
        return super().size + written + sum(any(part.values()) for part in self._parts)

    def _call_parts(self) -> Sequence[str]:
        return self._calls[-1].texts if self._calls else ()

    @property
    def ended(self) -> bool:
        """True once the server gave the reason for the reply's end."""
        return bool(self._finish)

    def read_body(self, body: Any) -> None:
        """Read a whole reply as parsed JSON, or the list of pieces that a stream without ``alt=sse`` sends."""
        for one in body if isinstance(body, list) and body else [body]:
            if type(one) is not dict:
                raise self._broken("sent something that is not a Gemini reply", json.dumps(one, default=str))
            self._streamed = isinstance(body, list)
            self._take(one)
        self.done = self.begun = True

    def finish(self) -> ProviderTurn:
        """Return the turn; its ``assistant_turn`` is the content to send back.

        Raises StreamBroken if the stream ended before the reply did, or if the server could not parse the model's call (its
        text is in ``failed_generation``): none of its calls may run.
        """
        if not self._finish:
            raise self._broken("ended the connection before the reply was complete")
        self._end_text()
        self._end_run()
        self.usage = self._sum_up()
        finish = self._ends(end_of(self._finish, WHOLE_WORDS), self._finish)
        if self._finish == _UNDECLARED:  # such a call names an unknown tool, and the dispatcher's message is better
            self.end, self.held, finish = WHOLE, None, "other"
        calls = bounded([self._finished(call) for call in self._calls])
        text = self.text
        if self._finish in _UNREADABLE_CALL and not calls:
            error = self._broken("could not read the model's call", self._finish_message)
            error.failed_generation = self._finish_message
            raise error
        calls = self._hold(calls)
        if calls and finish == "stop":
            finish = "tool_calls"
        content = {**self._content, "role": self._content.get("role") or "model", "parts": self._parts}
        return ProviderTurn(text, calls, content, self.usage, finish, self.model, self.reasoning, drawn_in(self._drawn()))

    # -- one piece -----------------------------------------------------------------------------------------------

    def _take(self, chunk: dict[str, Any]) -> None:
        candidates = chunk.get("candidates")
        if candidates:
            if self._growing is not None:
                short = self._grows(self._growing, candidates)
            else:
                short = self._run_kind == "assistant_delta" and self._goes_on(candidates)
            if not short:
                self._candidate(candidates)
        elif not self._known(chunk):
            raise self._broken("sent something that is not a Gemini reply", json.dumps(chunk, default=str))
        usage = chunk.get("usageMetadata")
        if usage != self._last_usage and type(usage) is dict:  # many pieces repeat it
            if (names := [*usage]) != self._usage_names or _has_none(usage):
                self._count()
                self._usage_names = names
            self._last_usage = usage  # nearly every piece has one; the last one is read at the end
        model = chunk.get("modelVersion")
        if model != self.model and type(model) is str and model:
            self.model = model
        if chunk.get("error"):
            self._raise_error(chunk)

    def _count(self) -> None:
        usage, self._last_usage = self._last_usage, {}
        self._counted = latest(self._counted, counts(**{name: usage.get(key) for name, key in _COUNTS}))

    def _sum_up(self) -> dict[str, int]:
        self._count()
        found = self._counted
        totals = {
            "input": found.get("prompt", 0) + found.get("tool_input", 0),
            "output": found.get("answer", 0) + found.get("reasoning", 0),
        }
        parts = {name: found[name] for name in ("cached", "reasoning", "tool_input") if found.get(name)}
        return totals | parts if found else {}

    def _known(self, chunk: dict[str, Any]) -> bool:
        """Return whether a piece may lack candidates. Raises BadRequest if the prompt was refused."""
        feedback = chunk.get("promptFeedback")
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if reason:
            said = feedback.get("blockReasonMessage") if isinstance(feedback, dict) else None
            why = f"{reason}: {said}" if said else str(reason)
            body = json.dumps(feedback, ensure_ascii=False)
            raise BadRequest(f"{self._server} does not answer this prompt ({why}); reword it", body=body, text=self.text)
        return bool(chunk.keys() & {"candidates", "usageMetadata", "modelVersion", "responseId", "error", "promptFeedback"})

    def _candidate(self, candidates: Any) -> None:
        candidate = candidates[0] if type(candidates) is list else None
        if type(candidate) is not dict or candidate.get("index"):
            candidate = self._ours(candidates)
        content = candidate.get("content")
        if type(content) is dict:
            parts = content.get("parts")
            for part in parts if type(parts) is list else ():
                if type(part) is dict:
                    self._part(part)
            if len(content) > 2 or not self._content:
                self._content.update({key: value for key, value in content.items() if key != "parts"})
        if reason := candidate.get("finishReason"):
            self._finish = str(reason)
            self._finish_message = str(candidate.get("finishMessage") or "")

    def _goes_on(self, candidates: Any) -> bool:
        """Handle a piece that only continues the current text, as nearly all do, and return True; otherwise do nothing."""
        try:
            (candidate,) = candidates
            content = candidate["content"]
            (part,) = content["parts"]
            text = part["text"]
        except (KeyError, TypeError, ValueError):
            return False
        if len(part) != 1 or len(content) > 2 or type(text) is not str or not text.isascii() or not text:
            return False
        if candidate.get("index") or "finishReason" in candidate or self._half["assistant_delta"]:
            return False
        self._run.append(text)
        self._text.append(text)
        self._on_event(new_event(StreamEvent, ("assistant_delta", text, "", "")))
        return True

    def _grows(self, args: PartialArgs, candidates: Any) -> bool:
        """Handle a piece that only continues the current string of an open call, and return True; otherwise do nothing."""
        try:
            (candidate,) = candidates
            (part,) = candidate["content"]["parts"]
            call = part["functionCall"]
            (piece,) = call["partialArgs"]
            if len(candidate) != 1 or len(part) != 1 or len(call) != 2 or not call["willContinue"]:
                return False
            if (text := args.more(piece["jsonPath"], piece["stringValue"], piece["willContinue"])) is None:
                return False
        except (KeyError, TypeError, ValueError):
            return False
        last = self._grown
        last.texts.append(text)
        self._on_event(new_event(StreamEvent, ("tool_call_delta", text, last.id, last.shown)))
        return True

    def _ours(self, candidates: Any) -> dict[str, Any]:
        """Return the requested candidate; {} if there are only others."""
        if type(candidates) is not list or not all(type(one) is dict for one in candidates):
            raise self._broken("sent candidates that are not a list of objects", json.dumps(candidates))
        return next((one for one in candidates if not one.get("index")), {})

    def _part(self, part: dict[str, Any]) -> None:
        text = part.get("text")
        if text and self._run_kind == "assistant_delta" and len(part) == 1 and type(text) is str:
            self._run.append(text)  # the usual case: more of the text
            self._emit("assistant_delta", text)
            return
        call = part.get("functionCall")
        if type(call) is dict:
            if self._run_kind:
                self._end_run()
            self._call(part, call)
            return
        if type(text) is not str:
            self._keep(part)
            return
        kind: Literal["assistant_delta", "thinking_delta"] = (
            "thinking_delta" if part.get("thought") is True else "assistant_delta"
        )
        if text:
            self._emit(kind, text)
        if self._streamed and len(part) == (2 if kind == "thinking_delta" else 1):
            if kind != self._run_kind:
                self._end_run()
                self._run_kind = kind
            self._run.append(text)
        elif text or len(part) > 1:  # Gemini refuses a part that is entirely empty
            self._keep(part)

    def _keep(self, part: dict[str, Any]) -> None:
        self._end_run()
        self._parts.append(part)

    def _end_run(self) -> None:
        if not self._run:
            self._run_kind = ""
            return
        text, self._run = whole(self._run), []
        if text:
            part: dict[str, Any] = {"text": text}
            if self._run_kind == "thinking_delta":
                part["thought"] = True
            self._parts.append(part)
        self._run_kind = ""

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, part: dict[str, Any], call: dict[str, Any]) -> None:
        last = self._calls[-1] if self._calls else None
        if last is not None and not last.open:
            last = None
        name = call.get("name")
        if last is None or (type(name) is str and name):
            if not call:
                self._lone_signature(part)
                return
            if len(self._calls) > MAX_CALLS:
                return
            last = self._open(part, call)
        elif "thoughtSignature" in part:
            if "thoughtSignature" in last.part:
                self._lone_signature(part)
            else:
                last.part["thoughtSignature"] = part["thoughtSignature"]
        pieces, args = call.get("partialArgs"), last.args
        if args is not None and type(pieces) is list:
            self._pieces(last, args, pieces)
        last.open = bool(call.get("willContinue"))
        self._growing = args if last.open else None
        self._grown = last
        if args is not None and not last.open:
            self._tell(last, args.close())

    def _open(self, part: dict[str, Any], call: dict[str, Any]) -> _Call:
        call_id, wire_name, args, fault = self._call_id(call.get("id")), call.get("name"), call.get("args"), None
        name = wire_name if type(wire_name) is str else ""
        text = json.dumps(args if args is not None else {}, ensure_ascii=False)
        if type(args) is str:
            args, fault = read_arguments(args)
            call = {**call, "args": args or {}}
            part = {**part, "functionCall": call}
        if call.get("willContinue") or call.get("partialArgs"):
            kept = {key: call[key] for key in ("id", "name") if key in call}
            made = _Call(call_id, name, self._name_of(name), {**part, "functionCall": kept})
            made.args = PartialArgs(args if type(args) is dict else None)
            self._on_event(new_event(StreamEvent, ("tool_call_delta", "", call_id, made.shown)))
        else:
            made = _Call(call_id, name, self._name_of(name), part)
            self._tell(made, text)
            made.fault = fault
            if args is not None and type(args) is not dict:
                made.fault = f"the arguments are not a JSON object but {type(args).__name__}; send one JSON object"
        if not name:
            made.fault = "the call names no tool"
        self._calls.append(made)
        self._keep(made.part)
        return made

    def _drawn(self) -> Iterator[Any]:
        """Yield the images that the model made, as base64; drafts from its thinking stay in its content."""
        for part in self._parts:
            if type(inline := part.get("inlineData")) is dict and part.get("thought") is not True:
                yield inline.get("data")

    def _lone_signature(self, part: dict[str, Any]) -> None:
        if "thoughtSignature" in part:
            self._keep({"text": "", "thoughtSignature": part["thoughtSignature"]})

    def _pieces(self, call: _Call, args: PartialArgs, pieces: list[Any]) -> None:
        for piece in pieces:
            try:
                text = args.feed(piece if type(piece) is dict else {})
            except BadPiece as bad:
                call.fault = call.fault or f"the call came in pieces that do not fit together: {bad}. Send it again"
                continue
            if text:
                call.texts.append(text)
                self._on_event(new_event(StreamEvent, ("tool_call_delta", text, call.id, call.shown)))

    def _tell(self, call: _Call, text: str) -> None:
        if text:
            call.texts.append(text)
            self._on_event(new_event(StreamEvent, ("tool_call_delta", text, call.id, call.shown)))

    def _finished(self, call: _Call) -> ToolCall:
        args: Any
        if call.args is None:
            args = call.part["functionCall"].get("args") or {}
        else:
            args = call.part["functionCall"]["args"] = call.args.value
            if (call.open and self._finish != "STOP") or not call.args.whole:
                call.fault = CUT_OFF if self.end is CUT else "the reply ended inside this call. Send it again"
        if call.fault is not None:
            return ToolCall(call.id, call.shown, {UNREADABLE: "".join(call.texts)}, call.fault)
        return ToolCall(call.id, call.shown, args)


def _has_none(usage: dict[str, Any]) -> bool:
    """Return whether a count is 0 or negative, which must not replace an earlier one."""
    return any(type(count) is int and count <= 0 for count in usage.values())
