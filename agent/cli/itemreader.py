"""The chat's own screen, as its commands use it: it shows whole what was shown in short."""

from __future__ import annotations

from typing import Protocol


class ItemReader(Protocol):
    """Shows items whole, all of it in other colours, and what was left unsent."""

    def number_of(self, call_id: str) -> int | None:
        """Return the number of the newest call of that id; None where it was not shown."""
        ...

    async def show(self, number: int | None) -> None:
        """Show the item, the last one for None. Raises ToolcribError where there is none."""
        ...

    async def read(self, whole: str) -> None:
        """Show a text, a long one in the pager."""
        ...

    def put_back(self, typed: str) -> None:
        """Lay a message that was not sent back into the draft."""
        ...

    def restore_draft(self) -> None:
        """Lay back into the draft what an ended process left unsent in this session."""
        ...

    def switch_theme(self, name: str) -> str:
        """Switch the colours, and show a sample; "" shows those that are on. Return the name of the theme that is on."""
        ...
