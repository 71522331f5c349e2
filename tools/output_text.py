"""Output of a command as text for a model."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from toolcrib.contract.environment import Captured

# Patterns are compiled at their first use, so that the start stays quick.
_ESCAPES = (
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS and other strings
    r"|[ -/]*[0-~])"
)
_CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes that remain of a character whose first byte was cut off."""
_FEW = 8
"""Maximum number of non-text bytes in output that counts as text whatever its length."""


def readable(captured: Captured) -> str:
    """Return text for a model: UTF-8, bad bytes marked, terminal escapes removed, the gap named. Binary output is described."""
    sample = captured.head + captured.tail
    if _is_binary(sample):
        return (
            f"[binary output, {captured.total + captured.redrawn:,} bytes, not shown; it begins with {sample[:16].hex(' ')}. "
            "Write it to a file, or view it with: | xxd | head]"
        )
    if not captured.omitted:
        return without_escapes(sample.decode(errors="replace"))
    head = codecs.getincrementaldecoder("utf-8")("replace").decode(captured.head)  # drops an unfinished last character
    tail = captured.tail[:3].lstrip(_CONTINUATION) + captured.tail[3:]
    gap = f"\n[... {captured.omitted:,} bytes omitted ...]\n"
    return without_escapes(head) + gap + without_escapes(tail.decode(errors="replace"))


def without_escapes(text: str) -> str:
    """Return a text without the escape sequences of terminals."""
    return re.sub(_ESCAPES, "", text) if "\x1b" in text else text


def _is_binary(sample: bytes) -> bool:
    zeros = sample.count(0)
    if zeros > _FEW and zeros * 5 > len(sample):
        return True
    if sample.isascii():
        return False
    bad = sample.decode(errors="replace").count("\ufffd") - sample.count("\ufffd".encode())
    return bad > _FEW and bad * 10 > len(sample)


def differences(captured: Captured, text: str) -> Iterator[str]:
    """Yield how ``text``, from ``readable``, differs from the printed bytes, apart from escapes and a named gap."""
    if captured.redrawn:
        yield f"text that carriage returns overwrote is left out ({captured.redrawn:,} bytes); to see them: | tr '\\r' '\\n'"
    printed = (captured.head + captured.tail).count("\ufffd".encode())
    if (bad := text.count("\ufffd") - printed) > 0:
        yield f"{bad:,} sequences of bytes that are not UTF-8 are shown as \ufffd; to see them: | xxd"
