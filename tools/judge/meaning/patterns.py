"""Shell patterns (``* ? [...]`` and the extended ones) as regular expressions.

In the text of a pattern, each quoted character has a backslash before it.
"""

from __future__ import annotations

import functools
import re

from toolcrib.contract.regex import Regex

_SPECIAL = Regex(r"([\\*?\[\]!@+()|])")
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
}
_MAX_STARS = 6
_MOST_WORK = 2_000_000
"""Maximum number of steps of one match in the worst case; a match of ``re`` can't be stopped."""
_ENDS = {"?": ")?", "*": ")*", "+": ")+", "@": ")", "!": ")"}


def escape(text: str) -> str:
    """Return quoted text in the form that it has in a pattern."""
    return _SPECIAL.sub(r"\\\1", text)


def literal(pattern: str) -> str | None:
    """Return the only text that the pattern matches; None if it is a real pattern."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            out.append(pattern[at])
        elif char in "*?[" or (char in "@+!" and pattern[at + 1 : at + 2] == "("):
            return None
        else:
            out.append(char)
        at += 1
    return "".join(out)


@functools.lru_cache(maxsize=512)
def regex(pattern: str, *, lazy: bool = False) -> re.Pattern[str] | None:
    """Return the pattern compiled for ``match`` or ``fullmatch``, None if it may be too slow or has no equivalent in ``re``.

    ``lazy``: it finds the shortest match.
    """
    if sum(pattern.count(char) for char in "*(") > _MAX_STARS:
        return None
    try:
        return re.compile(_translated(pattern, lazy), re.DOTALL)
    except re.error:
        return None


def for_text(pattern: str, text: str, *, lazy: bool = False, anywhere: bool = False) -> re.Pattern[str] | None:
    """Return ``regex``'s result, or None if matching ``text`` may take too long. ``anywhere``: a match may begin at any place."""
    found = regex(pattern, lazy=lazy)
    if found is None:
        return None
    powers = pattern.count("*") + pattern.count("+(") + anywhere
    return None if (len(text) + 1) ** powers > _MOST_WORK else found


def _repeated(body: str) -> None:
    """Raise re.error for a repeated group that may take ``re`` exponential time."""
    choices = body.split("|")
    plain = all(len(choice) == 1 and not _SPECIAL.match(choice) for choice in choices) and len(set(choices)) == len(choices)
    if "(" in body or "*" in body or (len(choices) > 1 and not plain):
        raise re.error("a repeated group may hold no choice and nothing repeated")


def _translated(pattern: str, lazy: bool) -> str:
    out: list[str] = []
    open_groups: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        elif char in "?*+@!" and pattern[at : at + 1] == "(":
            if char == "!":
                raise re.error("a negated group has no equivalent")
            if char in "*+":
                _repeated(pattern[at + 1 :].partition(")")[0])
            open_groups.append(char)
            out.append("(?:")
            at += 1
        elif char == "*":
            out.append(".*?" if lazy else ".*")
        elif char == "?":
            out.append(".")
        elif char == "[":
            piece, at = _bracket(pattern, at)
            out.append(piece)
        elif char == "|" and open_groups:
            out.append("|")
        elif char == ")" and open_groups:
            out.append(_ENDS[open_groups.pop()])
        else:
            out.append(re.escape(char))
    return "".join(out)


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """Translate the text after a ``[``: a set, or the bracket itself if it has no end."""
    start = at
    negated = pattern[at : at + 1] in ("!", "^") and at < len(pattern)
    at += negated
    out: list[str] = []
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(out)}]", at + 1
        first = False
        if char == "[" and pattern[at + 1 : at + 2] == ":" and (end := pattern.find(":]", at)) > 0:
            out.append(_CLASSES.get(pattern[at + 2 : end], ""))
            at = end + 2
            continue
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            char = pattern[at]
            out.append(re.escape(char))
        else:
            out.append(char if char == "-" else re.escape(char))
        at += 1
    return r"\[", start
