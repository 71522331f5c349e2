"""Rules and messages that all stores share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import LeaseLost, ToolcribError
from toolcrib.contract.frozen import freeze
from toolcrib.contract.store import InboxItem, Lease, SessionInfo, TicketState
from toolcrib.contract.types import Failure, Json, ToolCallStatus, ToolResult

T = TypeVar("T")
Clock = Callable[[], float]
"""Unix time in seconds."""

TITLE_CHARS = 80
OVERLAP = "the previous run was still in progress"
"""Note of a scheduled run that did not start."""
CANDIDATES = 5


def title_of(message: Mapping[str, Json]) -> str | None:
    """Return the session title from this message: the beginning of the first paragraph of a user's text. None for other messages.

    Later paragraphs are often data, such as piped input or a file.
    """
    if message.get("role") != "user":
        return None
    text = message.get("text")
    return " ".join(text.lstrip()[: 20 * TITLE_CHARS].partition("\n\n")[0].split())[:TITLE_CHARS] if isinstance(text, str) else ""


def first_title(messages: Iterable[Mapping[str, Json]]) -> tuple[str, bool]:
    """Return the session title from these messages, "" for none, and whether any is a user's."""
    titles = [title for title in map(title_of, messages) if title is not None]
    return next(filter(None, titles), ""), bool(titles)


def times_of(info: SessionInfo, times: Sequence[float], count: int) -> list[float]:
    """Return the storage time of each of ``count`` messages of a session from elsewhere."""
    return [*times[:count], *[info.updated_at] * (count - len(times))]


def tags_of(tags: Iterable[str]) -> str:
    """Return tags as a column's value: JSON in ASCII without blanks, which contains ``"tag"`` for each."""
    return json.dumps(list(dict.fromkeys(tags)), separators=(",", ":"))


def tag_in(tag: str) -> str:
    """Return the text that a session's ``tags`` column contains if the session has this tag."""
    return json.dumps(tag)


def ambiguous(prefix: str, ids: Sequence[str]) -> ToolcribError:
    """Return the error for an ambiguous prefix. ``ids`` are the matching ids, or the first CANDIDATES + 1 of them."""
    named = ", ".join(ids[:CANDIDATES]) + (" ..." if len(ids) > CANDIDATES else "")
    return ToolcribError(f"several sessions have an id that begins with {prefix!r}: {named}; use a longer one")


def received(item: InboxItem, clock: Clock) -> InboxItem:
    """Return the item in its stored form: read-only, with a time."""
    return replace(
        item,
        principal=freeze(item.principal),
        images=tuple(map(freeze, item.images)),
        options=freeze(item.options),
        at=item.at or clock(),
    )


def lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"the session {lease.name!r} was taken over by another process, so this one can't write it any more."
        " Open the session again to continue it here"
    )


def interrupted(name: str, handler_started: bool) -> ToolResult:
    """Return the result of a call whose process ended."""
    words = "interrupted; it may have run, or may still be running" if handler_started else "interrupted before it ran"
    return replace(ToolResult.error(name, words), failure=Failure(handler_started, "Cancelled", words))


def can_finish_as(status: ToolCallStatus) -> bool:
    return status.is_terminal or status is ToolCallStatus.SUSPENDED


def check_opening(status: ToolCallStatus) -> None:
    """Raise ValueError for a status that no call starts with."""
    if status not in (ToolCallStatus.NEW, ToolCallStatus.RUNNING):
        raise ValueError(f"a call is opened as new or running, not as {status.value}")


def check_settling(state: TicketState) -> None:
    """Raise ValueError for a state that is not settled."""
    if state == "pending":
        raise ValueError("a ticket is settled as approved, denied or expired")


def rewritten(
    prompts: Iterable[tuple[T, str]], rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]
) -> Iterator[tuple[T, str]]:
    """Yield (id, prompt) for the prompts that ``rewrite`` changes."""
    for name, stored in prompts:
        before = json.loads(stored)
        after = dict(rewrite(before))
        if after != before:
            yield name, json.dumps(after)
