"""Limits of a project's ``.toolcrib/config.yaml``: it may set the display except key bindings, lower limits, and disable tools.

The file comes with the repository, so its author is not trusted: every other setting is ignored and reported.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config._keys import all_keys, find_key, join, plain, replaced, value_at
from agent.config._read import BrokenConfig, ConfigFault, ConfigReader, is_blank, is_mapping, parse_node, read_handle, visible
from agent.config._schema import Config
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError

MAX_BYTES = 64_000
MAX_NOTICES = 20
_LIMITS = frozenset(
    ["tools.timeout", "tools.max_result_chars", "terminal.timeout", "max_turns", "run.max_tokens", "model.max_output_tokens"]
    + [f"delegates.{name}" for name in ("max_depth", "at_once", "max_turns", "seconds")]
)
_LISTS = frozenset(["tools.disabled", "toolsets.disabled", "platforms.*.disabled_toolsets", "platforms.*.disabled_tools"])


@functools.cache
def _display() -> frozenset[str]:
    """Return the keys of the display, without the key bindings."""
    return frozenset(key for key in all_keys() if key.startswith("display.") and not key.startswith("display.keys."))


@functools.cache
def _allowed() -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(key.split(".")) for key in _display() | _LIMITS | _LISTS)


def with_project(config: Config, project_dir: Path) -> Config:
    """Return ``config``, restricted by the project's file if it has one; ``notices`` list the settings that are ignored.

    Raises BrokenConfig if the file is not a regular file inside the project, or if a setting that it may have is wrong.
    """
    file = project_dir / ".toolcrib" / "config.yaml"
    try:
        data = _read_inside(file, config.path)
        return config if data is None else _narrowed(config, file, data)
    except BrokenConfig as error:
        advice = f"the file comes with the project; fix or remove {file}: until then toolcrib does not work in this project"
        raise BrokenConfig(error.faults, advice) from None


def _read_inside(file: Path, own: Path) -> bytes | None:
    """Return the file's content, or None if it does not exist or is the user's own configuration file. Raises BrokenConfig, also
    if the file or its folder is a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    folder = None
    try:
        folder = os.open(file.parent, flags | os.O_DIRECTORY)
        handle = os.open(file.name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        links = [path for path in (file.parent, file) if path.is_symlink()]
        text = f"{links[0]} is a link; links are not followed here" if links else f"cannot be read: {error.strerror or error}"
        raise BrokenConfig([ConfigFault(file, 0, "", text)]) from error
    finally:
        if folder is not None:
            os.close(folder)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise BrokenConfig([ConfigFault(file, 0, "", "expected a regular file")])
    if own.exists() and os.path.samestat(about, own.stat()):
        os.close(handle)
        return None
    return read_handle(handle, file, MAX_BYTES)


def _narrowed(config: Config, file: Path, data: bytes) -> Config:
    node = parse_node(data, file)
    _refuse_aliases(node, file)
    filtering = _Filter(file)
    kept = filtering.kept(node, (), "")
    reader = ConfigReader(file)
    reader.section(kept, Config, "")
    if reader.faults:
        raise BrokenConfig(reader.faults)
    notices = filtering.notices
    for key, given in reader.given.items():
        where = f"{file}:{given.line}"
        parts = find_key(key)[0]
        stands = value_at(config, parts)
        origin = config.origins.get(key, "default")
        value = given.value
        if key in _LIMITS:
            if stands is not None and (value is None or value > stands):
                text = f"ignored: a project may only lower this limit, which is {plain(stands)} ({origin})"
                notices.append(visible(f"{where}: {key}: {text}"))
            if value is None or (stands is not None and value >= stands):
                continue
        elif key not in _display():
            value = (*stands, *(name for name in dict.fromkeys(value) if name not in stands))
            if value == stands:
                continue
            where = f"{where}; {origin}" if stands else where
        config = replace(replaced(config, parts, value), origins={**config.origins, key: f"project {where}"})
    more = len(notices) - MAX_NOTICES
    shown = (*notices[:MAX_NOTICES], f"{file}: and {more} more like these") if more > 0 else tuple(notices)
    return replace(config, notices=(*config.notices, *shown))


def _refuse_aliases(node: Any, file: Path) -> None:
    """Raise BrokenConfig if an alias is used: a few bytes of aliases can expand to millions of items."""
    seen: set[int] = set()
    left = [] if node is None else [node]
    while left:
        one = left.pop()
        if id(one) in seen:
            text = "an alias (*name) refers to this; write the value out instead"
            raise BrokenConfig([ConfigFault(file, one.start_mark.line + 1, "", text)])
        seen.add(id(one))
        if one.id == "mapping":
            left += [part for pair in one.value for part in pair]
        elif one.id == "sequence":
            left += one.value


class _Filter:
    """A filter for YAML nodes: it removes and reports the keys that a project may not set."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.notices: list[str] = []

    def kept(self, node: Any, path: tuple[str, ...], key: str) -> Any:
        """Return the node without the keys that a project may not set. A node that is not a mapping stays as it is; the reader
        reports it.
        """
        if node is None or is_blank(node) or not is_mapping(node):
            return node
        import yaml

        return yaml.MappingNode(node.tag, list(self._pairs(node, path, key)), node.start_mark, node.end_mark)

    def _pairs(self, node: Any, path: tuple[str, ...], key: str) -> Iterator[tuple[Any, Any]]:
        for key_node, value in node.value:
            if key_node.id != "scalar":
                yield key_node, value
                continue
            name = key_node.value
            below = (*path, "*" if path == ("platforms",) else name)
            if below in _allowed():
                yield key_node, value
            elif any(may[: len(below)] == below for may in _allowed()):
                yield key_node, self.kept(value, below, join(key, name))
            else:
                self._tell(key_node, join(key, name))

    def _tell(self, key_node: Any, key: str) -> None:
        limits = ", ".join(sorted(_LIMITS))
        text = f"ignored: a project may only set display, disable tools and toolsets, and lower these limits: {limits}"
        try:
            find_key(key)
        except ConfigError as error:
            text = f"ignored: {error}"
        shown = key if len(key) <= 80 else f"{key[:79]}…"
        self.notices.append(visible(f"{self.file}:{key_node.start_mark.line + 1}: {shown}: {text}")[:500])
