"""Bounded results: the head and the tail are kept, and the full text is stored in a file that the model can read."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.contract.types import Json

_log = logging.getLogger(__name__)

MAX_RESULT_CHARS = 40_000
"""Limit of a result: about 10,000 tokens."""


def _encoder(*, ensure_ascii: bool) -> Callable[[Json], str]:
    """Return an encoder that raises RecursionError, not ValueError, for a value that contains itself.

    Checking for such values costs more than encoding a small result. So does creating json's C encoder for each value, as
    JSONEncoder.encode does. Not every Python has the C encoder.
    """
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, allow_nan=False, check_circular=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    text: Any = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    parts = make(None, encoder.default, text, None, ": ", ", ", False, False, False)
    return lambda value: "".join(parts(value, 0))


_encode, _encode_ascii = _encoder(ensure_ascii=False), _encoder(ensure_ascii=True)

_HEAD_SHARE = 0.6
_SHORT_STRING = 1_000
"""Strings up to this length, such as paths and codes, stay whole when a structure is clipped."""


def encode(value: Json) -> str:
    """Return the JSON text of any handler's value, in valid UTF-8. Raises TypeError, ValueError or RecursionError if it is not
    JSON.
    """
    text = _encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate, from a file name that is not UTF-8
            return _encode_ascii(value)
    return text


def clip_text(text: str, limit: int, full: str) -> str:
    """Cut ``text`` to about ``limit`` characters, at line ends if possible, with a note about the omission.

    ``full`` is the part of the note that says where the whole text is.
    """
    if len(text) <= limit:
        return text
    head_size = int(limit * _HEAD_SHARE)
    head, tail = text[:head_size], text[-(limit - head_size) :]
    if (end := head.rfind("\n", head_size // 2)) != -1:
        head = head[: end + 1]
    if (start := tail.find("\n", 0, len(tail) // 2)) != -1:
        tail = tail[start + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head.removesuffix(chr(10))}\n[... {left_out:,} characters left out{full} ...]\n{tail}"


def clip_data(value: Json, limit: int, spill: Callable[[str], str]) -> Json:
    """Return ``value``, or a clipped form of about ``limit`` characters of JSON text.

    ``spill`` stores the whole text and returns a note with its location. In a structure, long strings are clipped first. If
    that is not enough, the result is the head and the tail of its text.
    """
    if isinstance(value, str):
        return value if len(value) <= limit else clip_text(value, limit, spill(value))
    text = encode(value)
    if len(text) <= limit:
        return value
    full = spill(whole_text(value))
    long_strings = max(1, sum(1 for _ in _long_strings(value)))
    clipped = _shorten(value, max(_SHORT_STRING, limit // (2 * long_strings)), full)
    text = encode(clipped)
    return clipped if len(text) <= limit else clip_text(text, limit, full)


def whole_text(value: Json) -> str:
    """Return a result's whole text, readable by users and models."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _long_strings(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value] if len(value) > _SHORT_STRING else []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [text for item in items for text in _long_strings(item)]


def _shorten(value: Json, limit: int, full: str) -> Json:
    if isinstance(value, str):
        return clip_text(value, limit, full)
    if isinstance(value, dict):
        return {key: _shorten(item, limit, full) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shorten(item, limit, full) for item in value]
    return value


def _new_file(folder: Path, name: str) -> tuple[Path, int]:
    """Create a file, and return its path and descriptor. If the name is taken, a number is added: models reuse call ids, and an
    earlier result must not be overwritten.
    """
    for number in itertools.count(1):
        path = folder / (f"{name}.txt" if number == 1 else f"{name}-{number}.txt")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def spill_to(folder: Callable[[], Path], call_id: str) -> Callable[[str], str]:
    """Return a spill function that writes ``<folder>/<call id>.txt``, readable only by its owner.

    If the disk is full, the file is lost, but not the result.
    """

    def spill(text: str) -> str:
        try:
            path, descriptor = _new_file(folder(), re.sub(r"[^A-Za-z0-9_.-]", "_", call_id)[:80])
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as error:
            _log.warning("the full result of call %s could not be kept: %s", call_id, error)
            return f"; the full text could not be kept: {error.strerror}"
        return f"; the full text is in {path}: read_file it in parts"

    return spill
