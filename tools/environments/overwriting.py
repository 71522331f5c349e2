"""Names of the two files beside a file that is being overwritten in place: one with the new content, one with the old.

They remain if the write is interrupted. Backends create them, and an undo recognises an interrupted edit by them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable

from toolcrib.contract.regex import Regex

OLD = ".old"
"""Suffix of the file with the old content. Without it, the name is that of the file with the new content."""
_MOST = 200
_LEAST = 40
"""Maximum bytes to keep of a file's name, and the minimum number of characters that a backend may keep."""
_BESIDE = Regex(r"\.(?P<head>.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)


def beside(name: str) -> str:
    """Return a new name for a file's new content in the same folder, short enough for all file systems."""
    while len(os.fsencode(name)) > _MOST:
        name = name[:-1]
    return f".{name}.{secrets.token_hex(6)}.tmp"


def beside_of(name: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that hold new content of the file ``name``, if its old content is beside them."""
    known = set(names)
    return [each for each in sorted(known) if f"{each}{OLD}" in known and _is_beside(name, each)]


def _is_beside(name: str, other: str) -> bool:
    found = _BESIDE.fullmatch(other)
    return found is not None and name.startswith(found["head"]) and (name == found["head"] or len(found["head"]) >= _LEAST)
