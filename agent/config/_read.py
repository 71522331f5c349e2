"""Conversion of YAML text to a checked Config, with file and line for every error."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import stat
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config._keys import join, required, schema_of, suggest
from agent.config._schema import Config, Profile
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.suggest import near

MAX_BYTES = 1_000_000
_SCALARS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "timestamp": "a date",
}
_TAG = "tag:yaml.org,2002:"
_NO_KEYS = (
    "this looks like an API key, which does not belong here: put it into an environment variable or into the file secrets.env "
    "beside this one (chmod 600), and name the variable here, as model.api_key_env does"
)
_HOME = '; if you mean your home folder, write "~" in quotes'
NOT_IN_PROFILES = frozenset(["profiles", "command_allowlist", "plugins.trusted_projects"])


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """An error in a file. ``line`` counts from 1, and is 0 for the whole file. ``key`` is the dotted path, or empty."""

    path: Path
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return visible(f"{where}: {self.key}: {self.text}" if self.key else f"{where}: {self.text}")


class BrokenConfig(ConfigError):
    """A configuration file with errors. ``faults`` and the message contain all of the errors, in order of lines.

    ``advice`` is the next step, if fixing the errors is not enough.
    """

    def __init__(self, faults: typing.Sequence[ConfigFault], advice: str = "") -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line))
        self.advice = advice
        end = f"\n{advice}" if advice else ""
        if len(self.faults) == 1:
            super().__init__(f"{self.faults[0]}{end}")
        else:
            lines = "".join(f"\n  {fault}" for fault in self.faults)
            super().__init__(f"{self.faults[0].path} has {len(self.faults)} errors; none of its settings are used:{lines}{end}")


@dataclass(frozen=True, slots=True)
class Given:
    """A key that a file sets. ``laid`` is true if a profile sets it."""

    value: Any
    line: int
    laid: bool


def visible(text: str) -> str:
    """Return text on one line, without characters that control a terminal: the names in a file are not trusted."""
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def read_bytes(file: Path) -> bytes | None:
    """Return the file's content, or None if it does not exist. Raises BrokenConfig if it cannot be read."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if file.is_symlink():
            text = "a link whose target does not exist; create the target or remove the link"
            raise BrokenConfig([ConfigFault(file, 0, "", text)]) from None
        return None
    except OSError as error:
        raise BrokenConfig([ConfigFault(file, 0, "", f"cannot be read: {error.strerror or error}")]) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BrokenConfig([ConfigFault(file, 0, "", "expected a regular file")])
    return read_handle(handle, file, MAX_BYTES)


def read_handle(handle: int, file: Path, limit: int) -> bytes:
    """Read all of an open regular file, and close it. Raises BrokenConfig if it is larger than ``limit`` bytes."""
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(limit + 1)
    if len(data) > limit:
        raise BrokenConfig([ConfigFault(file, 0, "", f"larger than {limit:,} bytes, the limit of a configuration")])
    return data


def parse_config(data: bytes, path: Path) -> Config:
    """Return the configuration of a file's content, without a profile. ``path`` appears in the errors and in the result."""
    return read_node(parse_node(data, path), path)


def read_node(node: Any, path: Path, profile: str = "", laid: Collection[int] = ()) -> Config:
    """Convert YAML nodes to a Config with its origins. ``laid`` are the ids of the key nodes that ``profile`` contributed."""
    reader = ConfigReader(path, laid)
    config: Config | None = reader.section(node, Config, "")
    if reader.faults or config is None:
        raise BrokenConfig(reader.faults)
    origins = {
        key: f"profile {profile} {path}:{given.line}" if given.laid else f"{path}:{given.line}"
        for key, given in reader.given.items()
    }
    return replace(config, path=path, profile=profile, origins=origins, notices=tuple(reader.notices))


def parse_node(data: bytes, path: Path) -> Any:
    """Return the root of the file's YAML nodes, or None if the file is empty. Raises BrokenConfig."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BrokenConfig(
            [ConfigFault(path, line, "", f"not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8")]
        ) from None
    return _compose(text, path)


def _compose(text: str, path: Path) -> Any:
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise BrokenConfig([ConfigFault(path, mark.line + 1 if mark else 0, "", f"invalid YAML: {words}")]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise BrokenConfig([ConfigFault(path, line, "", f"invalid YAML: {character}")]) from None
    except RecursionError:
        raise BrokenConfig([ConfigFault(path, 0, "", "nested too deeply")]) from None


class ConfigReader:
    """Checks YAML nodes against the schema and converts them. It collects errors; its result is valid only without errors."""

    def __init__(self, path: Path, laid: Collection[int] = ()) -> None:
        self.path = path
        self.faults: list[ConfigFault] = []
        self.given: dict[str, Given] = {}
        self.notices: list[str] = []
        self._laid = laid
        self._profile = ""

    def fault(self, node: Any, key: str, text: str) -> None:
        self.faults.append(ConfigFault(self.path, node.start_mark.line + 1, key, text))

    def section(self, node: Any, cls: type[Any], key: str) -> Any:
        """Return an instance of ``cls``, or None if the node is no mapping or lacks a required key; the error is collected. An
        empty section has all defaults.
        """
        hints, fields = schema_of(cls)
        values: dict[str, Any] = {}
        if node is not None and not is_blank(node):
            if not is_mapping(node):
                self.fault(node, key, f"expected keys ({', '.join(fields)}), got {_kind(node)}")
                return None
            for name, key_node, value_node in self._pairs(node, key):
                if name in fields:
                    values[name] = self.value(key_node, value_node, hints[name], join(key, name), fields[name].metadata)
                else:
                    self.fault(key_node, join(key, name), f"unknown key; {suggest(name, key, fields)}")
        for name, (other, value) in getattr(cls, "implied", {}).items():
            if other in values:
                values.setdefault(name, value)
        missing = [name for name in required(fields) if name not in values]
        if missing and node is not None:
            form = getattr(cls, "form", "")
            self.fault(node, key, f"{' and '.join(missing)} missing{f'; the form is {form}' if form else ''}")
        return None if missing else cls(**values)

    def value(self, key_node: Any, node: Any, hint: Any, key: str, metadata: Mapping[str, Any]) -> Any:
        """Return the value of one key. Collect an error if it is wrong; a value of the wrong type becomes None."""
        if self._profile and key.removeprefix(self._profile) in NOT_IN_PROFILES:
            self.fault(key_node, key, "not allowed in a profile; set it outside, for all profiles")
            return None
        faults = len(self.faults)
        expect = metadata.get("expect", "")
        if metadata.get("single") and node.id == "scalar" and node.tag == f"{_TAG}str":
            node = _list_of(node)
        found = self._typed(node, hint, key, expect)
        check = metadata.get("check")
        if len(self.faults) == faults and check is not None and found is not None and not check(found):
            self.fault(node, key, f"expected {expect}")
        if not _holds_keys(hint):
            self._note(key_node, key, found)
        return found

    def _note(self, key_node: Any, key: str, value: Any) -> None:
        self.given[key] = Given(value, key_node.start_mark.line + 1, id(key_node) in self._laid)

    def _typed(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if hint is Profile:
            return self._partial(node, key)
        if dataclasses.is_dataclass(hint):
            of_text = getattr(hint, "of_text", None)  # some entries may be plain text too
            if of_text is not None and node.id == "scalar" and node.tag == f"{_TAG}str":
                text = self._scalar(node, str, key, expect)
                return None if text is None else of_text(text)
            return self.section(node, typing.cast("type[Any]", hint), key)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is types.UnionType:
            if args[0] is str and _is_tilde(node):
                text = f"~ alone means null in YAML, so the default applies{_HOME}; else write null"
                self.notices.append(str(ConfigFault(self.path, node.start_mark.line + 1, key, text)))
            return None if _is_null(node) else self._typed(node, args[0], key, expect)
        if origin is tuple:
            return self._list(node, args[0], key, expect)
        if origin is typing.Literal:
            return self._choice(node, args, key)
        if origin is not None:
            return self._map(node, args[1], key, expect)
        return self._scalar(node, hint, key, expect)

    def _partial(self, node: Any, key: str) -> Profile:
        """Read a profile like a whole configuration, and return only the keys that it sets."""
        outside, self.given, self._profile = self.given, {}, f"{key}."
        self.section(node, Config, key)
        values = {name.removeprefix(self._profile): given.value for name, given in self.given.items() if name[-1] != "]"}
        self.given, self._profile = {**outside, **self.given}, ""
        return Profile(values)

    def _choice(self, node: Any, choices: tuple[str, ...], key: str) -> Any:
        value = self._scalar(node, str, key, f"one of {', '.join(filter(None, choices))}")
        if value is None or value in choices:
            return value
        alike = near(value.lower(), [choice for choice in choices if choice])
        alike = alike or [choice for choice in choices if choice and choice.lower() == value.lower()]
        meant = f"; did you mean {alike[0]}?" if alike else ""
        self.fault(node, key, f"expected one of {', '.join(filter(None, choices))}{meant}")
        return None

    def _list(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if not _is_list(node):
            wanted = "a list" if expect == "text" else expect  # a mapping passes "text", which describes an item
            self.fault(node, key, f"expected {wanted}, got {_kind(node)}; write a list as [a, b], an empty list as []")
            return None
        outside, self.given = self.given, {}  # a key inside a list item has no dotted key
        found = tuple(self._typed(item, hint, f"{key}[{index}]", "text") for index, item in enumerate(node.value))
        self.given = outside
        if dataclasses.is_dataclass(hint):  # so that an error in a rule is reported with its own line
            for index, item in enumerate(node.value):
                self.given[f"{key}[{index}]"] = Given(None, item.start_mark.line + 1, laid=False)
        return found

    def _map(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if is_blank(node):
            return {}
        if not is_mapping(node):
            self.fault(node, key, f"expected {expect}, got {_kind(node)}")
            return None
        found = {}
        for name, key_node, value in self._pairs(node, key):
            found[name] = self._typed(value, hint, join(key, name), "text")
            if hint is Profile or not dataclasses.is_dataclass(hint):
                self._note(key_node, join(key, name), found[name])
        return found

    def _scalar(self, node: Any, hint: type[Any], key: str, expect: str) -> Any:
        from yaml import YAMLError
        from yaml.constructor import SafeConstructor

        tag = node.tag.removeprefix(_TAG)
        wanted = {str: ("str",), int: ("int",), float: ("int", "float"), bool: ("bool",)}[hint]
        try:
            value = SafeConstructor().construct_object(node) if tag in wanted and node.id == "scalar" else None
        except (YAMLError, ValueError, KeyError, OverflowError):
            value = None
        if hint is float and isinstance(value, int):
            value = float(value) if abs(value) < 1e15 else math.inf
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            # Quotes help if the unquoted value is a choice, such as off, which YAML reads as a bool.
            is_meant = not expect.startswith("one of ") or node.value in expect.replace(",", "").split()
            is_other = hint is str and tag in ("int", "float", "bool", "timestamp")
            hint_text = "; put it in quotes" if is_other and is_meant else ""
            hint_text = _HOME if hint is str and _is_tilde(node) else hint_text
            got = _kind(node) if value is None else "a number that is not finite"
            self.fault(node, key, f"expected {expect}, got {got}{hint_text}")
            return None
        if isinstance(value, str) and _is_secret(value):
            self.fault(node, key, _NO_KEYS)
            return None
        return value

    def _pairs(self, node: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar" or key_node.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                self.fault(key_node, key, f"expected a name as key, got {_kind(key_node)}; put it in quotes")
                continue
            name = key_node.value
            if _is_secret(name):
                self.fault(key_node, key, _NO_KEYS)
                continue
            if name in seen:
                self.fault(key_node, join(key, name), f"given twice; first given on line {seen[name]}")
                continue
            seen[name] = key_node.start_mark.line + 1
            yield name, key_node, value_node


@functools.cache
def _redactor() -> Any:
    from tools.redact import Redactor

    return Redactor()


def _is_secret(value: str) -> bool:
    """Return whether the value has the form of a well-known key."""
    return bool(_redactor().text(value) != value)


def _holds_keys(hint: Any) -> bool:
    """Return True for the types of sections and mappings: the keys below them have origins of their own."""
    return dataclasses.is_dataclass(hint) or typing.get_origin(hint) is Mapping


def is_mapping(node: Any) -> bool:
    return bool(node.id == "mapping" and node.tag == f"{_TAG}map")


def _is_list(node: Any) -> bool:
    return bool(node.id == "sequence" and node.tag == f"{_TAG}seq")


def _is_null(node: Any) -> bool:
    """Return whether the node is an explicit ``null`` or ``~``."""
    return bool(node.tag == f"{_TAG}null" and node.value)


def _is_tilde(node: Any) -> bool:
    return _is_null(node) and node.value == "~"


def is_blank(node: Any) -> bool:
    return bool(node.tag == f"{_TAG}null")


def _kind(node: Any) -> str:
    if node.id == "mapping" and is_mapping(node):
        return "keys and values"
    if node.id == "sequence" and _is_list(node):
        return "a list"
    return _SCALARS.get(node.tag.removeprefix(_TAG), f"a value of the type {node.tag!r}")


def _list_of(node: Any) -> Any:
    import yaml

    return yaml.SequenceNode(f"{_TAG}seq", [node], node.start_mark, node.end_mark)
