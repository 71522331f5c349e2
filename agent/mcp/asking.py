"""Questions that a server asks during a call. Each becomes a ticket, so that any interface can ask the user, even much later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, SuspendTicket, ToolCall
from tools.judge.findings import visible

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

ACTION = "answer_server"
MOST_FIELDS = 5
"""Fields of a form. The user is asked about each separately."""
_YES, _NO = "yes", "no"
_DECLINE = "decline"
_SHOWN = 2_000


class Question(NamedTuple):
    """A question to the user. ``name`` is the field of the form that the answer fills, "" for a mere confirmation.

    ``verb`` follows the server's name. ``declines`` adds the choice to decline.
    """

    text: str
    choices: Sequence[str]
    name: str = ""
    schema: Mapping[str, Json] = {}
    verb: str = "asks"
    declines: bool = True

    def ticket(self, server: str, call: ToolCall) -> SuspendTicket:
        """Return the question as a ticket, which names the server: its words could pass for toolcrib's own."""
        choices = [*self.choices, *([_DECLINE] if self.declines else [])]
        text = f"The MCP server {server} {self.verb}:{'' if self.text.startswith(chr(10)) else ' '}{self.text}"
        schema = {"type": "string", "minLength": 1, "examples": choices}
        return SuspendTicket(ACTION, text, call, {"choices": choices, "server": server}, schema, "pass_to_tool")

    def value(self, said: Json) -> Json:
        """Return the value for the form. Raises ValueError, which names the expected value, and Declined."""
        text = str(said).strip()
        if text == _DECLINE:
            raise Declined
        kind = self.schema.get("type", "string")
        if kind == "boolean":
            return _boolean(text)
        if kind in ("integer", "number"):
            return int(text) if kind == "integer" else float(text)
        if kind == "array":
            return [part.strip() for part in text.split(",")]
        return self._of_title(text)

    def _of_title(self, text: str) -> str:
        for option in _options(self.schema):
            if option.get("title") == text:
                return str(option.get("const"))
        return text


class Declined(Exception):
    """The user declines to answer."""


def _boolean(text: str) -> bool:
    if text.casefold() in (_YES, "y", "true", _NO, "n", "false"):
        return text.casefold()[0] in "yt"
    raise ValueError(f"expected {_YES} or {_NO}")


def _options(schema: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    found = schema.get("oneOf")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def questions_of(params: ElicitRequestParams) -> list[Question] | None:
    """Return the questions of a server's request; None for a form that is too long."""
    message = visible(params.message, _SHOWN)
    if params.mode == "url":
        return [Question(f"{message}\nOpen this address yourself: {visible(params.url, _SHOWN)}\nIs that done?", (_YES,))]
    schema: Mapping[str, Any] = params.requested_schema
    properties = schema.get("properties") or {}
    if len(properties) > MOST_FIELDS:
        return None
    if not properties:
        return [Question(message, (_YES,))]
    return [
        Question(_worded(message, name, part, len(properties)), _choices(part), name, part) for name, part in properties.items()
    ]


def _worded(message: str, name: str, schema: Mapping[str, Json], count: int) -> str:
    about = visible(str(schema.get("description") or schema.get("title") or ""), _SHOWN)
    field = f"{visible(name)}: {about}" if about else visible(name)
    return message if count == 1 and not about else f"{message}\n{field}"


def _choices(schema: Mapping[str, Json]) -> Sequence[str]:
    if schema.get("type") == "boolean":
        return (_YES, _NO)
    if options := _options(schema):
        return [str(one.get("title") or one.get("const")) for one in options]
    found = schema.get("enum")
    return [str(one) for one in found] if isinstance(found, list) else ()
