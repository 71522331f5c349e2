"""Draw images within the rows of a terminal that supports it; other terminals show a line that names the image.

Supports the protocols of kitty and iTerm2, and uses them only if the terminal identifies itself by its environment variables:
other terminals may print the sequence as text. Draws nothing in tmux and screen, which do not pass images on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from toolcrib.contract.image import Image

Protocol: TypeAlias = Literal["kitty", "iterm", ""]
MOST_ROWS = 12
_MOST_BYTES = 4 << 20
"""Maximum number of bytes of an image that is drawn; a terminal would need seconds for a larger one."""
_PIECE = 4096
"""Characters in one piece of kitty's protocol."""
_CELL = 20
"""Assumed height of a row in pixels if the terminal does not report it."""


def protocol_of(environ: Mapping[str, str] = os.environ) -> Protocol:
    """Return the image protocol of this terminal, or "" if uncertain."""
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "").startswith(("screen", "tmux")):
        return ""
    if environ.get("KITTY_WINDOW_ID") and environ.get("TERM") == "xterm-kitty":
        return "kitty"
    if environ.get("TERM") == "xterm-ghostty" and environ.get("TERM_PROGRAM") == "ghostty":
        return "kitty"
    if environ.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm") and not environ.get("SSH_TTY"):
        return "iterm"
    return ""


def drawn(image: Image, protocol: Protocol, columns: int) -> str:
    """Return the sequence that draws an image at the cursor and moves to the next line, or "" if it can't be drawn."""
    size = _pixels(image.data)
    if not protocol or size is None or len(image.data) > _MOST_BYTES:
        return ""
    cell = _cell_height()
    rows = max(1, min(MOST_ROWS, -(-size[1] // cell)))
    if size[0] * rows * cell > size[1] * columns * cell // 2:  # too wide for its height; a cell is half as wide as high
        rows = max(1, columns * size[1] // (2 * size[0]))
    if protocol == "kitty":
        return "".join(_kitty(image.base64, rows)) + "\r\n"
    about = f"inline=1;size={len(image.data)};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={about}:{image.base64}\x07\r\n"


def _kitty(data: str, rows: int) -> Iterator[str]:
    for begin in range(0, len(data), _PIECE):
        more = int(begin + _PIECE < len(data))
        keys = f"a=T,f=100,q=2,r={rows},m={more}" if not begin else f"m={more}"
        yield f"\x1b_G{keys};{data[begin : begin + _PIECE]}\x1b\\"


def _pixels(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, the one format that both protocols accept, or None for other formats."""
    if len(data) < 24 or not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return (width, height) if 0 < width < 1 << 16 and 0 < height < 1 << 16 else None


def _cell_height() -> int:
    """Return the height of a row in pixels."""
    import fcntl
    import struct
    import termios

    try:
        rows, _, _, height = struct.unpack("HHHH", fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return _CELL
    return height // rows if rows and height >= rows else _CELL
