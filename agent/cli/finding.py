"""A finding of `toolcrib doctor`, and the repair of a fault that the program can do itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Repair:
    """``does`` is what exactly ``act`` will do: a line of a shell where there is one, else words. ``act`` gives lines about what
    it did, and raises ToolcribError or OSError. ``again`` is the check that found the fault.

    ``loses`` says what is removed, overwritten or ended by it, "" for nothing: a person agrees to that at a terminal.
    ``is_outside`` is True where it changes more than the folders of this configuration and its state.
    """

    does: str
    act: Callable[[], Iterable[str]]
    again: Callable[[], Iterable[CheckFinding]]
    loses: str = ""
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """``id`` stays the same from release to release. ``fix`` says what to do about it; empty where there is nothing to do."""

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
        """Return whether ``others``, of the check that found it, have the same fault."""
        return any(one.id == self.id for one in others)
