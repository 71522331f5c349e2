"""Receivers of what a person does at the keyboard."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Hands(Protocol):
    """Receiver of what a person does."""

    def sent(self, text: str, *, steers: bool) -> None:
        """Take a draft, whose large pastes are labels: see ``Pastes``. ``steers``: it is for what runs now."""
        ...

    def interrupted(self) -> None:
        """Ctrl-C, where no question waits and nothing lies in the draft."""
        ...

    def broken_off(self) -> None:
        """Escape, where no question waits."""
        ...

    def left(self) -> None:
        """Ctrl-D in an empty draft."""
        ...

    def changed(self, *, whole: bool) -> None:
        """Something was typed, or, where ``whole``, the screen has another size or was another program's."""
        ...

    def cleared(self) -> None:
        """Ctrl-L."""
        ...

    def next_mode(self) -> None:
        """Shift-Tab."""
        ...

    def pasted(self, text: str) -> str:
        """Return what of a paste goes into the draft: a file that was dropped is pasted as its path."""
        ...

    async def paste_image(self) -> None:
        """Ctrl-V: take the clipboard's picture."""
        ...

    @property
    def has_queued(self) -> bool:
        """True while a message waits for its turn."""
        ...

    def take_back(self) -> str:
        """Take the last message that waits out of the queue; return its draft."""
        ...

    @property
    def is_settling(self) -> bool:
        """True while a question waits for a pause in the typing: no line is sent meanwhile."""
        ...

    def away(self) -> AbstractContextManager[None]:
        """Leave the screen to another program for a while."""
        ...
