"""``$'...'``: backslash escapes as in ANSI C, with bash's additions."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex

ESCAPE = Regex(
    r"\\(?:(?P<octal>[0-7]{1,3})|x\{(?P<braced>[0-9A-Fa-f]*)\}?|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|c(?P<control>\\\\|.)|(?P<char>.))",
    re.DOTALL,
)
SIMPLE = {
    "a": b"\a", "b": b"\b", "e": b"\x1b", "E": b"\x1b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v",
    "\\": b"\\", "'": b"'", '"': b'"', "?": b"?",
}  # fmt: skip


def decode(source: str) -> str:
    """Return the decoded text between the quotes. Bytes that are not UTF-8 become lone surrogates; a NUL ends the text, as in
    bash.
    """
    if "\\" not in source:
        return source
    out = bytearray()
    pos = 0
    for match in ESCAPE.finditer(source):
        out += _bytes(source[pos : match.start()])
        out += _escape(match)
        pos = match.end()
    out += _bytes(source[pos:])
    return bytes(out).partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "surrogatepass")


def _escape(match: re.Match[str]) -> bytes:
    kind, value = match.lastgroup or "", match[match.lastgroup or 0] or ""
    match kind:
        case "octal":
            return bytes([int(value, 8) & 0xFF])
        case "hex":
            return bytes([int(value, 16)])
        case "braced":
            # Bash keeps the lowest byte, whatever the number of digits. Without digits, it keeps the text as it was written.
            return bytes([int(value[-2:], 16)]) if value else _bytes(match.group())
        case "short" | "long":
            return _code_point(int(value, 16))
        case "control":
            char = _bytes(value)[:1]
            return b"\x7f" if char == b"?" else bytes([char[0] & 0x1F])
        case _:
            return SIMPLE.get(value) or _bytes("\\" + value)


def _code_point(number: int) -> bytes:
    try:
        return chr(number).encode("utf-8", "surrogatepass")
    except (ValueError, OverflowError):  # beyond Unicode: bash writes bytes that are not UTF-8
        return b"\xff"
