"""Search in stored conversations, for tools and interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from toolcrib.contract.context import Principal

SearchOrder: TypeAlias = Literal["newest", "best"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Filters of a search; a value that is None or empty does not filter. Times are Unix seconds.

    ``principal``: only sessions of that principal. ``cwd``: sessions of that folder and of those below it. ``roles``: any of
    user, assistant and results. ``tags``: sessions that have all of them.
    """

    session_id: str | None = None
    principal: Principal | None = None
    platform: str | None = None
    cwd: str | None = None
    since: float | None = None
    until: float | None = None
    roles: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that was found. ``seq`` is its position in its session, from 0; ``snippet`` is the text around the match, on one
    line; ``marks`` are the matching ranges of the snippet. ``at``: Unix seconds, 0 if unknown. ``source`` is the author of a
    message of the role user that no person wrote: ``delegate`` or ``toolcrib``.
    """

    session_id: str
    title: str
    seq: int
    role: str
    at: float
    snippet: str
    marks: Sequence[tuple[int, int]]
    platform: str
    cwd: str
    source: str = ""


class SearchRefused(ToolcribError):
    """A query that can't match anything."""


class MessageSearch(Protocol):
    """Full-text search over the messages of all sessions."""

    async def find(
        self, query: str, where: SearchFilter = ..., *, order: SearchOrder = ..., limit: int = ..., offset: int = ...
    ) -> Sequence[SearchHit]:
        """Return messages that contain all of the query's words, the newest or the best first.

        ``"a phrase"``, ``begin*``, ``one OR other``, and ``-not`` have their usual meaning; names such as
        ``read_file``, ``readFile`` and ``a.b`` are found whole and by their parts, Chinese, Japanese and Korean text
        by any of its parts. "best" ranks the newest 2,000 matches. Raises SearchRefused for a query without a word,
        and StoreFailed.
        """
        ...
