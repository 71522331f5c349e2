"""Search in stored conversations, as tools and surfaces see it."""

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
    """Limits of a search; what is None or empty limits nothing. Times are Unix seconds.

    ``principal``: sessions of that person alone. ``cwd``: sessions of that folder and of those below it. ``roles`` are of user,
    assistant and results. ``tags``: sessions that have each of them.
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
    """A message that was found. ``seq`` is its place in its session, from 0; ``snippet`` is the text around what was found in
    it, on one line; ``marks`` are the ranges of the snippet that were searched for. ``at``: Unix seconds, 0 where unknown.
    ``source`` is who said a message of the role user that no person wrote: ``delegate`` or ``toolcrib``.
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
    """A query that nothing can be found by."""


class MessageSearch(Protocol):
    """Full-text search over the messages of all sessions."""

    async def find(
        self, query: str, where: SearchFilter = ..., *, order: SearchOrder = ..., limit: int = ..., offset: int = ...
    ) -> Sequence[SearchHit]:
        """Return messages in which all of the query's words stand, the newest or the best first.

        ``"a phrase"``, ``begin*``, ``one OR other``, and ``-not`` mean what they do elsewhere; names such as ``read_file``,
        ``readFile`` and ``a.b`` are found whole and by their parts, Chinese, Japanese and Korean text by any of its parts.
        "best" ranks the newest 2,000 of what is found. Raises SearchRefused for a query without a word, and StoreFailed.
        """
        ...
