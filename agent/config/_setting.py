"""Declaration of a key, and checks of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

Check = Callable[[Any], bool]


def setting(default: Any, doc: str, *, expect: str = "", check: Check | None = None, single: bool = False) -> Any:
    """Declare a key. ``expect`` describes a valid value for people, and ``check`` rejects other values of the right type.
    ``single``: a single text means a list of one.

    If ``default`` is a class, such as ``dict``, it is called to make the default. ``...`` makes the key required.
    """
    metadata = {"doc": doc, "expect": expect, "check": check, "single": single}
    if default is ...:
        return field(metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def above_zero(value: float) -> bool:
    return value > 0


def at_least_one(value: int) -> bool:
    return value >= 1


def all_text(values: tuple[str, ...]) -> bool:
    return all(values)


def env_names(values: tuple[str, ...]) -> bool:
    return all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) for value in values)


def absolute(value: str) -> bool:
    return value.startswith(("/", "~"))


def digests(values: Mapping[str, str]) -> bool:
    return all(absolute(path) and re.fullmatch(r"[0-9a-f]{64}", digest) for path, digest in values.items())


def at_least_zero(value: float) -> bool:
    return value >= 0


def at_most_a_day(value: float) -> bool:
    return 0 < value <= 86_400


def is_env_name(value: str) -> bool:
    """Accept an empty name, or one in capitals: a value with small letters is more likely a key than a variable's name."""
    return re.fullmatch(r"(?:[A-Z_][A-Z0-9_]*)?", value) is not None


def is_thinking(value: str) -> bool:
    return value in ("", "low", "medium", "high") or (value.isascii() and value.isdecimal() and int(value[:9]) >= 1024)


def is_base_url(value: str) -> bool:
    """Accept an empty value, or an http(s) URL with a host and without user, password or query, which could hold secrets."""
    from urllib.parse import urlsplit

    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        return False
    plain = not (url.username or url.password or url.query or url.fragment) and port != 0
    return not value or (url.scheme in ("http", "https") and bool(url.hostname) and plain and value.isprintable())


def is_store_url(value: str) -> bool:
    """Accept ``postgresql://`` URLs without a password, which does not belong in this file."""
    from agent.store.postgres.address import has_password

    return not has_password(value)


def profile_names(values: Mapping[str, Any]) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in values)


SECONDS = "a number of seconds above 0"
NAMES = "a list of names"
