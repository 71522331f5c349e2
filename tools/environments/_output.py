"""Output of one command: bounded, and shown to observers while the command runs."""

from __future__ import annotations

import logging

from toolcrib.contract.environment import Captured, ExecRequest
from tools.environments._capture import Capture

_log = logging.getLogger(__name__)

STREAMS = ("stdout", "stderr")


class Output:
    """Both streams, for as long and as far as ``request`` wants them."""

    def __init__(self, request: ExecRequest) -> None:
        self._kept = {name: Capture(name, request.keep, request.spill) for name in STREAMS}
        self._show = request.on_output

    def take(self, stream: str, data: bytes) -> None:
        """The next chunk."""
        self._kept[stream].add(data)
        if self._show is not None:
            try:
                self._show(stream, data)
            except Exception:  # noqa: BLE001 - a watcher's fault must not cost the result
                _log.exception("on_output raised; this command's output is no longer shown while it runs")
                self._show = None

    def finish(self) -> dict[str, Captured]:
        """Return the output that was kept, by stream. May be called twice."""
        return {name: capture.finish() for name, capture in self._kept.items()}
