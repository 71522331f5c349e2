"""A conversation for a model without native tools: system, user, the model's own text, and results as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._chat_messages import ChatMessages
from agent.providers._history import encode
from agent.providers._images import Pictured, carried, chat_from_tools, pictured, pictured_record
from agent.providers._names import WireNames
from agent.providers._reasoning import ReasoningBack
from toolcrib.contract.session import ExecutedCall, TextProtocol
from toolcrib.contract.types import ToolCall


class TextMessages(ChatMessages):
    """The conversation as text. ``tool_role`` False: the server refuses the role tool; results are user messages (001-7)."""

    def __init__(self, protocol: TextProtocol, model: str) -> None:
        super().__init__(WireNames(()), model)
        self._protocol = protocol
        self._as_user: dict[int, bytes] = {}
        self.tool_role = True

    @property
    def has_tool_role(self) -> bool:
        return bool(self._as_user)

    def executed(self, executed: Sequence[ExecutedCall]) -> None:
        self._append(self._protocol.render_results(executed), pictured(executed))

    def records(self, records: Iterable[Mapping[str, Any]], *, skip_system: bool) -> None:
        for record in carried(records):
            if record.get("role") == "results":
                skip_system = False
                self._append(self._protocol.render_recorded(record["results"]), pictured_record(record))
            else:
                super().records([record], skip_system=skip_system)
                skip_system = skip_system and record.get("role") == "system"

    def joined(self, back: ReasoningBack) -> bytes:
        if self.tool_role or not self._as_user:
            return super().joined(back)
        return self._listed(self._as_user.get(place, one) for place, one in enumerate(self._sent))

    def _append(self, messages: Sequence[Mapping[str, Any]], shown: Pictured) -> None:
        """Add messages. Images are part of the last one if its role is user, else a message after it (004-21)."""
        if shown:
            images = chat_from_tools(shown)
            *before, last = messages or [{"role": "user", "content": ""}]
            if last["role"] == "user" and isinstance(last["content"], str):
                said = [{"type": "text", "text": last["content"]}] if last["content"] else []
                messages = [*before, {**last, "content": [*said, *images]}]
            else:
                messages = [*messages, {"role": "user", "content": images}]
        for message in messages:
            if message["role"] == "tool":
                told = f"Tool result ({message['name']}): {message['content']}"
                self._as_user[len(self._sent)] = encode({"role": "user", "content": told})
            self._add(message)

    def _native(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the model's own text, thinking included (000-20); a reply from another wire is converted to text."""
        native = record.get("native")
        message = native.get("message") if isinstance(native, Mapping) else None
        if isinstance(message, Mapping) and native and native.get("wire") in ("text", "chat") and not message.get("tool_calls"):
            return {"role": "assistant", "content": message.get("content") or record.get("text") or ""}
        calls = [ToolCall(call["id"], call["name"], call["args"]) for call in record.get("calls") or ()]
        text = record.get("text") or ""
        return {"role": "assistant", "content": self._protocol.render_reply(text, calls) if calls else text}
