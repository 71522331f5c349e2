"""Receivers of the user's actions at the keyboard."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Hands(Protocol):
    """Receiver of the user's actions."""

    def sent(self, text: str, *, steers: bool) -> None:
        """Handle a sent draft, whose large pastes are labels: see ``Pastes``. ``steers``: the draft is for the current run."""
        ...

    def interrupted(self) -> None:
        """Handle Ctrl-C when no question waits and no search of the history is open."""
        ...

    def broken_off(self) -> None:
        """Handle Escape when no question waits and no completions are shown."""
        ...

    def left(self) -> None:
        """Handle Ctrl-D in an empty draft."""
        ...

    def changed(self, *, whole: bool) -> None:
        """Handle a change of the input. ``whole``: everything must be painted again, for example after a change of the screen's
        size.
        """
        ...

    def cleared(self) -> None:
        """Handle Ctrl-L."""
        ...

    def next_mode(self) -> None:
        """Handle Shift-Tab."""
        ...

    def pasted(self, text: str) -> str:
        """Return the text that the draft receives for a paste: a dropped file is pasted as its path."""
        ...

    async def paste_image(self) -> None:
        """Handle Ctrl-V: add the clipboard's image."""
        ...

    @property
    def has_queued(self) -> bool:
        """True while a message waits for its turn."""
        ...

    def take_back(self) -> str:
        """Remove the last waiting message from the queue, and return its draft."""
        ...

    @property
    def height(self) -> int:
        """Return the number of rows of the screen."""
        ...

    @property
    def is_settling(self) -> bool:
        """True while a question waits for a pause in the typing: no line is sent meanwhile."""
        ...

    def away(self) -> AbstractContextManager[None]:
        """Leave the screen to another program within the block."""
        ...
