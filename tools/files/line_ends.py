"""Line ends of a changed file: a changed line keeps the end of the one that it replaces, an inserted one gets its neighbour's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.files.differing import changes

MOST = 1000
"""Maximum number of places to look for, unless all are replaced."""


def lf(text: str) -> str:
    """Return the text with LF at the end of every line."""
    return text.replace("\r\n", "\n")


def end_of(line: str) -> str:
    """Return the end of a line: CRLF, LF or ""."""
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def without_end(line: str) -> str:
    """Return the line without its CRLF or LF."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def end_near(lines: Sequence[str], at: int) -> str:
    """Return the end for a line that is inserted at the index ``at``: that of the line before it, else after it, else LF."""
    return next(filter(None, map(end_of, [*reversed(lines[max(at - 2, 0) : at]), *lines[at : at + 1]])), "\n")


def places(text: str, old: str, *, exact: bool, every: bool) -> list[re.Match[str]]:
    """Return the places of ``old`` in ``text``; if ``exact``, only places with the same line ends. Places may overlap unless
    ``every``.

    No place begins between the two characters of a CRLF.
    """
    if exact:
        pattern = re.compile(("(?<!\r)" if old.startswith("\n") else "") + re.escape(old))
    else:
        pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, lf(old).split("\n"))))
    if every:
        return list(pattern.finditer(text))
    found: list[re.Match[str]] = []
    while len(found) < MOST and (one := pattern.search(text, found[-1].start() + 1 if found else 0)) is not None:
        found.append(one)
    return found


def fitted(text: str, place: re.Match[str], new: str) -> str:
    """Return ``new`` with the line ends that it needs to replace ``place`` in ``text``."""
    begin, end = place.span()
    parts = re.split("(\r?\n)", place[0])
    old, ends = parts[::2], parts[1::2]
    after = text.find("\n", end)
    ends.append("" if after < 0 else "\r\n" if after > end and text[after - 1] == "\r" else "\n")
    before = text.rfind("\n", 0, begin) + 1
    last = (ends[0] if before < begin else "") or end_of(text[max(before - 2, 0) : before])
    fresh = lf(new).split("\n")
    out: list[str] = []
    for line, same in zip(fresh[:-1], _replaced(old, fresh), strict=False):
        last = ("" if same is None else ends[same]) or last or next(filter(None, ends), "\n")
        out.append(line + last)
    return "".join([*out, fresh[-1]])


def _replaced(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return for each new line the number of the old line that it equals or replaces, None for an inserted line."""
    found: list[int | None] = []
    for _, begin, end, first, last in changes(old, new):
        found += [begin + at if begin + at < end else None for at in range(last - first)]
    return found
