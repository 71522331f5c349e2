"""Reads a Chat Completions reply, streamed or whole, into one ProviderTurn.

Servers differ in almost everything but the names (X-3 to X-5, X-8), so each rule here comes from some server's recorded answer.
A reply has calls if it contains any, whatever its finish reason; the finish reason decides whether they may run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent.providers._calls import CallReader, new_event
from agent.providers._events import EventReader, counts, latest
from agent.providers._images import drawn_in_chat
from agent.providers._reasoning import DetailReader
from agent.reply_ends import end_of, worse_word
from toolcrib.contract.session import ProviderTurn, StreamEvent

_CALLS = ("tool_calls", "function_call")
WHOLE_WORDS = (*_CALLS, "stop", "end_turn", "eos", "eos_token", "stop_sequence", "STOP", "COMPLETE")
"""Reasons for the end of a whole reply: calls run only after an end that is known to be good."""
_PLAIN = frozenset({"role", "content"})


class ChatReader(EventReader):
    """See EventReader. Calls keep the server's ids if they are new: some servers count from 0 in each reply.

    A call in ``function_call``, the predecessor of ``tool_calls``, is read in a stream, and in a whole body if ``sent_tools``. If
    no tools were sent, such a call in a whole body is ignored, because the model was offered none.
    """

    sent_tools = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._reasoning_key = ""
        self._empty_key = ""  # key of reasoning whose text is empty: DeepSeek requires it too
        self._details = DetailReader()
        self._images: list[Any] = []
        self._calls = CallReader(self._on_event, self._name_of, self._ids)
        self._finish = ""
        self._reads_legacy = True
        self._has_others = False  # choices that were not requested
        self._is_legacy = False  # the call came as function_call

    @property
    def size(self) -> int:
        return super().size + self._calls.size + self._details.size + len(self._images)

    def _call_parts(self) -> Sequence[str]:
        return () if self._calls.last is None else self._calls.last.parts

    @property
    def ended(self) -> bool:
        return self.done or bool(self._finish)

    def read_body(self, body: Any) -> None:
        """Read a whole reply, as parsed JSON."""
        if not isinstance(body, dict) or ("choices" not in body and not body.get("error")):
            if isinstance(body, dict) and (body.get("object") == "error" or "detail" in body):
                self._raise_error(body)
            raise self._broken("answered with something that is not a chat completion", json.dumps(body, default=str))
        self._reads_legacy = self.sent_tools
        self._take(body)
        self.done = True

    def finish(self) -> ProviderTurn:
        """Return the turn. Raises StreamBroken if the stream ended before the reply did: none of its calls may run."""
        if self._has_others and not (self._finish or self.text or self._calls.calls):
            raise self._broken("sent no choice with index 0, the one that was requested")
        if not self.ended:
            raise self._broken("ended the connection before the reply was complete")
        self._end_text()
        finish = self._ends(end_of(self._finish, WHOLE_WORDS), self._finish) if self._finish else "other"  # some omit it
        if self._finish in _CALLS:
            finish = "tool_calls"
        calls, native = self._calls.finish(truncated=finish == "length")
        text = self.text
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        if native:
            message["tool_calls"] = native
        if key := self._reasoning_key or self._empty_key:
            message[key] = self.reasoning if self._reasoning_key else ""
        if details := self._details.finish():
            message["reasoning_details"] = details
        if self._images:
            message["images"] = self._images
        images = drawn_in_chat(self._images)
        return ProviderTurn(text, self._hold(calls), message, self.usage, finish, self.model, self.reasoning, images)

    # -- one piece -----------------------------------------------------------------------------------------------

    def _take(self, chunk: dict[str, Any]) -> None:
        choices = chunk.get("choices")
        if choices:
            choice = choices[0] if type(choices) is list else None
            if type(choice) is not dict or choice.get("index"):
                choice = self._ours(choices)
            delta = choice.get("delta")
            if type(delta) is dict:
                content = delta.get("content")
                if type(content) is str and content.isascii() and not self._half["assistant_delta"]:
                    if content:
                        self._text.append(content)
                        self._on_event(new_event(StreamEvent, ("assistant_delta", content, "", "")))
                elif content:
                    self._content(content)
                if len(delta) == 1 and type(calls := delta.get("tool_calls")) is list:
                    self._calls.feed(calls)
                elif (content is None or len(delta) > 1) and not _PLAIN.issuperset(delta):
                    self._rest(delta)
            elif (message := choice.get("message")) is not None and not (self._text or self._calls.calls):
                self._take({"choices": [{"delta": message}]})  # a whole reply, or a stream's last piece that repeats it
            if choice.get("finish_reason"):
                self._ended(choice)
                self._head(chunk)
        if not choices or not self.model or chunk.get("usage") or "error" in chunk:
            self._head(chunk)

    def _ours(self, choices: Any) -> dict[str, Any]:
        """Return the requested choice; {} if a chunk has only others."""
        if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
            raise self._broken("sent choices that are not a list of objects", json.dumps(choices))
        ours: dict[str, Any] = next((one for one in choices if not one.get("index")), {})
        self._has_others |= not ours
        return ours

    def _head(self, chunk: dict[str, Any]) -> None:
        model = chunk.get("model")
        if not self.model and isinstance(model, str):
            self.model = model
        groq = chunk.get("x_groq")
        usage = chunk.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
        if isinstance(usage, dict):
            self._count(usage)
        error = chunk.get("error") or (groq.get("error") if isinstance(groq, dict) else None)
        if error or chunk.get("object") == "error" or chunk.get("type") == "error":
            self._raise_error(chunk)

    def _rest(self, delta: dict[str, Any]) -> None:
        """Read the parts of a delta that are less common than text."""
        for key in ("reasoning_content", "reasoning"):
            reasoning = delta.get(key)
            if reasoning == "":
                self._empty_key = self._empty_key or key
            elif isinstance(reasoning, str):
                self._reasoning_key = self._reasoning_key or key
                self._emit("thinking_delta", reasoning)
                break
        if details := delta.get("reasoning_details"):
            self._details.feed(details)
        if type(images := delta.get("images")) is list:
            self._images += [one for one in images if one not in self._images]  # the last piece may repeat all of them
        if tool_calls := delta.get("tool_calls"):
            self._calls.feed(tool_calls if isinstance(tool_calls, list) else [tool_calls])
        elif (
            self._reads_legacy
            and isinstance(legacy := delta.get("function_call"), dict)
            and (legacy.get("name") or legacy.get("arguments"))
            and (self._is_legacy or not self._calls.calls)  # beside tool_calls it repeats a call
        ):
            self._is_legacy = True
            self._calls.feed([{"index": 0, "function": legacy}])
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal and not delta.get("content"):
            self._emit("assistant_delta", refusal)

    def _content(self, content: Any) -> None:
        """Read text that is not plain ASCII, or a list of parts: text and thinking (Mistral)."""
        if isinstance(content, str):
            self._emit("assistant_delta", content)
            return
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._emit("assistant_delta", part)
            elif isinstance(part, dict):
                if part.get("type") in ("thinking", "reasoning"):
                    self._emit("thinking_delta", _part_text(part.get("thinking") or part.get("reasoning") or part.get("text")))
                else:
                    self._emit("assistant_delta", _part_text(part.get("text") or part.get("refusal")))

    # -- the end of the reply ------------------------------------------------------------------------------------

    def _ended(self, choice: dict[str, Any]) -> None:
        if error := choice.get("error"):
            self._raise_error(error)
        if choice["finish_reason"] == "error":
            raise self._broken("interrupted the reply without a reason")
        gateway = choice.get("provider_specific_fields")
        native = choice.get("native_finish_reason") or (isinstance(gateway, dict) and gateway.get("native_finish_reason"))
        self._finish = worse_word(str(choice["finish_reason"]), native, WHOLE_WORDS)

    def _count(self, usage: dict[str, Any]) -> None:
        found = {"input": usage.get("prompt_tokens"), "output": usage.get("completion_tokens")}
        for name, group, key in (
            ("cached", "prompt_tokens_details", "cached_tokens"),
            ("reasoning", "completion_tokens_details", "reasoning_tokens"),
        ):
            inner = usage.get(group)
            if isinstance(inner, dict) and inner.get(key):
                found[name] = inner[key]
        self.usage = latest(self.usage, counts(**found))


def _part_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_part_text(part.get("text") if isinstance(part, dict) else part) for part in value)
    return ""
