"""The text of config.example.yaml, generated from the schema."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator
from typing import Any

from agent.config._keys import schema_of
from agent.config._schema import Config

_HEAD = """\
# All settings of toolcrib, each with its default.
# The file is $XDG_CONFIG_HOME/toolcrib/config.yaml (~/.config/toolcrib/config.yaml), or the file that $TOOLCRIB_CONFIG names.
# A line that begins with "#" and no space is a setting: remove the "#" to change it.
# If the file has any error, toolcrib reports the error with its line and uses no setting of the file until it is fixed.
"""


def example_text() -> str:
    """Return the text of config.example.yaml: every key explained, at its default, commented out."""
    return _HEAD + "\n" + "\n".join(_section(Config, "")) + "\n"


def _section(cls: type[Any], indent: str) -> Iterator[str]:
    hints, fields = schema_of(cls)
    for number, (name, entry) in enumerate(fields.items()):
        if number:
            yield ""
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            yield f"{indent}# {_title(hint)}:"
            yield f"{indent}{name}:"
            yield from _section(typing.cast("type[Any]", hint), f"{indent}  ")
        else:
            yield from (f"{indent}# {line}" for line in entry.metadata["doc"].splitlines())
            yield f"{indent}#{name}: {json.dumps(_default(entry))}"


def _title(cls: Any) -> str:
    return str(cls.__doc__).strip()


def _default(entry: Any) -> Any:
    value = entry.default if entry.default is not dataclasses.MISSING else entry.default_factory()
    return int(value) if isinstance(value, float) and value.is_integer() else value
