"""Output of one command: bounded, and passed to observers while the command runs."""

from __future__ import annotations

import logging

from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Captured, ExecRequest
from toolcrib.contract.regex import Regex
from tools.environments._capture import Capture

_log = logging.getLogger(__name__)

STREAMS = ("stdout", "stderr")
_LONGEST_FRAME = 4096
"""Maximum bytes of a frame, more than a line of any terminal. A longer frame is kept, even if overwritten."""
_REDRAWN = Regex(
    rb"(?<![^\r\n])(?:[^\r\n]{1,%d}+|(?<!\r))\r++(?=(?:\x1b\[[0-9;?]*+(?!K)[@-~])*+(?:\x1b\[[0-9;?]*+K|[^\r\n\x1b]))"
    % _LONGEST_FRAME
)
"""A frame that is overwritten: text or an erasing escape sequence follows its carriage return."""
_FRAME_END = Regex(rb"[\r\n]")


def last_frames(data: bytes) -> bytes:
    """Return the output without overwritten frames. Binary data (with a zero byte) has no frames and is returned unchanged."""
    return _REDRAWN.sub(b"", data) if b"\r" in data and b"\0" not in data else data


class Output:
    """Both output streams of a command, kept and shown as ``request`` asks."""

    def __init__(self, request: ExecRequest) -> None:
        keep = _LastFrames if request.last_frames else Capture
        self._kept = {name: keep(name, request.keep, request.spill) for name in STREAMS}
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


class _LastFrames(Capture):
    """Capture of a stream without overwritten frames. An unfinished line waits for its end, unless it is too long."""

    _line = b""
    _is_long = False
    """True after the beginning of a frame that is kept because it is too long."""
    _redrawn = 0

    def add(self, chunk: bytes) -> None:
        """Add a chunk of the stream."""
        if self._is_long:
            found = _FRAME_END.search(chunk)
            self._is_long, end = found is None, len(chunk) if found is None else found.end()
            super().add(chunk[:end])
            chunk = chunk[end:]
        data = self._line + chunk
        kept = last_frames(data)
        self._redrawn += len(data) - len(kept) - data.count(b"\r") + kept.count(b"\r")
        end = kept.rfind(b"\n") + 1
        if len(kept) - end > _LONGEST_FRAME:
            end, self._is_long = len(kept), True
        self._line = kept[end:]
        super().add(kept[:end])

    def finish(self) -> Captured:
        """Add the unfinished line, close the file and return the kept output. May be called twice."""
        super().add(self._line)
        self._line = b""
        return replace(super().finish(), redrawn=self._redrawn)
