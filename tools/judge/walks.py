"""Files that find and its like pass on: those of folders as a whole, by no name that stands in the line."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tools.judge.folders import under
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import Value
from tools.judge.paths import READABLE, spelled

FINDERS = frozenset({"find", "gfind", "bfs", "fd", "fdfind"})
_FILTERS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"})
_NAMES_TOLD = frozenset(
    "ls stat test [ echo printf du file realpath readlink basename dirname wc md5sum sha1sum sha256sum touch".split()
)
"""Programs that, fed with files, show names, sizes or sums at most."""

_KEYS = "secrets.env"


class Walk(NamedTuple):
    """``starts`` are absolute; ``names``: patterns of which one must fit, none where all do; ``depth``: how far down at most."""

    starts: Sequence[str]
    names: Sequence[Value]
    depth: int


def walk(act: Act, home: str = "") -> Walk:
    """Read a finder's arguments: the folders in which it looks, and the names that it looks for."""
    fd = act.name.startswith("fd")
    given = list(act.argv[1:])
    starts: list[Value] = []
    names: list[Value] = []
    depth = 99
    for at, value in enumerate(given):
        before = given[at - 1].text if at else ""
        if value.text in ("-exec", "-execdir", "-x", "-X", "--exec", "--exec-batch", "-ok"):
            break
        if before in _FILTERS and (at < 2 or given[at - 2].text not in ("!", "-not")):
            names.append(value)
        elif before in ("-maxdepth", "--max-depth", "-d") and value.text.isdigit():
            depth = int(value.text)
        elif value.text[:1] not in ("-", "(", "!", "\\") and (fd or not any(one.text[:1] == "-" for one in given[:at])):
            starts.append(value)
    if fd:  # the first operand is a pattern, the others are folders
        starts = starts[1:]
    places = [path for one in starts or [Value(".")] for path in spelled(one, act.cwds, home)]
    return Walk(places, names, depth)


def into_own(acts: Sequence[Act], protected: Sequence[str], home: str) -> Iterator[tuple[Act, bool]]:
    """Yield walks that may reach toolcrib's own files and whose finds are read, sent or deleted; True: surely deleted."""
    finders = [act for act in acts if act.name in FINDERS and not act.place]
    fed = bool(finders) and any(act.fed and act.name not in _NAMES_TOLD for act in acts)
    for act in finders:
        deletes = any(value.text == "-delete" for value in act.argv)
        if fed or deletes:
            found = walk(act, home)
            if any(_reaches(found, start, own, home) for start in found.starts for own in protected):
                yield act, deletes and not found.names


def _reaches(found: Walk, start: str, own: str, home: str) -> bool:
    if not under(own, start) or len(own[len(start.rstrip("/")) :].split("/")) > found.depth:
        return False
    if under(home or "/", start):  # as with other commands that are given a home, or more, and look for something
        return any("toolcrib" in one.text or _for_keys(one.text) for one in found.names)
    return not found.names or not all(one.text.endswith(READABLE) for one in found.names)


def _for_keys(pattern: str) -> bool:
    return any(char.isalpha() for char in pattern) and fnmatch.fnmatchcase(_KEYS, pattern)
