"""What the loop tells whoever watches, as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from toolcrib import ExecutedCall, ToolCall


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of its reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call goes to the dispatcher. Its id is that of every later event of the call."""

    call: ToolCall
    emoji: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    executed: ExecutedCall
    emoji: str


Event: TypeAlias = TextDelta | ThinkingDelta | ToolStarted | ToolFinished
