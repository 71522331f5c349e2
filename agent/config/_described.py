"""Descriptions of every key, for pages and commands that show all of them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from agent.config._keys import join, plain, schema_of
from agent.config._schema import Config
from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """The description of a key. ``key`` is its dotted name: ``*`` stands for a chosen name, ``[]`` for an item of a list.

    ``section`` describes the key's section, ``expect`` a valid value for people. ``default`` is a JSON value and applies only if
    ``has_default``.
    """

    key: str
    section: str
    doc: str
    expect: str
    default: Any = None
    has_default: bool = True


def settings() -> list[DescribedSetting]:
    """Return every key in the order of the example file. Profiles accept the same keys, which are not repeated."""
    return list(_settings(Config, "", ""))


def _settings(cls: type[Any], prefix: str, section: str) -> Iterator[DescribedSetting]:
    hints, fields = schema_of(cls)
    for name, entry in fields.items():
        key, hint = join(prefix, name), hints[name]
        args = typing.get_args(hint)
        if dataclasses.is_dataclass(hint):
            yield from _settings(typing.cast("type[Any]", hint), key, str(hint.__doc__).strip())
            continue
        yield _described(key, section, entry, hint)
        if args and dataclasses.is_dataclass(args[-1]):
            yield from _settings(typing.cast("type[Any]", args[-1]), f"{key}.*", section)
        elif args and dataclasses.is_dataclass(args[0]):
            yield from _settings(typing.cast("type[Any]", args[0]), f"{key}[]", section)


def _described(key: str, section: str, entry: Any, hint: Any) -> DescribedSetting:
    has_default, default = True, None
    if entry.default is not dataclasses.MISSING:
        default = entry.default
    elif entry.default_factory is not dataclasses.MISSING:
        default = entry.default_factory()
    else:
        has_default = False
    expect = entry.metadata.get("expect", "") or _by_type(hint)
    return DescribedSetting(key, section, entry.metadata["doc"], expect, plain(default), has_default)


def _by_type(hint: Any) -> str:
    """Return the expected value by its type, in the words of the configuration's messages."""
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(filter(None, typing.get_args(hint)))}"
    return {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}.get(hint, "")
