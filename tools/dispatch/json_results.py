"""Results as JSON text, for models and the synchronous interface (003-19, 003-20, 003-21). Failures are ToolResults too."""

from __future__ import annotations

import json
from collections.abc import Sequence

from toolcrib.contract.errors import ToolError
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Failure, ToolResult, ToolStatus
from tools.clip import encode

_INSIDE = Regex(r"(?s)Tool execution failed: (?P<kind>\w+): (?P<text>.*)")


def failed(name: str, error: BaseException, *, inside: bool) -> ToolResult:
    """Return the result of a call that an exception ended. ``inside``: the handler raised it, not a step before or after it."""
    kind = type(error).__name__
    text = error.text if isinstance(error, ToolError) else str(error)
    data = {"error": {"code": error.code, "message": text}} if isinstance(error, ToolError) else None
    return ToolResult(name, ToolStatus.ERROR, data, words(Failure(inside, kind, text), name), failure=Failure(inside, kind, text))


def words(failure: Failure, name: str) -> str:
    """Return a failure's text for the model."""
    if failure.inside:
        return f"Tool execution failed: {failure.kind}: {failure.text}"
    return f"Error executing {name}: {failure.text}"


def reason(message: str, name: str) -> str:
    """Return the bare reason in a failure's message made by ``words``; any other message unchanged."""
    before = f"Error executing {name}: "
    if message.startswith(before):
        return message.removeprefix(before)
    found = _INSIDE.match(message)
    return message if found is None else found["text"] or found["kind"]


def as_json(executed: ExecutedCall) -> str:
    """Return the text for the model, always well-formed JSON. A handler's JSON text stays as it is."""
    result = executed.result
    if "model" in result.views:
        return _text(result.views["model"])
    match result.status:
        case ToolStatus.SUCCESS if result.message is not None:
            return encode({"result": result.data, "message": result.message})
        case ToolStatus.SUCCESS:
            if isinstance(result.data, str):
                return _text(result.data)
            return encode(result.data) if executed.encoded is None else executed.encoded
        case ToolStatus.PENDING:
            ticket = None if result.suspension is None else result.suspension.id
            return encode({"status": "pending", "message": result.message, "ticket": ticket})
        case _:
            return encode({"error": result.message or "the tool failed without a message"})


def images_of(executed: ExecutedCall) -> Sequence[Image]:
    """Return the images for the model beside the text of ``as_json``; none for an unsuccessful call (004-21)."""
    return executed.result.images if executed.result.is_success else ()


def _text(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return encode(text)
    return text
