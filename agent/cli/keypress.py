"""Single keys from a terminal: one press at a time, without keys that were typed ahead or pasted."""

from __future__ import annotations

import asyncio
from typing import Any, TextIO

ALONE = 0.3
"""Seconds after a letter within which no other key may follow."""
QUIET = 0.7
"""Seconds without a key before the next key counts for the visible prompt."""
PASTED = "pasted"
_EARLY_END = "c-@"
"""Ctrl-D pressed right before the terminal reads single keys: Linux then sends NUL instead."""
_NAMES = {"c-m": "enter", "c-j": "enter", "left": "left", "right": "right", "up": "up", "down": "down"}


class SingleKeys:
    """Reads single keys from a terminal. Needs a running loop. Between two keys the terminal is in its usual mode."""

    def __init__(self, source: TextIO) -> None:
        from prompt_toolkit.input import create_input

        self._input: Any = create_input(source)

    async def wait_for_quiet(self) -> None:
        """Wait until no key was pressed for a while, and discard earlier keys. Raises as ``press``."""
        while (keys := await self._next(QUIET)) is not None:
            _raise_where_it_ends(keys)

    async def press(self) -> str:
        """Return the next key: a character, or enter, left, right, up or down. Raises EOFError and KeyboardInterrupt.

        Keys that arrive together were pasted, and a letter followed by another key than Enter begins a text. Such keys, and
        all that follow without a pause, are discarded, and PASTED is returned.
        """
        while True:
            keys = await self._next(None) or ["c-d"]
            _raise_where_it_ends(keys)
            if len(keys) > 1:
                await self.wait_for_quiet()
                return PASTED
            key = _NAMES.get(keys[0], keys[0])
            if key.isalpha() and len(key) == 1 and (more := await self._next(ALONE)) not in (None, ["c-m"], ["c-j"]):
                _raise_where_it_ends(more or [])
                await self.wait_for_quiet()
                return PASTED
            if len(key) == 1 or key in _NAMES.values():
                return key

    async def _next(self, seconds: float | None) -> list[str] | None:
        """Return the next keys that arrive together, Ctrl-D at the end of input, or None if none arrives in time."""
        came: asyncio.Future[list[str] | None] = asyncio.get_running_loop().create_future()

        def ready() -> None:
            keys = [str(getattr(one.key, "value", one.key)) for one in self._input.read_keys()]
            if not came.done() and (keys or self._input.closed):
                came.set_result(keys or None)

        with self._input.raw_mode(), self._input.attach(ready):
            try:
                found = await asyncio.wait_for(came, seconds)
            except TimeoutError:
                return None
        return found or ["c-d"]


def _raise_where_it_ends(keys: list[str]) -> None:
    if "c-c" in keys:
        raise KeyboardInterrupt
    if "c-d" in keys or _EARLY_END in keys:
        raise EOFError
