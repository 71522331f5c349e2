"""Names of the two files that lie beside a file while it is overwritten in place, and stay there if that is cut off: one with
the new content, one with the old. Backends make them so, and an undo knows an edit that was cut off by them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable

from toolcrib.contract.regex import Regex

OLD = ".old"
"""End of the name of the file with the old content; without it, it is the name of the one with the new content."""
_MOST = 200
_LEAST = 40
"""Bytes of a file's name that are kept, and the fewest characters of one that a backend may keep."""
_BESIDE = Regex(r"\.(?P<head>.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)


def beside(name: str) -> str:
    """Return a new name for a file's new content, in the same folder: at its most as long as file systems allow."""
    while len(os.fsencode(name)) > _MOST:
        name = name[:-1]
    return f".{name}.{secrets.token_hex(6)}.tmp"


def beside_of(name: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that hold a new content of the file ``name``, with an old one beside it."""
    known = set(names)
    return [each for each in sorted(known) if f"{each}{OLD}" in known and _is_beside(name, each)]


def _is_beside(name: str, other: str) -> bool:
    found = _BESIDE.fullmatch(other)
    return found is not None and name.startswith(found["head"]) and (name == found["head"] or len(found["head"]) >= _LEAST)
