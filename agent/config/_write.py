"""Changes of config.yaml by a user's command. They keep comments, are checked before they are written, and lock the file."""

from __future__ import annotations

import io
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from agent.config._files import locked, write_private
from agent.config._keys import NotSet, leaves
from agent.config._layers import load_config
from agent.config._paths import config_path
from agent.config._read import BrokenConfig, is_mapping, parse_config, parse_node, read_bytes
from agent.config._schema import AllowlistEntry, Config
from agent.policy.self_protection import refuse_below
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import real_path

_INNER = r"(?m)^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( +)[^\s#-]"
"""Matches the first key inside a section. The whole file gets the indentation of this key."""

UNSET = object()
"""Value that marks a key to remove."""
Change = Callable[[Any], None]
"""Receives the whole document as ruamel's CommentedMap, which behaves like a dict, and changes it in place."""


def edit_config(path: str | Path | None, change: Change) -> Config:
    """Change the file and return the new configuration. Unchanged parts keep their comments and their form.

    Raises ConfigError and leaves the file as it was if it is invalid before or after the change, or cannot be written.
    """
    return _edit(path, lambda text: _changed(text, change), lambda _old, _new: True)


def set_value(path: str | Path | None, key: str | Sequence[str], value: Any) -> Config:
    """Set one key: ``"tools.timeout"``, or its parts if one contains a dot: ``("plugins", "trusted_projects", "/a.b")``.

    Raises the same errors as edit_config.
    """
    return edit_config(path, _setter(key.split(".") if isinstance(key, str) else list(key), value))


def set_values(path: str | Path | None, values: Sequence[tuple[Sequence[str], Any]]) -> Config:
    """Set these keys, and remove those whose value is UNSET: either all of them or none.

    Raises the same errors as edit_config, and NotSet.
    """

    def rewrite(text: str) -> str:
        for parts, value in values:
            text = _taken_out(text, parts, path) if value is UNSET else _changed(text, _setter(list(parts), value))
        return text

    return _edit(path, rewrite, lambda _old, _new: True)


def preview(
    path: str | Path | None,
    values: Sequence[tuple[Sequence[str], Any]],
    *,
    profile: str | None = None,
    project_dir: str | Path | None = None,
) -> Config:
    """Return the configuration with these keys set, without writing the file. Raises the same errors as load_config."""
    try:
        return load_config(path, profile=profile, project_dir=project_dir, instead=text_with(path, values))
    except BrokenConfig as error:
        raise _unwritten(error, config_path(path)) from None


def text_with(path: str | Path | None, values: Sequence[tuple[Sequence[str], Any]]) -> bytes:
    """Return the file's text with these keys set, or removed if the value is UNSET. Raises ConfigError."""
    data = read_bytes(real_path(config_path(path)))
    text = "" if data is None else data.decode("utf-8-sig")
    for parts, value in values:
        text = _changed(text, _remover(list(parts)) if value is UNSET else _setter(list(parts), value))
    return text.encode("utf-8")


def _remover(parts: Sequence[str]) -> Change:
    def change(document: Any) -> None:
        for part in parts[:-1]:
            document = document[part]
        del document[parts[-1]]

    return change


def _unwritten(error: BrokenConfig, path: Path) -> BrokenConfig:
    """Return the errors without line numbers, since the text with those lines was not written."""
    faults = [replace(fault, line=0) if fault.path == path else fault for fault in error.faults]
    return BrokenConfig(faults, "\n".join(filter(None, (error.advice, "nothing was changed"))))


def _setter(parts: Sequence[str], value: Any) -> Change:
    def change(document: Any) -> None:
        for part in parts[:-1]:
            if document.get(part) is None or isinstance(document[part], _Null):
                document[_quoted(part)] = {}
            document = document[part]
            if not isinstance(document, Mapping):
                raise ConfigError(f"{'.'.join(parts)}: {part} has no keys below it")
        document[_quoted(parts[-1])] = _quoted(value)

    return change


def parse_value(text: str, hint: Any) -> Any:
    """Read a value that a user typed for a key of the type ``hint``, as YAML. For a key that takes text, a value such as a number
    or a date is returned as the text that was typed.

    Raises ConfigError.
    """
    import yaml

    types = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    is_text = str in types or typing.get_origin(hint) is Literal
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        if is_text:
            return text
        raise ConfigError("the value is not valid YAML; quote it for the shell, such as '[a, b]'") from None
    if value is None and type(None) in types and text.strip() not in ("", "~"):
        return None
    return text if is_text and not isinstance(value, str) else value


def append_allowlist(path: str | Path | None, entry: AllowlistEntry) -> Config:
    """Add one entry to command_allowlist, unless it is already there. Raises the same errors as edit_config."""

    def change(document: Any) -> None:
        if document.get("command_allowlist") is None:
            document["command_allowlist"] = []
        links = {"links": list(entry.links)} if entry.links else {}
        words = {"argv": list(entry.argv), "cwd": entry.cwd, "version": entry.version, **links}
        document["command_allowlist"].append(_quoted(words))

    def only_added(old: Config, new: Config) -> bool:
        return new == replace(old, command_allowlist=(*old.command_allowlist, entry))

    current = load_config(path, profile="")
    return current if entry in current.command_allowlist else _edit(path, lambda text: _changed(text, change), only_added)


def remove_allowlist(path: str | Path | None, entry: AllowlistEntry) -> Config:
    """Remove an entry from command_allowlist. Raises the same errors as edit_config."""

    def change(document: Any) -> None:
        kept = load_config(path, profile="").command_allowlist
        for index in reversed([place for place, other in enumerate(kept) if other == entry]):
            del document["command_allowlist"][index]

    return _edit(path, lambda text: _changed(text, change), lambda _old, new: entry not in new.command_allowlist)


def unset_value(path: str | Path | None, key: str | Sequence[str]) -> Config:
    """Remove one key, or all keys below it, from the file, so that the default applies. Comments stay.

    Raises NotSet (a ConfigError) if the file does not set the key, and the same errors as edit_config.
    """
    parts = key.split(".") if isinstance(key, str) else list(key)
    dotted = ".".join(parts)

    def only_gone(old: Config, new: Config) -> bool:
        stays = dict(leaves(new))
        kept = {name: value for name, value in leaves(old) if name != dotted and not name.startswith(f"{dotted}.")}
        return all(name in stays and stays[name] == value for name, value in kept.items())

    return _edit(path, lambda text: _taken_out(text, parts, path), only_gone)


def _taken_out(text: str, parts: Sequence[str], path: str | Path | None) -> str:
    node = parse_node(text.encode("utf-8"), config_path(path))
    pair, in_block = _pair_at(node, parts)
    above = _pair_at(node, parts[:1])[0] if len(parts) == 2 else None
    alone = above[0] if above and len(getattr(above[1], "value", ())) == 1 else None
    if pair is None:
        raise NotSet(f"{'.'.join(parts)} is not set in {config_path(path)}")
    return _without_lines(text, pair[0], pair[1], alone) if in_block else _changed(text, _remover(parts))


def _edit(path: str | Path | None, rewrite: Callable[[str], str], meant: Callable[[Config, Config], bool]) -> Config:
    asked = config_path(path)
    refuse_below([asked.parent, real_path(asked).parent], "changing the configuration")
    target = real_path(asked)  # a link, as dotfile managers make it, stays a link
    if target.is_symlink():
        raise ConfigError(f"{asked} cannot be written: it is a loop of links; remove the links")
    with locked(target):
        data = read_bytes(target)
        old = Config(path=asked) if data is None else parse_config(data, asked)
        text = rewrite("" if data is None else data.decode("utf-8-sig"))
        try:
            new = parse_config(text.encode("utf-8"), asked)
        except BrokenConfig as error:
            raise _unwritten(error, asked) from None
        if not meant(old, new):
            raise ConfigError(f"{asked}: the edit would have changed other settings too; the file is unchanged")
        write_private(target, text)
    return new


def _changed(text: str, change: Change) -> str:
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = _round_trip()
    try:
        document, indent, offset = load_yaml_guess_indent(text) if text.strip() else (None, None, None)
        if indent is not None and offset:
            yaml.indent(sequence=indent, offset=offset)
        inner = re.search(_INNER, text)
        yaml.map_indent = len(inner[1]) if inner else 2
        document = yaml.load(text)
        comments = text if document is None else ""  # ruamel would lose a file of comments only
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


def _pair_at(node: Any, parts: Sequence[str]) -> tuple[Any, bool]:
    """Return (pair, in_block). ``pair`` is the key node and the value node, or None if the key is not set. ``in_block``: all
    sections above it are in block style, so that the key has lines of its own.
    """
    pair, in_block = None, True
    for part in parts:
        if node is None or not is_mapping(node):
            return None, False
        in_block = in_block and not node.flow_style
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        node = pair[1] if pair else None
    return pair, in_block


def _without_lines(text: str, key: Any, value: Any, alone: Any) -> str:
    """Return ``text`` without the lines of one key in block style. ruamel would also remove the comment above the next key.

    ``alone`` is the key node of the section, if no other key is in the section: then the section is removed too, unless comments
    are left in it.
    """
    lines = text.splitlines(keepends=True)
    first, end = key.start_mark.line, _last_line(value) + 1
    if alone is not None and alone.start_mark.line == first - 1 and not re.match(r"\s+#", "".join(lines[end : end + 1])):
        first -= 1
    return "".join([*lines[:first], *lines[end:]])


def _last_line(node: Any) -> int:
    """Return the last line of a node. YAML ends a block at the next token, after comments, so use its last item."""
    if node.id in ("mapping", "sequence") and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if node.id == "mapping" else last)
    mark = node.end_mark
    return int(mark.line - 1 if mark.column == 0 and mark.line > node.start_mark.line else mark.line)


@dataclass(frozen=True, slots=True)
class _Null:
    """An explicit ``null``: ruamel would write nothing, which is less clear (toolsets.enabled)."""

    text: str = "null"


def _round_trip() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import RoundTripConstructor
    from ruamel.yaml.representer import RoundTripRepresenter

    class Constructor(RoundTripConstructor):
        pass

    class Representer(RoundTripRepresenter):
        pass

    tag = "tag:yaml.org,2002:null"
    Constructor.add_constructor(tag, lambda _self, node: _Null(node.value) if node.value else None)
    Representer.add_representer(_Null, lambda self, null: self.represent_scalar(tag, null.text))
    yaml = YAML()
    yaml.Constructor, yaml.Representer = Constructor, Representer
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # no long line is folded
    return yaml


def _dump(yaml: Any, document: Any) -> str:
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _quoted(value: Any) -> Any:
    """Quote text at every level: ruamel writes YAML 1.2, where a bare ``no`` is text, but the reader uses YAML 1.1."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, str):
        return value if value.isidentifier() and value.lower() not in _WORDS else DoubleQuotedScalarString(value)
    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_quoted(item) for item in value]
    return _Null() if value is None else value


_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
