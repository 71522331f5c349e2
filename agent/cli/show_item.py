"""Format calls for ``/show``: complete arguments and results as text that can be read and copied, without JSON escapes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agent.cli.escape import tame
from agent.cli.render import from_row, result_text
from toolcrib.contract.display import NO_DISPLAY, ToolDisplay
from toolcrib.contract.session import ExecutedCall
from tools.dispatch.json_results import images_of

_INDENT = "    "


def whole_of(executed: ExecutedCall, display: ToolDisplay = NO_DISPLAY) -> str:
    """Return a call's arguments and its whole result, without the diff (for that see ``diff_of``)."""
    call = executed.call
    left_out = display.in_result if executed.result.is_success else ()
    return tame("\n".join([call.name, *given(call.args, left_out), "", result_of(executed, display), ""]))


def diff_of(executed: ExecutedCall, differs: str | None = None) -> str:
    """Return the unified diff in a call's result, else ``differs``, the diff of a file that the call replaced, else ""."""
    data = executed.result.data
    found = data.get("diff") if executed.result.is_success and isinstance(data, Mapping) else None
    return found if isinstance(found, str) else differs or ""


def given(args: Any, left_out: Collection[str] = ()) -> Iterator[str]:
    """Yield lines of a call's arguments. A text with several lines is indented below its name."""
    if not isinstance(args, Mapping):
        yield from (args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)).split("\n")
        return
    for name, value in args.items():
        if name in left_out:
            continue
        text = value if isinstance(value, str) else _laid_out(value)
        if "\n" in text:
            yield f"{name}:"
            yield from (f"{_INDENT}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))
        else:
            yield f"{name}: {text}"


def _laid_out(value: Any) -> str:
    short = json.dumps(value, ensure_ascii=False, default=str)
    return short if len(short) <= 100 else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def result_of(executed: ExecutedCall, display: ToolDisplay) -> str:
    """Return a call's whole result for a user, without its diff: the text that the tool's display takes from the result, else the
    text that the model read, else the result's fields with line breaks kept.
    """
    result, data = executed.result, executed.result.data
    if not result.is_success or not isinstance(data, Mapping):
        return result_text(executed)
    text = from_row(display.result, data, str)
    if text is None and "person" in result.views:
        return result_text(executed)
    if text is None and isinstance(read := result.views.get("model"), str):
        text = read
    lines = [text] if text is not None else [*([] if result.message is None else [result.message]), *_fields(data, "")]
    return "\n".join([*lines, *map(str, images_of(executed))])


def _fields(value: Any, margin: str) -> Iterator[str]:
    """Yield the lines of a tool's data."""
    named = value.items() if isinstance(value, Mapping) else (("-", one) for one in value)
    for name, one in named:
        head = name if name == "-" else f"{name}:"
        if isinstance(one, Mapping | list | tuple) and one:
            yield f"{margin}{head}"
            yield from _fields(one, f"{margin}  ")
        elif isinstance(one, str) and "\n" in one:
            yield f"{margin}{head}"
            yield from (f"{margin}  {line}" for line in one.split("\n"))
        else:
            yield f"{margin}{head} {one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, default=str)}"
