"""Rules and messages that are the same in every store."""

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
OVERLAP = "the run before was still under way"
"""Note of a run that was not begun."""
CANDIDATES = 5


def title_of(message: Mapping[str, Json]) -> str | None:
    """Return the title that a session gets by this message: the beginning of a user's text, of its first paragraph. None for any
    other message. What is behind that is often data: what was piped in, a file.
    """
    if message.get("role") != "user":
        return None
    text = message.get("text")
    return " ".join(text.lstrip()[: 20 * TITLE_CHARS].partition("\n\n")[0].split())[:TITLE_CHARS] if isinstance(text, str) else ""


def first_title(messages: Iterable[Mapping[str, Json]]) -> tuple[str, bool]:
    """Return the title that a session gets by these messages, "" for none, and whether a user said something in them."""
    titles = [title for title in map(title_of, messages) if title is not None]
    return next(filter(None, titles), ""), bool(titles)


def times_of(info: SessionInfo, times: Sequence[float], count: int) -> list[float]:
    """Return when each of ``count`` messages of a session that was elsewhere was kept."""
    return [*times[:count], *[info.updated_at] * (count - len(times))]


def tags_of(tags: Iterable[str]) -> str:
    """Return tags as a column has them: JSON in ASCII without blanks, in which ``"tag"`` stands for each."""
    return json.dumps(list(dict.fromkeys(tags)), separators=(",", ":"))


def tag_in(tag: str) -> str:
    """Return what stands in the column of a session that has the tag."""
    return json.dumps(tag)


def ambiguous(prefix: str, ids: Sequence[str]) -> ToolcribError:
    """``ids`` are those that begin with ``prefix``, or the first CANDIDATES + 1 of them."""
    named = ", ".join(ids[:CANDIDATES]) + (" ..." if len(ids) > CANDIDATES else "")
    return ToolcribError(f"several sessions have an id that begins with {prefix!r}: {named}; give more of it")


def received(item: InboxItem, clock: Clock) -> InboxItem:
    """The item as it is kept: read-only, with a time."""
    return replace(
        item,
        principal=freeze(item.principal),
        images=tuple(map(freeze, item.images)),
        options=freeze(item.options),
        at=item.at or clock(),
    )


def lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"the session {lease.name!r} was taken over by another process; what this one would write no longer counts."
        " Open the session again to continue it here"
    )


def interrupted(name: str, handler_started: bool) -> ToolResult:
    """The result of a call whose process ended."""
    words = "interrupted; it may have run, or still run" if handler_started else "interrupted before it ran"
    return replace(ToolResult.error(name, words), failure=Failure(handler_started, "Cancelled", words))


def can_finish_as(status: ToolCallStatus) -> bool:
    return status.is_terminal or status is ToolCallStatus.SUSPENDED


def check_opening(status: ToolCallStatus) -> None:
    """Raise ValueError for a status that no call begins with."""
    if status not in (ToolCallStatus.NEW, ToolCallStatus.RUNNING):
        raise ValueError(f"a call is opened as new or running, not as {status.value}")


def check_settling(state: TicketState) -> None:
    """Raise ValueError for a state that settles nothing."""
    if state == "pending":
        raise ValueError("a ticket is settled as approved, denied or expired")


def rewritten(
    prompts: Iterable[tuple[T, str]], rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]
) -> Iterator[tuple[T, str]]:
    """Yield (id, prompt) for the prompts that ``rewrite`` makes others."""
    for name, stored in prompts:
        before = json.loads(stored)
        after = dict(rewrite(before))
        if after != before:
            yield name, json.dumps(after)
