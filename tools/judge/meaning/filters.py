"""Filters on known text. Each takes its arguments, operands and input, and returns None if the output is unknown."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import Taint, Value

Filter = Callable[[Sequence[str], Sequence[str], Value], Value | None]

_CLASSES = {
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "digit": string.digits,
    "alpha": string.ascii_uppercase + string.ascii_lowercase,
    "alnum": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "space": "\t\n\v\f\r ",
    "blank": "\t ",
    "punct": string.punctuation,
}
_SUBSTITUTE = Regex(
    r"s(?P<mark>[^\w\s\\])(?P<old>(?:(?!(?P=mark)).)*)(?P=mark)(?P<new>(?:(?!(?P=mark)).)*)(?P=mark)(?P<flags>g?)"
)
_PLAIN_PATTERN = Regex(r"[^\\\[\].*^$&+?(){}|]*")


def _lines(text: str) -> list[str]:
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


def _back(lines: list[str], value: Value) -> Value:
    return Value("".join(f"{line}\n" for line in lines), value.taint)


def _set(text: str) -> str | None:
    """Return the characters of one of tr's sets; None if they are unknown."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("[:", at) and (end := text.find(":]", at)) > 0:
            if text[at + 2 : end] not in _CLASSES:
                return None
            out.append(_CLASSES[text[at + 2 : end]])
            at = end + 2
            continue
        char, at = _one(text, at)
        if text[at : at + 1] == "-" and at + 1 < len(text):
            last, at = _one(text, at + 1)
            if ord(last) < ord(char) or ord(last) - ord(char) > 300:
                return None
            out.append("".join(map(chr, range(ord(char), ord(last) + 1))))
        else:
            out.append(char)
    return "".join(out)


def _one(text: str, at: int) -> tuple[str, int]:
    if text[at] == "\\" and at + 1 < len(text):
        if found := re.compile(r"[0-7]{1,3}").match(text, at + 1):
            return chr(int(found[0], 8)), found.end()
        return {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}.get(text[at + 1], text[at + 1]), at + 2
    return text[at], at + 1


def _tr(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    options = "".join(word[1:] for word in words if word.startswith("-") and not word.startswith("--") and word not in operands)
    sets = [_set(word) for word in operands]
    if any(one is None for one in sets) or not sets or not set(options) <= set("dscC"):
        return None
    first, second = sets[0] or "", (sets[1] or "") if len(sets) > 1 else ""
    text = value.text
    if "c" in options or "C" in options:
        if "d" not in options:
            return None
        kept = set(first)
        return Value("".join(char for char in text if char in kept), value.taint)
    if "d" in options:
        gone = set(first)
        return Value("".join(char for char in text if char not in gone), value.taint)
    if second:
        second += second[-1] * max(0, len(first) - len(second))
        text = text.translate({ord(a): b for a, b in reversed(list(zip(first, second, strict=False)))})
    if "s" in options:
        squeezed = set(second or first)
        text = re.sub(r"(.)\1+", lambda match: match[1] if match[1] in squeezed else match[0], text, flags=re.DOTALL)
    same = len(first) == len(second) and first.lower() == second.lower()
    return Value(text, value.taint if same or len(first) < 6 else value.taint | Taint.DECODED)


def _rev(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    return Value("\n".join(line[::-1] for line in value.text.split("\n")), value.taint | Taint.DECODED)


def _tac(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    return _back(_lines(value.text)[::-1], value) if not any(word.startswith("-") for word in words) else None


def _count(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the number of lines ("n") or bytes ("c") for head and tail: (letter, number). None for any other option."""
    joined = " ".join(word for word in words if word.startswith("-") or word.lstrip("+").isdigit())
    found = re.match(r"-(?:-lines=|n ?)?(\d+)$|-(?:-bytes=|c ?)(\d+)$|$", joined)
    if found is None:
        return None
    return ("c", int(found[2])) if found[2] else ("n", int(found[1] or 10))


def _head(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    asked = _count(words)
    if asked is None:
        return None
    kind, number = asked
    return Value(value.text[:number], value.taint) if kind == "c" else _back(_lines(value.text)[:number], value)


def _tail(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    joined = " ".join(words)
    if found := re.match(r"-n ?\+(\d+)", joined):
        return _back(_lines(value.text)[max(0, int(found[1]) - 1) :], value)
    asked = _count(words)
    if asked is None:
        return None
    kind, number = asked
    if number == 0:
        return Value("", value.taint)
    return Value(value.text[-number:], value.taint) if kind == "c" else _back(_lines(value.text)[-number:], value)


def _sort(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    return None if any(word.startswith("-") for word in words) else _back(sorted(_lines(value.text)), value)


def _uniq(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    if words:
        return None
    lines = _lines(value.text)
    return _back([line for at, line in enumerate(lines) if at == 0 or line != lines[at - 1]], value)


def _sed(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    scripts = [word for word in words if not word.startswith("-")] if words[:1] != ["-e"] else list(words[1:])
    if len(scripts) != 1 or any(word.startswith("-") and word not in ("-e", "-E", "-r") for word in words):
        return None
    lines = _lines(value.text)
    for command in scripts[0].split(";"):
        found = _SUBSTITUTE.fullmatch(command.strip())
        if found is None or not _PLAIN_PATTERN.fullmatch(found["old"]) or re.search(r"[\\&]", found["new"]):
            return None
        count = -1 if found["flags"] else 1
        lines = [line.replace(found["old"], found["new"], count) if found["old"] else line for line in lines]
    text = "\n".join(lines) + ("\n" if value.text.endswith("\n") else "")
    return Value(text, value.taint)


def _cut(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    joined = "\0".join(words)
    found = re.fullmatch(r"(?:-d\0?(.)\0)?-([cfb])\0?(\d+)?(-)?(\d+)?(?:\0-d\0?(.))?", joined, re.DOTALL)
    if found is None:
        return None
    first = int(found[3] or 1)
    last = int(found[5]) if found[5] else None if found[4] else first
    lines = _lines(value.text)
    if found[2] in "cb":
        return _back([line[first - 1 : last] for line in lines], value)
    mark = found[1] or found[6] or "\t"
    return _back([mark.join(line.split(mark)[first - 1 : last]) if mark in line else line for line in lines], value)


def _grep(words: Sequence[str], operands: Sequence[str], value: Value) -> Value | None:
    if len(operands) != 1 or any(word.startswith("-") and word not in ("-v", "-F", "-E", "-i") for word in words):
        return None
    if not _PLAIN_PATTERN.fullmatch(operands[0]) or "-i" in words:
        return None
    wanted = "-v" not in words
    return _back([line for line in _lines(value.text) if (operands[0] in line) == wanted], value)


def _guarded(handler: Filter) -> Filter:
    """Restrict a filter to known text."""
    return lambda words, operands, value: handler(words, operands, value) if value.known else None


FILTERS = {
    name: _guarded(handler)
    for name, handler in {
        "tr": _tr,
        "rev": _rev,
        "tac": _tac,
        "head": _head,
        "tail": _tail,
        "sort": _sort,
        "uniq": _uniq,
        "sed": _sed,
        "cut": _cut,
        "grep": _grep,
    }.items()
}
