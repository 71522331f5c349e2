"""A finding of `toolcrib doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """``fix`` says what to do about it; empty where there is nothing to do."""

    level: Level
    text: str
    fix: str = ""
