"""Output of one command: bounded, and passed to observers while the command runs."""

from __future__ import annotations

import logging

from toolcrib.contract.environment import Captured, ExecRequest
from tools.environments._capture import Capture

_log = logging.getLogger(__name__)

STREAMS = ("stdout", "stderr")


class Output:
    """Both output streams of a command, kept and shown as ``request`` asks."""

    def __init__(self, request: ExecRequest) -> None:
        self._kept = {name: Capture(name, request.keep, request.spill) for name in STREAMS}
        self._show = request.on_output

    def take(self, stream: str, data: bytes) -> None:
        """Add the next chunk of a stream."""
        self._kept[stream].add(data)
        if self._show is not None:
            try:
                self._show(stream, data)
            except Exception:  # noqa: BLE001 - a faulty observer must not cost the result
                _log.exception("on_output raised; this command's output is no longer shown while it runs")
                self._show = None

    def finish(self) -> dict[str, Captured]:
        """Return the kept output by stream. May be called twice."""
        return {name: capture.finish() for name, capture in self._kept.items()}
