"""What a word may be, as far as that can be told without running anything."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

HOLE = "\ufffc"
"""Stands in a text for a part that cannot be known: any text, also an empty one. In a script itself it counts as unknown too."""


class Taint(IntFlag):
    """Where a text comes from; it sticks to whatever is made of it."""

    NONE = 0
    UNKNOWN = 1
    """Holds something that only running would tell."""
    REMOTE = 2
    """Came over the network."""
    DECODED = 4
    """Was encoded, encrypted or compressed in a way that hides it from a reader."""
    SECRET = 8
    """Holds a key, a password, a token."""
    LOCAL = 16
    """The content of a file of this machine that was not read."""


class Value(NamedTuple):
    """``text`` with HOLEs for what is unknown; ``pattern``: unquoted ``* ? [`` in it are active, so it may stand for several.

    ``shown`` is how the source wrote it (``$DATA_DIR/x``), where that says more than ``text``; else "".
    """

    text: str
    taint: Taint = Taint.NONE
    pattern: bool = False
    shown: str = ""

    @property
    def known(self) -> bool:
        return HOLE not in self.text

    def for_people(self) -> str:
        return self.shown or self.text


EMPTY = Value("")
ANYTHING = Value(HOLE, Taint.UNKNOWN)
