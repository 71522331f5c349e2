"""Changing config.yaml by a person's command: comments kept, checked before it replaces the old file, one writer at a time."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.config._files import locked, write_private
from agent.config._paths import config_path
from agent.config._read import load_config, parse_config, read_bytes
from agent.config._schema import AllowlistEntry, Config
from toolcrib import ConfigError

_INNER = r"(?m)^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( +)[^\s#-]"
"""The first key inside a section, whose indentation the whole file gets."""

Change = Callable[[Any], None]
"""Gets the whole document as ruamel's CommentedMap, which behaves as a dict, and changes it in place."""


def edit_config(path: str | Path | None, change: Change) -> Config:
    """Change the file and return what it says now. What is not touched keeps its comments and its form.

    Raises ConfigError, and leaves the file as it was, where it is broken before or after the change, or can't be written.
    """
    return _edit(path, change, lambda _old, _new: True)


def set_value(path: str | Path | None, key: str | Sequence[str], value: Any) -> Config:
    """Set one key: ``"tools.timeout"``, or its parts where one has a dot in it: ``("plugins", "trusted_projects", "/a.b")``.

    Raises as edit_config.
    """
    parts = key.split(".") if isinstance(key, str) else list(key)

    def change(document: Any) -> None:
        for part in parts[:-1]:
            if document.get(part) is None:
                document[_quoted(part)] = {}
            document = document[part]
            if not isinstance(document, Mapping):
                raise ConfigError(f"{'.'.join(parts)}: {part} holds no keys")
        document[_quoted(parts[-1])] = _quoted(value)

    return edit_config(path, change)


def append_allowlist(path: str | Path | None, entry: AllowlistEntry) -> Config:
    """Add one entry to command_allowlist, where it isn't there yet. Raises as edit_config."""

    def change(document: Any) -> None:
        if document.get("command_allowlist") is None:
            document["command_allowlist"] = []
        document["command_allowlist"].append(_quoted({"argv": list(entry.argv), "cwd": entry.cwd, "version": entry.version}))

    def only_added(old: Config, new: Config) -> bool:
        return new == dataclasses.replace(old, command_allowlist=(*old.command_allowlist, entry))

    current = load_config(path)
    return current if entry in current.command_allowlist else _edit(path, change, only_added)


def remove_allowlist(path: str | Path | None, entry: AllowlistEntry) -> Config:
    """Take an entry out of command_allowlist, wherever it stands. Raises as edit_config."""

    def change(document: Any) -> None:
        kept = load_config(path).command_allowlist
        for index in reversed([place for place, other in enumerate(kept) if other == entry]):
            del document["command_allowlist"][index]

    return _edit(path, change, lambda _old, new: entry not in new.command_allowlist)


def _edit(path: str | Path | None, change: Change, meant: Callable[[Config, Config], bool]) -> Config:
    asked = config_path(path)
    target = asked.resolve()  # a link, as people keep who manage their dotfiles, stays one
    with locked(target):
        data = read_bytes(target)
        old = Config(path=asked) if data is None else parse_config(data, asked)
        text = _changed("" if data is None else data.decode("utf-8-sig"), change)
        new = parse_config(text.encode("utf-8"), asked)
        if not meant(old, new):
            raise ConfigError(f"{asked}: the change would have changed more than was asked; the file is as it was")
        write_private(target, text)
    return new


def _changed(text: str, change: Change) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # no long line is folded
    try:
        document, indent, offset = load_yaml_guess_indent(text) if text.strip() else (None, None, None)
        if indent is not None and offset:
            yaml.indent(sequence=indent, offset=offset)
        inner = re.search(_INNER, text)
        yaml.map_indent = len(inner[1]) if inner else 2
        document = yaml.load(text)
        comments = text if document is None else ""  # a file of nothing else, which ruamel would lose
        document = CommentedMap() if document is None else document
        before = set(document)
        change(document)
        # New keys go to the end as text of their own: ruamel would put them before the comments of the last section.
        apart = not (document.fa.flow_style() or text.rstrip().endswith("..."))
        added = CommentedMap((key, document.pop(key)) for key in list(document) if apart and key not in before)
        parts = [comments, *(_dump(yaml, part) for part in (document, added) if part)]
    except YAMLError as error:
        raise ConfigError(f"the configuration cannot be changed: {error}") from error
    return "\n\n".join(part.rstrip("\n") for part in parts if part.strip()) + "\n"


def _dump(yaml: Any, document: Any) -> str:
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _quoted(value: Any) -> Any:
    """Text in quotes, all the way down: ruamel writes YAML 1.2, where a bare ``no`` is text, and the reader reads 1.1."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, str):
        return value if value.isidentifier() and value.lower() not in _WORDS else DoubleQuotedScalarString(value)
    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_quoted(item) for item in value]
    return value


_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
