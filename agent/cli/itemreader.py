"""The part of the chat's screen that its commands use: it shows items in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.cli.attached_screen import Attached
    from agent.cli.screen.list_picker import PickItem


class ItemReader(Protocol):
    """Shows items in full, lists to pick from and terminals, switches colours, and restores unsent input."""

    def number_of(self, call_id: str) -> int | None:
        """Return the number of the newest call with that id, or None if it was not shown."""
        ...

    async def show(self, number: int | None) -> None:
        """Show the item with this number; None means the last one. Raises ToolcribError if it does not exist."""
        ...

    async def read(self, whole: str) -> None:
        """Show a text, in the pager if it is long."""
        ...

    def put_back(self, typed: str) -> None:
        """Put an unsent message back into the draft."""
        ...

    def restore_draft(self) -> None:
        """Restore the draft that an ended process of this session left unsent."""
        ...

    async def pick(self, items: Sequence[PickItem], title: str, current: str = "") -> str | None:
        """Return the value of the item that the user picks from a list, or None if they leave it. The mark starts at the item
        with the value ``current``.
        """
        ...

    async def edited(self, text: str) -> str | None:
        """Return the text after the user has edited it, or None if the editor failed."""
        ...

    async def show_terminal(self, attached: Attached, name: str) -> str:
        """Show a terminal of the session in place of the chat until the user leaves it. Return what happened. Raises
        ToolcribError.
        """
        ...

    def switch_theme(self, name: str) -> str:
        """Switch the colours and show a sample; "" keeps the current ones. Return the name of the current theme."""
        ...
