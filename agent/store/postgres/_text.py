"""Text for PostgreSQL columns.

PostgreSQL text has no NUL and no lone surrogates, so these are stored as U+001A and four hex digits, as is U+001A itself. Every
str is restored exactly, and almost all text is readable in the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeAlias

from agent.store._codec import Stored, plain
from toolcrib.contract.regex import Regex

_ODD = Regex("[\x00\x1a\ud800-\udfff]")
_ESCAPED = Regex("\x1a([0-9a-f]{4})")
Value: TypeAlias = "str | bytes | int | float | bool | list[str] | list[str | None] | list[int] | list[bytes] | None"
Values: TypeAlias = Mapping[str, Value]


def to_text(value: str) -> str:
    return _ODD.sub(lambda found: f"\x1a{ord(found[0]):04x}", value) if _ODD.search(value) else value


def from_text(stored: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), stored) if "\x1a" in stored else stored


def to_json(stored: Stored) -> str:
    """Return the codec's JSON, which escapes control characters itself, for a column."""
    return stored if isinstance(stored, str) else to_text(plain(stored))


def digest(value: str) -> bytes:
    """Return a fixed-length key for text of any length: an index accepts at most about 2,700 bytes."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
