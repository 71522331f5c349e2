"""Recognise that the program in a terminal waits at a prompt."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tools.terminals.terminal import SessionTerminal
from tools.terminals.terminals import Terminals

_ENDS: Mapping[float, tuple[str, ...]] = {0.3: ("$", "#", ">", "%", "\u276f", "\u279c", "\u00bb"), 1.0: (":", "?", "]")}
"""Ends of prompts, by the seconds without output after which they count: other text ends with a colon, too."""
_QUIET = 0.5
"""Seconds without output after which other text counts, if the program is known to wait for input."""


class PromptWatch:
    """Looks for a prompt in a terminal."""

    def __init__(self, terminals: Terminals, terminal: SessionTerminal) -> None:
        self._terminals, self._terminal = terminals, terminal
        self._asked = 0.0

    async def sees(self) -> bool:
        """Return whether the program seems to wait at a prompt.

        It is quiet, and the text before the cursor ends as a prompt does. Or the cursor is at the end of the screen's text, and
        the program waits for input: the environment is asked about that, at most twice a second.
        """
        terminal = self._terminal
        ends = [one for seconds, given in _ENDS.items() if terminal.quiet >= seconds for one in given]
        if ends and terminal.row().rstrip().endswith(tuple(ends)):
            return True
        if terminal.quiet < _QUIET or time.monotonic() - self._asked < _QUIET or not terminal.ends_at_cursor:
            return False
        self._asked = time.monotonic()
        return await self._terminals.awaits_input(terminal)
