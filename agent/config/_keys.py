"""Dotted keys: lookup, suggestions, and the values at them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agent.config._schema import AllowlistEntry, Config, Profile, is_required
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.suggest import near


class NotSet(ConfigError):
    """The key is not set, or a chosen name in it does not exist."""


def schema_of(cls: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (types, dataclass fields) of a section's keys, by name."""
    fields = {entry.name: entry for entry in dataclasses.fields(cls) if "internal" not in entry.metadata}
    return _types(cls), fields


def _types(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a section's keys. Cached, because Python would evaluate them each time, and a start needs most of
    them three times.
    """
    if cls not in _known_types:
        _known_types[cls] = typing.get_type_hints(cls)
    return _known_types[cls]


_known_types: dict[type[Any], dict[str, Any]] = {}


def all_keys(cls: type[Any] = Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key; ``*`` stands for a name that the user chooses. ``profiles.*`` accepts the same keys again."""
    hints, fields = schema_of(cls)
    for name in fields:
        key, hint = join(prefix, name), hints[name]
        args = typing.get_args(hint)
        if dataclasses.is_dataclass(hint):
            yield from all_keys(typing.cast("type[Any]", hint), key)
            continue
        yield key
        if args and dataclasses.is_dataclass(args[-1]):
            yield from all_keys(typing.cast("type[Any]", args[-1]), f"{key}.*")
        elif args and dataclasses.is_dataclass(args[0]):
            yield from all_keys(typing.cast("type[Any]", args[0]), f"{key}[]")


def join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


_RARE = 2
"""If a name occurs in at most this many sections, it is likely that the user meant one of them."""


def suggest(name: str, key: str, fields: Collection[str]) -> str:
    """Suggest a name for the unknown ``name`` below ``key``, where ``fields`` are known.

    In a section, a similar name of that section is preferred to the same name in another section.
    """
    inside = ".".join(key.split(".")[:2]) if key.startswith("profiles.") else ""
    elsewhere = [other for other in all_keys() if other.rpartition(".")[2] == name]
    elsewhere.sort(key=lambda other: "." in other)  # top-level keys come first
    is_usual = bool(elsewhere) and not elsewhere[0].startswith(("platforms.*", "users.*"))
    same = f"did you mean {join(inside, elsewhere[0]) if is_usual else elsewhere[0]}?" if elsewhere else ""
    if is_usual and (key == inside or elsewhere[0] == name):
        return same
    if alike := near(name, fields):
        return f"did you mean {join(key, alike[0])}?"
    if key == inside and same:
        return same
    is_rare = is_usual and len([other for other in elsewhere if not {"*", "["}.intersection(other)]) <= _RARE
    return f"expected one of {', '.join(fields)}{f'; or {same}' if is_rare else ''}"


def find_key(text: str) -> tuple[tuple[str, ...], Any]:
    """Return (the key's parts, the type of its value). A chosen name may be quoted: ``users."a.b".disabled_tools``.

    Raises ConfigError with the nearest key.
    """
    parts: list[str] = []
    cls: Any = Config
    rest = text
    while True:
        name, rest = _head(rest)
        hints, fields = schema_of(cls)
        if name not in fields:
            raise ConfigError(f"unknown key {join('.'.join(parts), name)!r}; {suggest(name, '.'.join(parts), fields)}")
        parts.append(name)
        hint = hints[name]
        while rest and typing.get_origin(hint) is Mapping:
            item = typing.get_args(hint)[-1]
            name, rest = _chosen_name(rest, item)
            parts.append(name)
            hint = Config if item is Profile else item
        if not rest:
            return tuple(parts), hint
        if not dataclasses.is_dataclass(hint):
            raise ConfigError(f"unknown key {text!r}: {'.'.join(parts)} has no keys below it")
        cls = hint


def _head(text: str) -> tuple[str, str]:
    quote = text[:1]
    if quote in ("'", '"') and (end := text.find(quote, 1)) > 0 and text[end + 1 : end + 2] in ("", "."):
        return text[1:end], text[end + 2 :]
    name, _, rest = text.partition(".")
    return name, rest


def _chosen_name(rest: str, item: Any) -> tuple[str, str]:
    """Split off a chosen name. An unquoted name may contain dots, unless it names a profile or has chosen names below it."""
    name, after = _head(rest)
    if name != rest.partition(".")[0] or item is Profile or typing.get_origin(item) is Mapping:
        return name, after
    if not dataclasses.is_dataclass(item):
        return rest, ""
    before, _, last = rest.rpartition(".")
    return (before, last) if before and last in schema_of(typing.cast("type[Any]", item))[1] else (name, after)


def value_at(config: Config, parts: Sequence[str]) -> Any:
    """Return the value at a key, or its default if it is not set. Raises NotSet for a chosen name that does not exist."""
    value: Any = config
    hint: Any = Config
    for index, part in enumerate(parts):
        if isinstance(value, Profile):
            return _in_profile(value, parts, index)
        if isinstance(value, Mapping):
            hint = typing.get_args(hint)[-1]
            if part not in value and (not dataclasses.is_dataclass(hint) or hint is Profile):
                raise NotSet(f"{'.'.join(parts[: index + 1])} is not set")
            value = value[part] if part in value else hint()
        else:
            hint = _types(type(value))[part]
            value = getattr(value, part)
    return value


def _in_profile(profile: Profile, parts: Sequence[str], index: int) -> Any:
    key = ".".join(parts[index:])
    if key in profile.values:
        return profile.values[key]
    below = {name.removeprefix(f"{key}."): value for name, value in profile.values.items() if name.startswith(f"{key}.")}
    if not below:
        raise NotSet(f"{'.'.join(parts)} is not set")
    return Profile(below)


def replaced(value: Any, parts: Sequence[str], new: Any, hint: Any = Config) -> Any:
    """Return a copy of ``value`` (a section or a mapping of names) with ``new`` at the key ``parts``."""
    if not parts:
        return new
    part, below = parts[0], parts[1:]
    if isinstance(value, Mapping):
        inner = typing.get_args(hint)[-1]
        empty = dict if typing.get_origin(inner) is Mapping else inner
        old = value[part] if part in value else empty() if below else None
        return {**value, part: replaced(old, below, new, inner)}
    inner = _types(type(value))[part]
    return replace(value, **{part: replaced(getattr(value, part), below, new, inner)})


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, plain value) for each leaf of ``value``; ``find_key`` accepts the keys."""
    if isinstance(value, Profile):
        values: Mapping[str, Any] = value.values
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        values = {name: getattr(value, name) for name in schema_of(type(value))[1]}
    elif isinstance(value, Mapping):
        values = value
    else:
        values = {}
    if not values:
        yield prefix, plain(value)
    for name, item in values.items():
        yield from leaves(item, join(prefix, name))


def plain(value: Any) -> Any:
    """Convert a value to the dicts, lists and scalars of JSON and YAML."""
    if isinstance(value, Profile):
        return plain(value.values)
    if isinstance(value, AllowlistEntry) and value.text is not None:
        return value.text
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in schema_of(type(value))[1]}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def required(fields: Mapping[str, Any]) -> list[str]:
    return [name for name, entry in fields.items() if is_required(entry)]
