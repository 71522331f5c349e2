"""Errors of the parser: reasons why it could not read a text as a shell script."""

from __future__ import annotations

from typing import Literal


class ShellSyntaxError(Exception):
    """Bash would refuse this text, or may read it in another way than this parser does. ``offset`` counts characters."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} (at character {offset})")
        self.message = message
        self.offset = offset


class ShellTooComplex(Exception):
    """The text is longer, or nested deeper, than the budget allows."""

    def __init__(self, kind: Literal["size", "depth"], offset: int) -> None:
        super().__init__(f"the script is too complex: {kind} (at character {offset})")
        self.kind = kind
        self.offset = offset
