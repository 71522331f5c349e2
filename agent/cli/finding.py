"""A finding of `toolcrib doctor`, and the repair of a problem that the program can fix itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a problem. ``does`` describes exactly what ``act`` does, as a shell command if one exists. ``act`` returns
    lines about what it did, and raises ToolcribError or OSError. ``again`` repeats the check that found the problem.

    ``loses`` names what the repair removes, overwrites or ends, "" for nothing; a user must agree to that at a terminal.
    ``is_outside``: the repair changes more than the folders of this configuration and its state.
    """

    does: str
    act: Callable[[], Iterable[str]]
    again: Callable[[], Iterable[CheckFinding]]
    loses: str = ""
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A result of a check. ``id`` stays the same in all releases. ``fix`` is advice, empty if nothing needs to be done."""

    id: str
    level: Level
    text: str
    fix: str = ""
    repair: Repair | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as ``--json`` prints it."""
        repair = None if self.repair is None else {"does": self.repair.does, "loses": self.repair.loses or None}
        return {"id": self.id, "level": self.level, "text": self.text, "fix": self.fix or None, "repair": repair}

    def is_among(self, others: Iterable[CheckFinding]) -> bool:
        """Return whether ``others``, found by the same check, include this problem."""
        return any(one.id == self.id for one in others)
