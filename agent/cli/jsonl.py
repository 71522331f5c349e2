"""A run as JSON lines, as docs/events.md specifies. Within one version, fields are only added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from agent.cli.faults import kind_of
from agent.cli.repeating import EarlierOutput
from agent.cli.view import CUT_SHORT
from agent.events import (
    CompressionFailed,
    ContextCompressed,
    ContextCompressing,
    DelegateEnded,
    Event,
    ImageMade,
    ModelAnswered,
    Retrying,
    SessionBusy,
    TextDelta,
    ThinkingDelta,
    ToolActivity,
    ToolCallDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import ToolCallStatus
from tools.dispatch.json_results import as_json, images_of

if TYPE_CHECKING:
    from agent.cli.images import ImageFolder
    from toolcrib.contract.store import TicketRecord

VERSION = 2
_STATUS = {
    ToolCallStatus.SUCCEEDED: "succeeded",
    ToolCallStatus.FAILED: "failed",
    ToolCallStatus.CANCELLED: "cancelled",
    ToolCallStatus.SUSPENDED: "pending",
}


class JsonLines:
    """Writes each event as a JSON object on its own line, immediately."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.earlier = EarlierOutput()
        """Events that an earlier process may have printed already. They are printed again with the field ``repeated``."""
        self._mark: dict[str, bool] = {}
        self.images: ImageFolder | None = None
        """Folder for the images that the model makes; a line names only the file."""

    def write(self, kind: str, /, **fields: Any) -> None:
        self._out.write(_line({"v": VERSION, "type": kind, **fields, **self._mark}) + "\n")
        self._out.flush()

    def started(
        self, session: str, model: str, tools: Sequence[str], instructions: Sequence[str], allowed: Sequence[str] = ()
    ) -> None:
        more: dict[str, Any] = {"allowed": list(allowed)} if allowed else {}
        more |= {"resumed": True} if self.earlier.is_run else {}
        self.write("run_started", session=session, model=model, tools=list(tools), instructions=list(instructions), **more)

    def __call__(self, event: Event) -> None:
        self._mark = {"repeated": True} if self.earlier.has(event) else {}
        try:
            self._event(event)
        finally:
            self._mark = {}

    def _event(self, event: Event) -> None:
        match event:
            case TextDelta(text=text, id=of):
                self.write("text_delta", id=of, text=text)
            case ThinkingDelta(text=text, id=of):
                self.write("thinking_delta", id=of, text=text)
            case ToolCallDelta(call_id=of, name=name, text=text):
                self.write("tool_call_delta", id=of, name=name, text=text)
            case TurnStarted(number=number):
                self.write("turn_started", turn=number)
            case TurnFinished():
                self._turn_finished(event)
            case ImageMade(image=image, id=of):
                saved = {} if self.images is None else {"path": str(self.images.save(image))}
                self.write("image", id=of, **_told(image), **saved)
            case ToolStarted(call=call):
                fault = {} if call.fault is None else {"fault": call.fault}
                self.write("tool_started", id=call.id, name=call.name, args=call.args, **fault)
            case ModelAnswered(call=call, model=model, approved=approved, why=why):
                self.write("model_answered", id=call.id, name=call.name, model=model, approved=approved, why=why)
            case ToolFinished(executed=executed):
                self._finished(executed)
            case Retrying(attempt=attempt, seconds=seconds, reason=reason):
                self.write("retrying", attempt=attempt, seconds=round(seconds, 3), reason=reason)
            case _:
                self._rare(event)

    def _rare(self, event: Event) -> None:
        match event:
            case ToolProgressed(call_id=of, status=status, message=message, share=share):
                known = {} if share is None else {"progress": round(share, 4)}
                self.write("tool_progress", id=of, status=status, message=message, **known)
            case ToolActivity(call_id=of, activity=activity, content=content):
                self.write("tool_activity", id=of, activity=activity, content=content)
            case SessionBusy(session_id=session):
                self.write("session_busy", session=session)
            case ContextCompressing(why=why):
                self.write("context_compressing", why=why)
            case ContextCompressed(before=before, after=after, why=why, problem=problem):
                unsummarised = {"problem": problem} if problem else {}
                self.write("context_compressed", before=before, after=after, why=why, **unsummarised)
            case DelegateEnded(session_id=session, name=name, ended=ended, problem=problem):
                said = {"problem": problem} if problem else {}
                self.write(
                    "delegate_ended", session=session, name=name, ended=ended, **said, turns=event.turns, tokens=event.tokens
                )
            case CompressionFailed(reason=reason):
                self.write("warning", kind="not_compressed", message=reason)

    def error(self, error: ToolcribError) -> None:
        self.write("error", kind=kind_of(error), message=str(error))

    def refused(self, why: str, code: int) -> None:
        """Write the events of a run that did not start because its command line is wrong."""
        self.error(ToolcribError(why))
        self.finished(stopped="error", finish="", text="", usage={}, turns=0, code=code)

    def parked(self, tickets: Sequence[TicketRecord]) -> None:
        told = [
            {
                "id": one.ticket.id,
                "call_id": "" if one.ticket.call is None else one.ticket.call.id,
                "message": one.ticket.message,
                "prompt": one.ticket.parameters.get("prompt", one.ticket.message),
            }
            for one in tickets
        ]
        self.write("run_parked", tickets=told)

    def finished(
        self, *, stopped: str, finish: str, text: str, usage: Mapping[str, int], turns: int, code: int, data: Any = None
    ) -> None:
        more = {} if data is None else {"data": data}
        self.write(
            "run_finished", stopped=stopped, finish=finish, text=text, **more, usage=dict(usage), turns=turns, exit_code=code
        )

    def _turn_finished(self, turn: TurnFinished) -> None:
        number, finish = turn.number, turn.finish
        self.write("turn_finished", turn=number, text=turn.text, calls=turn.calls, usage=dict(turn.usage), finish=finish)
        if finish in CUT_SHORT:
            self.write("warning", kind=finish, turn=number, message=CUT_SHORT[finish])

    def _finished(self, executed: ExecutedCall) -> None:
        result = executed.result
        denied = result.failure is not None and result.failure.kind == "Denied"
        status = "denied" if denied else _STATUS.get(executed.status, executed.status.value)
        status = "unrecorded" if executed.unrecorded and status == "succeeded" else status
        text = as_json(executed)
        told = {"error": result.message or text} if result.is_error else {"result": _value(text)}
        images = {"images": [_told(image) for image in shown]} if (shown := images_of(executed)) else {}
        call, duration = executed.call, round(executed.duration, 6)
        about = {"id": call.id, "name": call.name, "status": status, "duration": duration}
        try:
            self.write("tool_finished", **about, **told, **images)
        except RecursionError:  # the text parses, but nests too deep to be written again
            self.write("tool_finished", **about, result=text, **images)


def _told(image: Image) -> dict[str, Any]:
    return {"media_type": image.media_type, "bytes": len(image.data)}


def _value(text: str) -> Any:
    """Return a result's text as a JSON value, or as text if Python can't parse it, because it is nested too deeply or a number
    is too long.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _line(value: Any) -> str:
    """Return the value as a line of JSON in ASCII: other characters might be escaped for the locale, which breaks JSON."""
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except ValueError:  # NaN and infinities, which models write and JSON does not have
        return json.dumps(json.loads(json.dumps(value, default=str), parse_constant=str))
