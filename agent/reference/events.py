"""The events that a program gets from a run."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

from agent.reference.contract import types_in
from agent.reference.page import Page, code, doc_of, rows

_WORDS = """\
`Agent(on_event=...)` receives these events, `Agent.stream` returns them, and every interface of toolcrib uses them to show runs.
Import them from `toolcrib`.
[Events as JSON lines](../events.md) describes the form that `toolcrib run --json` prints."""


def pages() -> Iterator[Page]:
    """Yield the single page of all events."""
    from agent import events

    found = [one for one in vars(events).values() if dataclasses.is_dataclass(one) and one.__module__ == events.__name__]
    lines = ["# Events", "", _WORDS, ""]
    for event in found:
        doc = doc_of(event)
        lines += [f"## {code(typing.cast('type', event).__name__)}", ""]
        lines += [] if doc.startswith(f"{typing.cast('type', event).__name__}(") else [doc, ""]
        made = [[code(one.name), code(str(one.type)), _default(one)] for one in dataclasses.fields(event)]
        lines += (
            [rows(("field", "type", "default"), made), "", types_in(" ".join(one[1] for one in made), ""), ""] if made else []
        )
    lines += [f"## {code('Event')}", "", "The type of all these events.", ""]
    yield Page("reference/events", "\n".join(lines))


def _default(one: dataclasses.Field[object]) -> str:
    if one.default is not dataclasses.MISSING:
        return code(repr(one.default))
    return "empty" if one.default_factory is not dataclasses.MISSING else ""
