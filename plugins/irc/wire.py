"""The library's connection, protected against hostile lines: a line that can't be read is skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from irc.client_aio import AioConnection
from jaraco.stream.buffer import LenientDecodingLineBuffer

_log = logging.getLogger(__name__)
_MOST = 65_536


class IrcConnection(AioConnection):  # type: ignore[misc]  # the library has no type hints
    """A connection that calls ``took`` with each event."""

    buffer_class = LenientDecodingLineBuffer

    def __init__(self, reactor: Any, took: Callable[[Any], None]) -> None:
        super().__init__(reactor)
        self._events = took

    def process_data(self, new_data: bytes) -> None:
        """Process received data."""
        self.buffer.feed(new_data)
        for line in self.buffer:
            try:
                if line:
                    self._process_line(line)
            except Exception as error:  # noqa: BLE001 - users write these lines, and asyncio would end the connection
                _log.warning("a line could not be read and is skipped: %s", type(error).__name__)
        if len(self.buffer.buffer) > _MOST:
            self.disconnect("")

    def _handle_event(self, event: Any) -> None:
        if event.type != "all_raw_messages":
            super()._handle_event(event)
            self._events(event)
