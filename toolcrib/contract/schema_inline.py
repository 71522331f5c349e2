"""JSON Schemas written out without references, for error texts and for servers that do not follow references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.contract.schema_view import CHOICES, NAMED, SchemaView
from toolcrib.contract.types import Json

_MOST_PARTS = 2000
"""Maximum number of parts that are written out. Definitions that use each other could otherwise make millions of them."""
_DROPPED = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions", "$vocabulary"}
)
_SINGLE = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_LISTS = frozenset({*CHOICES, "prefixItems"})


def inlined(view: SchemaView) -> dict[str, Json]:
    """Return a schema in Draft 2020-12 without references and ``allOf``.

    Circular parts, and parts beyond the maximum number, keep only their types, title and description. A reference that leads
    nowhere stays.
    """
    return _Writer().schema(view, {})


class _Writer:
    def __init__(self) -> None:
        self._left = _MOST_PARTS

    def schema(self, view: SchemaView, within: Mapping[int, Json]) -> dict[str, Json]:
        self._left -= 1
        if self._left < 0 or within.keys() & view.sources.keys():
            return _cut(view)
        within = {**within, **view.sources}
        made: dict[str, Json] = {}
        for key, value in view.fields.items():
            if key not in _DROPPED:
                made[key] = self._value(view, key, value, within)
        return _modern(made)

    def _value(self, view: SchemaView, key: str, value: Json, within: Mapping[int, Json]) -> Json:
        if key in NAMED and isinstance(value, Mapping):
            return {name: self._part(view, one, within) for name, one in value.items()}
        if key in _SINGLE and isinstance(value, Mapping):
            return self._part(view, value, within)
        if (key in _LISTS or key == "items") and isinstance(value, list | tuple):
            return [self._part(view, one, within) for one in value]
        return value

    def _part(self, view: SchemaView, schema: Json, within: Mapping[int, Json]) -> Json:
        return self.schema(view.part(schema), within) if isinstance(schema, Mapping) else schema


def _cut(view: SchemaView) -> dict[str, Json]:
    kept = {key: view.fields[key] for key in ("title", "description") if key in view.fields}
    types = sorted(view.types)
    return {**({"type": types[0] if len(types) == 1 else types} if types else {}), **kept}


def _modern(schema: dict[str, Any]) -> dict[str, Json]:
    """Return a schema of an older draft in the form of Draft 2020-12."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    needs = schema.pop("dependencies", None)
    if isinstance(needs, Mapping):
        lists = {name: one for name, one in needs.items() if isinstance(one, list | tuple)}
        others = {name: one for name, one in needs.items() if name not in lists}
        schema |= {"dependentRequired": lists} if lists else {}
        schema |= {"dependentSchemas": others} if others else {}
    return schema
