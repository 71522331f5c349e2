"""Messages for a web front end about a variant: agent.events as messages of five types, in the order of the events.

    thinking, assistant    a piece of the model's thinking or text; value is the piece
    toolStart              once per call, data {name, input}; for a previewed call perhaps before its arguments are complete
    setCode                the current code; value is all of it. Each preview of a call begins with the previous one
    toolResult             once per call, data {name, output, ok}

Every message of a call has the call's id, and every text stream of a turn has an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agent.events import (
    Event,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.filepair.preview import ArgumentReader, GrowingText, PartialText, shortened, summary
from agent.filepair.state import VariantFile
from toolcrib.contract.session import ExecutedCall

MessageType: TypeAlias = Literal["assistant", "thinking", "toolStart", "setCode", "toolResult"]

PREVIEWED: Mapping[str, str] = {"create_file": "content"}
"""The tools whose calls are previewed, and the argument that is shown."""
_PATH = "path"
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Message:
    """A message. ``value`` is text (None for toolStart and toolResult), ``data`` is the content of those two."""

    type: MessageType
    variant: int
    event_id: str
    value: str | None = None
    data: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON for a socket; value or data is left out if it is None."""
        found = {"type": self.type, "value": self.value, "data": self.data}
        told = {key: value for key, value in found.items() if value is not None}
        return {**told, "variantIndex": self.variant, "eventId": self.event_id}


class _Call:
    """A call of this turn that arrives in pieces."""

    def __init__(self) -> None:
        self.arguments = ArgumentReader({_PATH, *PREVIEWED.values()})


class Translator:
    """Turns a run's events into messages; ``send`` gets each message at once, and must not raise.

    ``knows`` returns whether the session has a tool of that name.
    """

    def __init__(
        self, send: Callable[[Message], None], state: VariantFile, *, variant: int = 0, knows: Callable[[str], bool] = bool
    ) -> None:
        self._send = send
        self._state = state
        self._variant = variant
        self._knows = knows
        self._tries = 0
        self._coming: dict[str, _Call] = {}
        self._previews: dict[str, GrowingText] = {}
        self._open: dict[str, str] = {}
        self._started: set[str] = set()
        self._version = state.version
        self.text = ""
        self.text_id = ""

    def __call__(self, event: Event) -> None:
        match event:
            case ToolCallDelta():
                self._delta(event)
            case TextDelta():
                self._say("assistant", event.id, event.text)
            case ThinkingDelta():
                self._say("thinking", event.id, event.text)
            case TurnStarted():
                self._begin_turn()
            case Retrying():
                self._tries += 1
                self._coming.clear()
            case ToolStarted():
                self._start(event.call.id, event.call.name, input_summary(event.call.name, event.call.args))
            case ToolFinished():
                self._finish(event.executed)
            case TurnFinished():
                self.text = event.text or self.text
                self._coming.clear()

    def close(self) -> None:
        """Send an error result for each call that was announced and did not run."""
        for call_id, name in list(self._open.items()):
            self._result(call_id, name, {"error": "interrupted before it ran"}, ok=False)

    def show_code(self, code: str) -> None:
        """Show code that no call wrote: it was in the model's text."""
        self._message("setCode", self.text_id or "assistant", code)

    # -- turns and texts -----------------------------------------------------------------------------------------

    def _begin_turn(self) -> None:
        """Begin a turn. Call ids are valid within one turn, because some servers reuse them in every turn (004-2)."""
        self.close()
        self._tries = 0
        self._coming.clear()
        self._previews.clear()
        self._started.clear()

    def _say(self, kind: Literal["assistant", "thinking"], stream: str, text: str) -> None:
        event_id = f"{stream}-again-{self._tries}" if self._tries else stream
        if kind == "assistant":
            self.text_id = event_id
        self._message(kind, event_id, text)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _delta(self, event: ToolCallDelta) -> None:
        call = self._coming.get(event.call_id)
        if call is None:
            call = self._coming[event.call_id] = _Call()
        call.arguments.feed(event.text)
        key = PREVIEWED.get(event.name)
        if key is None or not self._knows(event.name):
            return
        content, path = call.arguments.get(key), call.arguments.get(_PATH)
        shows = content is not None and content.length > 0
        if event.call_id not in self._started and (shows or (path is not None and path.done)):
            self._start(event.call_id, event.name, _partial_summary(path, content))
        preview = self._previews.get(event.call_id)
        if preview is None:
            preview = self._previews[event.call_id] = GrowingText()
        text = preview.next(content)
        if text is not None:
            self._message("setCode", event.call_id, text)

    def _start(self, call_id: str, name: str, shown: Mapping[str, Any]) -> None:
        if call_id in self._started:
            return
        self._started.add(call_id)
        self._open[call_id] = name
        self._message("toolStart", call_id, data={"name": name, "input": shown})

    def _finish(self, executed: ExecutedCall) -> None:
        call = executed.call
        self._start(call.id, call.name, input_summary(call.name, call.args))
        preview = self._previews.get(call.id)
        changed = self._state.version != self._version
        self._version = self._state.version
        # If the previewed content was not written after all, show the actual content again.
        if changed or (preview is not None and preview.sent and self._state.content):
            self._message("setCode", call.id, self._state.content)
        self._result(call.id, call.name, self._output(executed), ok=executed.result.is_success)

    def _result(self, call_id: str, name: str, output: Any, *, ok: bool) -> None:
        self._open.pop(call_id, None)
        self._message("toolResult", call_id, data={"name": name, "output": output, "ok": ok})

    def _output(self, executed: ExecutedCall) -> Any:
        result = executed.result
        if result.is_success:
            return result.data
        if executed.call.fault is None and not self._knows(executed.call.name):
            return {"error": f"Unknown tool: {executed.call.name}"}
        text = result.failure.text if result.failure is not None else result.message
        return {"error": text or "the tool failed without a message"}

    def _message(self, kind: MessageType, event_id: str, value: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._send(Message(kind, self._variant, event_id, value, data))


def input_summary(name: str, args: Any) -> dict[str, Any]:
    """Return arguments shortened for users; {path, contentLength, preview} for a call that writes content."""
    key = PREVIEWED.get(name)
    if key is not None and isinstance(args, Mapping) and isinstance(args.get(key), str):
        return _summary(str(args.get(_PATH, "")), args[key], len(args[key]))
    return summary(args, _SHOWN)


def _partial_summary(path: PartialText | None, content: PartialText | None) -> dict[str, Any]:
    named = path.text if path is not None and path.done else ""
    return _summary(named, "" if content is None else content.text, 0 if content is None else content.length)


def _summary(path: str, content: str, length: int) -> dict[str, Any]:
    return {"path": shortened(path, _SHOWN), "contentLength": length, "preview": shortened(content, _SHOWN)}
