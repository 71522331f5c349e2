"""Names of the files that toolcrib keeps in its own folders, and checks whether a pattern may match one of them.

toolcrib keeps no file with another name. So a search of a home folder that finds only other names reaches none of its files.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Sequence

from tools.judge.meaning.value import HOLE

_ANY = frozenset[str]()
"""Stands for every character."""
_HEX = frozenset("0123456789abcdef")

Token = tuple[frozenset[str], bool]
"""The possible characters at one place, and whether there may be any number of them, including none."""

_DIGITS = "\x01"
"""Stands for hexadecimal digits, in the names below."""
_STORE = ("", "-wal", "-shm", "-backup", "-backup-before", "-repaired")
_ENDS = (*_STORE, *("-search", "-search-wal", "-search-shm"), *(f"-artifacts{end}" for end in _STORE))
NAMES = (
    *("config.yaml", "secrets.env", "passphrase.json", "confirmed.json", "allowlist.json", "models.json", "principal.json"),
    "exports.jsonl",
    *("mcp-lock.json", "mcp-tokens.json"),
    *("chat_history", "documents.lock", "MEMORY.markdown", "USER.markdown", f"*-{_DIGITS}.markdown"),
    *(f"toolcrib.db{end}" for end in _ENDS),
    *(f"contents.db{end}" for end in _STORE),
    *(_DIGITS, f"in{_DIGITS}p{_DIGITS}"),
)
"""Patterns of the names: settings and keys, the store with its companion files, notes, drafts, locks."""

SECRETS = (
    *(".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/id_ecdsa", ".aws/credentials", ".netrc", ".pgpass", ".git-credentials"),
    *(".kube/config", ".docker/config.json", ".gnupg/private-keys-v1.d/x.key", ".config/gh/hosts.yml"),
)
"""Paths of a user's keys and credentials, relative to the home, that a walk through the home finds."""


def may_be_kept(pattern: str) -> bool:
    """Return whether a pattern of names (``* ? [`` and HOLEs) may match a file that toolcrib keeps, in upper or lower case."""
    return any(overlap(pattern, name) for name in NAMES)


def may_lie_in(pattern: str, own: str, names: Sequence[str] = NAMES) -> bool:
    """Return whether a pattern of whole paths, whose ``*`` also matches slashes, may match ``own`` or a file in it."""
    return overlap(pattern, own) or any(overlap(pattern, f"{own}/{between}{name}") for name in names for between in ("", "*/"))


def parts_match(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether names of folders may match the parts of a pattern, one by one."""
    return len(pattern) == len(parts) and all(map(overlap, pattern, parts))


def below(own: str, start: str) -> list[str]:
    """Return the names of the folders from ``start`` down to ``own``, which is below it or equal to it."""
    rest = posixpath.normpath(own)[len(posixpath.normpath(start).rstrip("/")) :]
    return [part for part in rest.split("/") if part]


@functools.lru_cache(4_096)
def overlap(one: str, two: str) -> bool:
    """Return whether some text matches both patterns."""
    left, right = _tokens(one), _tokens(two)
    ends = {0}
    ends = _skipped(ends, right)
    for chars, many in left:
        if many:
            ends = _taken_often(ends, chars, right)
        else:
            ends = _skipped({at + 1 - right[at][1] for at in ends if at < len(right) and _meet(chars, right[at][0])}, right)
            # a token that repeats may remain current, or may end here
        if not ends:
            return False
    return len(right) in ends


def _skipped(ends: set[int], tokens: Sequence[Token]) -> set[int]:
    """Return the places, and the places after each of them that are reached by skipping tokens that may match nothing."""
    found = set(ends)
    for at in sorted(ends):
        while at < len(tokens) and tokens[at][1]:
            at += 1
            found.add(at)
    return found


def _taken_often(ends: set[int], chars: frozenset[str], tokens: Sequence[Token]) -> set[int]:
    found: set[int] = set()
    waiting = list(ends)
    while waiting:
        at = waiting.pop()
        if at in found:
            continue
        found.add(at)
        if at < len(tokens) and (tokens[at][1] or _meet(chars, tokens[at][0])):
            waiting.append(at + 1)
    return found


def _meet(one: frozenset[str], two: frozenset[str]) -> bool:
    return not one or not two or not one.isdisjoint(two)


@functools.lru_cache(1_024)
def _tokens(pattern: str) -> Sequence[Token]:
    found: list[Token] = []
    at, text = 0, pattern.lower()
    while at < len(text):
        char = text[at]
        at += 1
        if char in ("*", HOLE):
            if found[-1:] != [(_ANY, True)]:
                found.append((_ANY, True))
        elif char == _DIGITS:
            found += [(_HEX, False), (_HEX, True)]
        elif char == "?":
            found.append((_ANY, False))
        elif char == "[" and (end := text.find("]", at + 1)) > 0:
            found.append((_ANY, False))
            at = end + 1
        else:
            if char == "\\" and at < len(text):
                char = text[at]
                at += 1
            found.append((frozenset(char), False))
    return tuple(found)
