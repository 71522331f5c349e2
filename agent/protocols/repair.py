"""Reads JSON as models write it: strictly if valid, else repaired if nothing is lost or guessed, else refused.

Repairs: unquoted keys, single quotes, trailing commas, Python's True, False and None, raw control characters in strings, and
escaped line ends between values. A string's content is never altered, and cut-off text is never completed (000-26, 000-27, X-8).
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from toolcrib.contract.types import Json

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\\[nrt])+)|"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|[{}\[\],:]|[^\s"'{}\[\],:\\]+""",
    re.DOTALL,
)
_KEY = re.compile(r"[A-Za-z_$][\w$.-]*")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_IN_DOUBLE = re.compile(r"\\(.)|[\x00-\x1f]", re.DOTALL)
_IN_SINGLE = re.compile(r'\\(.)|[\x00-\x1f"]', re.DOTALL)
_SHOWN = 200


def read_json(text: str) -> Json:
    """Return the value. Raises ValueError, which describes the problem in the original text."""
    try:
        return _strict(text)
    except ValueError as error:
        mended = repaired(text)
        if mended is None:
            raise
        try:
            return _strict(mended)
        except ValueError:
            raise error from None


def repaired(text: str) -> str | None:
    """Return ``text`` as JSON, or None if it can't be repaired. The result may still be invalid: only parsing it shows that."""
    out: list[str] = []
    at, length = 0, len(text)
    while at < length:
        match = _TOKEN.match(text, at)
        if match is None:
            return None  # a quote that is never closed
        at = match.end()
        mark = match[0]
        if match["blank"]:
            continue
        if mark in ("}", "]") and len(out) > 1 and out[-1] == "," and out[-2] not in ("{", "[", ","):
            out.pop()
        piece = _piece(mark, out[-1] if out else "")
        if piece is None:
            return None
        out.append(piece)
    return "".join(out)


def _piece(mark: str, before: str) -> str | None:
    if mark in "{}[],:":
        return mark
    if mark[0] == '"':
        return f'"{_IN_DOUBLE.sub(_escaped, mark[1:-1])}"'
    if mark[0] == "'":
        return f'"{_IN_SINGLE.sub(_escaped, mark[1:-1])}"'
    if before in ("{", ",") and mark not in _WORDS and _KEY.fullmatch(mark):
        return f'"{mark}"'
    return _WORDS.get(mark) or (mark if mark[0] in "-0123456789" else None)


def _escaped(match: re.Match[str]) -> str:
    if match[1] == "'":
        return "'"
    return match[0] if match[1] else json.dumps(match[0])[1:-1]


def _strict(text: str) -> Json:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text or "\\uD" in text or not text.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it has half of a surrogate pair (\\ud800-\\udfff); write the character itself") from None
    return value


def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object of these pairs. Raises ValueError for a repeated key, as parsers disagree about the one that counts."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key appears twice")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=once)
"""Reads a value within a text, as strictly as ``read_json``."""


_TO_END = json.JSONDecoder(strict=False)


def end_of_value(text: str, at: int) -> int:
    """Return the end of the JSON value at ``at``; ``at`` if there is none."""
    try:
        return _TO_END.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return at


def shown(text: str) -> str:
    """Return ``text``, or its beginning and end if it is long: for errors that quote a model's text."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
