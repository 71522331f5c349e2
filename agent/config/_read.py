"""From YAML text to a checked Config, with file and line for every fault."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import stat
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config._paths import config_path
from agent.config._schema import Config, is_required
from toolcrib import ConfigError

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


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """``line`` counts from 1; 0 where the whole file is meant. ``key`` is the dotted path, empty where there is none."""

    path: Path
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{where}: {self.key}: {self.text}" if self.key else f"{where}: {self.text}"


class BrokenConfig(ConfigError):
    """A configuration file with faults; all of them are in ``faults``, in order of lines, and in the text."""

    def __init__(self, faults: typing.Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line))
        if len(self.faults) == 1:
            super().__init__(str(self.faults[0]))
        else:
            lines = "".join(f"\n  {fault}" for fault in self.faults)
            super().__init__(f"{self.faults[0].path} has {len(self.faults)} faults, and nothing of it is used:{lines}")


def load_config(path: str | Path | None = None) -> Config:
    """Read the configuration; no file means all defaults. Raises BrokenConfig (a ConfigError) with every fault."""
    file = config_path(path)
    data = read_bytes(file)
    return Config(path=file) if data is None else parse_config(data, file)


def read_bytes(file: Path) -> bytes | None:
    """The file's content, or None where there is no such file. Raises BrokenConfig where it cannot be read."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if file.is_symlink():
            raise BrokenConfig([Fault(file, 0, "", "a link to nowhere; remove it or make its target")]) from None
        return None
    except OSError as error:
        raise BrokenConfig([Fault(file, 0, "", f"cannot be read: {error.strerror or error}")]) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BrokenConfig([Fault(file, 0, "", "expected a regular file")])
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BrokenConfig([Fault(file, 0, "", f"larger than {MAX_BYTES:,} bytes; this is no configuration")])
    return data


def parse_config(data: bytes, path: Path) -> Config:
    """The same for the content of a file. ``path`` stands in the faults and in the result."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BrokenConfig([Fault(path, line, "", f"not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8")]) from None
    node = _compose(text, path)
    reader = _Reader(path)
    config: Config | None = reader.section(node, Config, "")
    if reader.faults or config is None:
        raise BrokenConfig(reader.faults)
    return dataclasses.replace(config, path=path)


def _compose(text: str, path: Path) -> Any:
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise BrokenConfig([Fault(path, mark.line + 1 if mark else 0, "", f"not YAML: {words}")]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise BrokenConfig([Fault(path, line, "", f"not YAML: {character}")]) from None
    except RecursionError:
        raise BrokenConfig([Fault(path, 0, "", "nested too deeply")]) from None


class _Reader:
    """Walks the nodes along the schema and collects faults; what it returns counts only if there are none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []

    def fault(self, node: Any, key: str, text: str) -> None:
        self.faults.append(Fault(self.path, node.start_mark.line + 1, key, text))

    def section(self, node: Any, cls: type[Any], key: str) -> Any:
        """An instance of ``cls``, or None where it can't be made. An empty section is one with all defaults."""
        hints, fields = schema_of(cls)
        values: dict[str, Any] = {}
        if node is not None and not _is_blank(node):
            if not _is_mapping(node):
                self.fault(node, key, f"expected keys ({', '.join(fields)}), got {_kind(node)}")
                return None
            for name, key_node, value_node in self._pairs(node, key):
                if name in fields:
                    values[name] = self.value(value_node, hints[name], _join(key, name), fields[name].metadata)
                else:
                    self.fault(key_node, _join(key, name), f"unknown key; {_suggest(name, key, fields)}")
        missing = [name for name, entry in fields.items() if is_required(entry) and name not in values]
        if missing and node is not None:
            self.fault(node, key, f"{' and '.join(missing)} missing")
        return None if missing else cls(**values)

    def value(self, node: Any, hint: Any, key: str, metadata: Mapping[str, Any]) -> Any:
        """The value of one key, checked. A wrong one is a fault, and None."""
        faults = len(self.faults)
        found = self._typed(node, hint, key, metadata.get("expect", ""))
        check = metadata.get("check")
        if len(self.faults) == faults and check is not None and found is not None and not check(found):
            self.fault(node, key, f"expected {metadata['expect']}")
        return found

    def _typed(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if dataclasses.is_dataclass(hint):
            return self.section(node, typing.cast("type[Any]", hint), key)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is types.UnionType:
            return None if _is_null(node) else self._typed(node, args[0], key, expect)
        if origin is tuple:
            return self._list(node, args[0], key, expect)
        if origin is not None:
            return self._map(node, args[1], key, expect)
        return self._scalar(node, hint, key, expect)

    def _list(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if not _is_list(node):
            self.fault(node, key, f"expected {expect}, got {_kind(node)}; a list is written [a, b], an empty one []")
            return None
        return tuple(self._typed(item, hint, f"{key}[{index}]", "text") for index, item in enumerate(node.value))

    def _map(self, node: Any, hint: Any, key: str, expect: str) -> Any:
        if _is_blank(node):
            return {}
        if not _is_mapping(node):
            self.fault(node, key, f"expected {expect}, got {_kind(node)}")
            return None
        return {name: self._typed(value, hint, _join(key, name), "text") for name, _key, value in self._pairs(node, key)}

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
            hint_text = "; put it in quotes" if hint is str and tag in ("int", "float", "bool", "timestamp") else ""
            self.fault(node, key, f"expected {expect}, got {_kind(node)}{hint_text}")
            return None
        return value

    def _pairs(self, node: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar" or key_node.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                self.fault(key_node, key, f"expected a name as key, got {_kind(key_node)}; put it in quotes")
                continue
            name = key_node.value
            if name in seen:
                self.fault(key_node, _join(key, name), f"given twice; the first is in line {seen[name]}")
                continue
            seen[name] = key_node.start_mark.line + 1
            yield name, key_node, value_node


def schema_of(cls: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(types, dataclass fields) of a section's keys, by name."""
    fields = {entry.name: entry for entry in dataclasses.fields(cls) if "internal" not in entry.metadata}
    return typing.get_type_hints(cls), fields


def all_keys(cls: type[Any] = Config, prefix: str = "") -> Iterator[str]:
    """Every key, dotted; ``*`` stands for a name that the person chooses."""
    hints, fields = schema_of(cls)
    for name in fields:
        key, hint = _join(prefix, name), hints[name]
        args = typing.get_args(hint)
        if dataclasses.is_dataclass(hint):
            yield from all_keys(typing.cast("type[Any]", hint), key)
            continue
        yield key
        if args and dataclasses.is_dataclass(args[-1]):
            yield from all_keys(typing.cast("type[Any]", args[-1]), f"{key}.*")
        elif args and dataclasses.is_dataclass(args[0]):
            yield from all_keys(typing.cast("type[Any]", args[0]), f"{key}[]")


def _suggest(name: str, key: str, fields: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, fields, n=1)
    if near:
        return f"did you mean {_join(key, near[0])}?"
    elsewhere = [other for other in all_keys() if other.rpartition(".")[2] == name]
    if elsewhere:
        return f"did you mean {elsewhere[0]}?"
    return f"expected one of {', '.join(fields)}"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _is_mapping(node: Any) -> bool:
    return bool(node.id == "mapping" and node.tag == f"{_TAG}map")


def _is_list(node: Any) -> bool:
    return bool(node.id == "sequence" and node.tag == f"{_TAG}seq")


def _is_null(node: Any) -> bool:
    """``null`` or ``~`` in so many words."""
    return bool(node.tag == f"{_TAG}null" and node.value)


def _is_blank(node: Any) -> bool:
    return bool(node.tag == f"{_TAG}null")


def _kind(node: Any) -> str:
    if node.id == "mapping" and _is_mapping(node):
        return "keys and values"
    if node.id == "sequence" and _is_list(node):
        return "a list"
    return _SCALARS.get(node.tag.removeprefix(_TAG), f"a value of the type {node.tag!r}")
