"""Decide which calls of a batch must keep their order, from the effects that their tools declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import DeletesFile, Effect, ReadsFile, WritesFile
from toolcrib.contract.entry import ToolEntry


@dataclass(frozen=True, slots=True)
class Reach:
    """The effects of a call. ``effects`` is None if unknown: the call may then do anything.

    ``acts``: the call may change something even if it has no declared effects. Its tool is unknown, or of kind edit or execute,
    or of kind other and declares neither effects nor that it changes nothing.
    """

    effects: Sequence[Effect] | None
    acts: bool

    @classmethod
    def of(cls, entry: ToolEntry | None, effects: Sequence[Effect] | None) -> Reach:
        """Return the reach of a call of this tool with these effects."""
        undeclared = entry is None or (entry.kind == "other" and entry.effects is None and entry.changes != "nothing")
        return cls(effects, undeclared or (entry is not None and entry.kind in ("edit", "execute")))

    @property
    def is_nothing(self) -> bool:
        """True if the call neither reads nor changes anything."""
        return self.effects is not None and not self.effects and not self.acts

    @property
    def only_reads(self) -> bool:
        """True if the call changes nothing."""
        return self.is_nothing or (bool(self.effects) and all(isinstance(effect, ReadsFile) for effect in self.effects or ()))


def must_wait(later: Reach, unsettled: Reach) -> bool:
    """Return whether the call ``later`` must wait for ``unsettled``, an earlier call of its turn that is suspended or waits.

    It need not wait if the two do not overlap. But if the earlier call has no effects to compare, such as a question to
    the user, every later call that may change something waits (002-32).
    """
    return overlap(later, unsettled) or (unsettled.is_nothing and not later.only_reads)


def overlap(one: Reach, other: Reach) -> bool:
    """Return whether the two calls overlap, so that they must keep their order.

    A command may do anything, as may a tool that acts and declares nothing. Two file effects overlap if their paths are equal or
    one is below the other, unless both only read. Paths are already resolved.
    """
    if one.is_nothing or other.is_nothing:
        return False
    mine, theirs = _paths(one), _paths(other)
    if mine is None or theirs is None:
        return True
    return any((changes or too) and _near(path, there) for path, changes in mine for there, too in theirs)


def _paths(reach: Reach) -> list[tuple[str, bool]] | None:
    """Return (path, whether it is changed) for each file effect; None if there are other effects, unknown ones or none."""
    if not reach.effects:
        return None
    found = list(_each(reach.effects))
    return None if None in found else [one for one in found if one is not None]


def _each(effects: Sequence[Effect]) -> Iterator[tuple[str, bool] | None]:
    for effect in effects:
        match effect:
            case ReadsFile(path):
                yield path, False
            case WritesFile(path) | DeletesFile(path):
                yield path, True
            case _:
                yield None


def _near(one: str, other: str) -> bool:
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)
