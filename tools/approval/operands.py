"""Which paths a simple command would change, as far as its words tell."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from tools.approval.findings import UNKNOWN_PATH
from tools.approval.unfold import Segment

ROOTS = re.compile(
    r"(?:~|/|/home/[^/]+|/Users/[^/]+|/(?:bin|boot|dev|efi|etc|home|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library)"
    r"|/(?:usr|var)/(?:bin|sbin|lib\w*)|~[a-z_][\w-]*)(?:/\*|/\.\*)*/?|/\*",
    re.ASCII,
)
"""Folders whose recursive deletion ends the system or the home."""

_EVERYWHERE = frozenset(
    {"rm", "unlink", "rmdir", "tee", "touch", "truncate", "shred", "chmod", "chown", "chgrp", "setfacl", "chattr", "mv"}
)
_LAST = frozenset({"cp", "install", "ln", "rsync", "scp"})
_GLOB = re.compile(r"[*?\[{]")
_HARMLESS_TARGET = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/\d+|zero|tcp/.*|udp/.*)|&?\d+-?|-")


def operands(argv: Sequence[str]) -> list[str]:
    """The words that are no options; all of them behind ``--``."""
    found: list[str] = []
    for index, text in enumerate(argv[1:], start=1):
        if text == "--":
            return found + list(argv[index + 1 :])
        if not text.startswith("-"):
            found.append(text)
    return found


def resolve(text: str, bases: Sequence[str]) -> tuple[str, ...]:
    """The absolute paths that ``text`` may mean from each of ``bases``; a pattern counts as the folder that it stands in.

    UNKNOWN_PATH where it depends on what only the running shell knows. ``~`` stays as it is.
    """
    if "$" in text or "`" in text or "\x00" in text or not text:
        return (UNKNOWN_PATH,)
    glob = _GLOB.search(text)
    if glob is not None:
        if ".." in text[glob.start() :]:
            return (UNKNOWN_PATH,)
        text = text[: text.rfind("/", 0, glob.start()) + 1] or "."
    if text.startswith("~"):
        return (posixpath.normpath(text),)
    if not bases:
        return (posixpath.normpath(text) if text.startswith("/") else UNKNOWN_PATH,)
    return tuple(dict.fromkeys(_absolute(posixpath.join(base, text)) for base in bases))


def _absolute(path: str) -> str:
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


def is_root(text: str, bases: Sequence[str]) -> bool:
    """Whether ``text`` names a system root or a home, or all that is in one."""
    lexical = posixpath.normpath(text.replace("//", "/")) if text else ""
    if ROOTS.fullmatch(lexical):
        return True
    return any(ROOTS.fullmatch(path) for base in bases for path in [_absolute(posixpath.join(base, text))] if ".." in text)


def changed(segment: Segment) -> list[str]:
    """Words of the paths that it writes, deletes or re-permissions."""
    found = [target for op, target in segment.redirects if ">" in op and not _HARMLESS_TARGET.fullmatch(target)]
    argv, name = segment.argv, segment.name
    plain = operands(argv)
    if name in _EVERYWHERE:
        found += plain
    elif name in _LAST and plain:
        found += [plain[-1], *_values(argv, "-t", "--target-directory")]
    elif name in ("sed", "perl", "ruby") and any(re.match(r"-[a-z]*i|--in-place", word) for word in argv[1:]):
        found += plain
    elif name == "dd":
        found += [word[3:] for word in argv[1:] if word.startswith("of=")]
    elif name == "curl":
        found += _values(argv, "-o", "--output")
    elif name == "wget":
        found += _values(argv, "-O", "--output-document")
    elif name in ("sort", "gcc"):
        found += _values(argv, "-o", "--output")
    return [word for word in found if not _HARMLESS_TARGET.fullmatch(word)]


def _values(argv: Sequence[str], *options: str) -> list[str]:
    found = [argv[index + 1] for index, word in enumerate(argv[:-1]) if word in options]
    return found + [word.partition("=")[2] for word in argv if word.startswith("--") and word.partition("=")[0] in options]
