"""Blocks of calls without their closing tag: servers cut replies at such tags, and models forget them."""

from __future__ import annotations

import re

from agent.protocols import _bare
from agent.protocols._fences import ProtocolFence
from agent.protocols._made import CUT_OFF, Definitions, faulty
from agent.protocols._scan import Cut, JsonScanner, Scanner
from toolcrib import ToolCall

_WHOLE_END = re.compile(r"(?<!param>)(?<!parameter>)(?<!arg_key>)(?<=[\]}):>])\s*\Z")


def without_end(body: str, scanner: Scanner | None, *, truncated: bool) -> str | None:
    """Return a list of calls with the bracket that it lacks; None where more than that is missing."""
    if truncated or not isinstance(scanner, JsonScanner) or not scanner.open_list:
        return None
    return body.rstrip().rstrip(",") + "]"


def open_calls(
    body: str, cut: Cut, fence: ProtocolFence, scanner: Scanner | None, known: Definitions, *, truncated: bool
) -> tuple[list[ToolCall], str]:
    """(the calls of a block that was not closed, the text behind them)."""
    rest = cut.rest
    if (listed := without_end(body, scanner, truncated=truncated)) is not None:
        body = listed
    elif fence.loose and not truncated and (value := _bare.leading_value(body)) is not None:
        body, rest = value
    whole = not truncated and (fence.where == "line" or _WHOLE_END.search(body))
    calls = fence.read(body, known) if whole else []
    broken = any(call.fault is not None or known.lacks(call.name, call.args) for call in calls)
    if not calls or (broken and not cut.complete and fence.where != "line"):
        calls = [faulty(_bare.name_in(body), body, CUT_OFF)]
    return calls, rest
