"""Tool definitions as Gemini's functionDeclarations.

``parametersJsonSchema`` accepts nearly all of JSON Schema (see ``_tool_schemas``), so it is used. Older servers know only
``parameters``, which accepts a part of OpenAPI and refuses the whole request for any other key: for them the schema is
rewritten and loses detail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent.providers._http_session import function_of
from agent.providers._names import WireKeys, WireNames, wire_id
from toolcrib.contract.schema_inline import inlined
from toolcrib.contract.schema_view import SchemaView

_TAKEN = frozenset(
    {
        *("title", "description", "nullable", "enum", "maxItems", "minItems", "required", "minProperties", "maxProperties"),
        *("minLength", "maxLength", "pattern", "minimum", "maximum", "default"),
    }
)
_FORMATS = frozenset({"enum", "date-time", "int32", "int64", "float", "double"})
_BESIDE = ("description", "nullable", "title")
"""Keys that are allowed beside anyOf."""

_MAX_DEPTH = 32


class GeminiNames(WireNames):
    """Names for Gemini, which begin with a letter or an underscore."""

    def __init__(self, names: Iterable[str], keys: Mapping[str, WireKeys] | None = None) -> None:
        super().__init__(names, keys)
        for name, wire in list(self._to.items()):
            if re.match(r"[0-9-]", wire):
                made = f"_{wire}"
                while len(made) > 64 or made in self._back:
                    made = "_" + wire_id(f"{made}!")[1:]  # marked with a digest
                del self._back[wire]
                self._to[name], self._back[made] = made, name


def declarations(tools: Iterable[Mapping[str, Any]], names: WireNames, *, json_schema: bool) -> list[dict[str, Any]]:
    """Return the tools as function declarations. ``json_schema``: the server knows parametersJsonSchema."""
    declared = []
    for tool in tools:
        function = function_of(tool)
        made = {"name": names.wire(function["name"]), "description": function.get("description") or ""}
        schema = function.get("parameters")
        if isinstance(schema, Mapping) and json_schema:
            made["parametersJsonSchema"] = {key: value for key, value in schema.items() if key != "$schema"}
        elif isinstance(schema, Mapping) and schema.get("properties"):  # an object without properties is refused
            made["parameters"] = _plain(inlined(SchemaView(schema)), 0)
        declared.append(made)
    return declared


def _plain(schema: Any, depth: int) -> dict[str, Any]:
    """Return an inlined schema in the form of ``parameters``."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {"type": "object"}
    if "$ref" in schema:  # its target does not exist
        schema = {"type": "object", **schema}
    plain, choices = _kind(schema)
    if choices:
        made = [_plain(one, depth + 1) for one in choices]
        beside = {key: value for key, value in plain.items() if key in _BESIDE}
        return {**plain, **made[0]} if len(made) == 1 else {**beside, "anyOf": made}
    if "enum" in plain:
        plain["type"], plain["enum"] = "string", [str(one) for one in plain["enum"] if one is not None]
    if isinstance(schema.get("properties"), Mapping):
        plain.setdefault("type", "object")
        plain["properties"] = {name: _plain(one, depth + 1) for name, one in schema["properties"].items()}
    if "items" in schema or plain.get("type") == "array":
        plain["items"] = _plain(schema.get("items") or {"type": "string"}, depth + 1)
    if schema.get("format") in _FORMATS:
        plain["format"] = schema["format"]
    return plain


def _kind(schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the keys of a schema that are kept, and the alternative schemas in it."""
    plain = {key: value for key, value in schema.items() if key in _TAKEN}
    if "const" in schema:
        plain["enum"] = [schema["const"]]
    kinds = schema.get("type")
    named = [kinds] if isinstance(kinds, str) else list(kinds or ())
    others = [kind for kind in named if kind != "null"]
    choices = [one for key in ("anyOf", "oneOf") for one in schema.get(key) or ()]
    real = [one for one in choices if not (isinstance(one, Mapping) and one.get("type") == "null")]
    if len(others) < len(named) or len(real) < len(choices):
        plain["nullable"] = True
    if others:
        plain["type"] = others[0]
    if len(others) > 1 and not real:
        real = [{**schema, "type": kind} for kind in others]
    return plain, real
