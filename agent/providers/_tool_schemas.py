"""Tools as providers accept them: one table of their limits, and schemas that are rewritten to keep within them.

A schema within the limits is sent unchanged. Arguments are always checked against the tool's own schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.providers._names import WireKeys, wire_key
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.contract.schema_inline import inlined
from toolcrib.contract.schema_view import CHOICES, SchemaView, subschemas, type_of
from toolcrib.contract.types import Json

_OLD_DRAFT = Regex(r"https?://json-schema\.org/draft(-0|/2019)")
_SHOWN = 800
_SIMPLE = frozenset(("type", "description", "properties", "required", "items", "enum", "anyOf", "additionalProperties"))
_NUMBERS = {"integer": "number"}
_PARTS = {"object": "properties", "array": "items"}


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Limits of a provider for the schema of a tool's parameters.

    ``keys`` matches the names of properties that the provider accepts; None if it accepts any. ``top`` are keywords that it
    refuses at the top of the schema, ``anywhere`` keywords that it refuses in every place.
    """

    keys: Regex[str] | None = None
    top: frozenset[str] = frozenset()
    anywhere: frozenset[str] = frozenset()


# From the providers' documentation and their servers' error messages. Other servers of a wire get the same schemas.
ANTHROPIC = ToolLimits(Regex(r"[a-zA-Z0-9_.-]{1,64}"), frozenset({"$ref", "anyOf", "oneOf", "allOf"}))
OPENAI = ToolLimits(top=frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"}), anywhere=frozenset({"allOf"}))
GEMINI = ToolLimits(Regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"), frozenset({"$ref"}))


def fitted(functions: Iterable[Mapping[str, Any]], limits: ToolLimits) -> tuple[list[dict[str, Any]], dict[str, WireKeys]]:
    """Return the functions with parameters that a wire accepts, and the renamed arguments of each function that has any."""
    made: list[dict[str, Any]] = []
    keys: dict[str, WireKeys] = {}
    for function in functions:
        function = dict(function)
        parameters = function.get("parameters")
        if isinstance(parameters, Mapping) and not _is_within(parameters, limits):
            view = SchemaView(parameters)
            names = _wire_keys(parameters, limits)
            function["parameters"] = _flattened(_renamed(inlined(view), names), limits)
            if names:
                keys[function["name"]] = WireKeys(view, names)
        made.append(function)
    return made, keys


def simplified(functions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the functions with schemas reduced to keywords that every provider accepts: types, names and values, no bounds."""
    made: list[Mapping[str, Any]] = []
    for function in functions:
        if isinstance(parameters := function.get("parameters"), Mapping):
            schema = inlined(SchemaView(parameters))
            for part in list(subschemas(schema)):
                _simplify(part)  # type: ignore[arg-type]  # ``inlined`` returns dicts
            function = {**function, "parameters": schema}
        made.append(function)
    return made


def _simplify(part: dict[str, Json]) -> None:
    """Reduce a schema to the keywords ``_SIMPLE``, in place.

    Add a type if it can be derived. Give an object ``properties``, and a list ``items``, if these are missing.
    """
    if "const" in part:
        part["enum"] = [part["const"]]
    if "anyOf" not in part and "oneOf" in part:
        part["anyOf"] = part["oneOf"]
    if isinstance(options := part.get("anyOf"), list):
        part["anyOf"] = [one for one in options if one != {"not": {}}]  # an alternative that allows nothing
    for key in part.keys() - _SIMPLE:
        del part[key]
    if isinstance(kinds := part.get("type"), list):
        _split(part, kinds)
    if "type" not in part and {"properties", "required"} & part.keys():
        part["type"] = "object"
    if "type" not in part and (values := part.get("enum")) and len(types := {type_of(one) for one in values}) == 1:
        part["type"] = types.pop()
    if part.get("type") in _PARTS:
        part.setdefault(_PARTS[part["type"]], {})
    _without_contradictions(part)


def _without_contradictions(part: dict[str, Json]) -> None:
    """Remove an enum's values of another type, in place; then remove enums and alternatives without any entry, and
    ``additionalProperties`` that allow any value.
    """
    if isinstance(kind := part.get("type"), str) and "enum" in part:
        part["enum"] = [one for one in part["enum"] if _NUMBERS.get(type_of(one), type_of(one)) == _NUMBERS.get(kind, kind)]
    for key, empty in (("enum", []), ("anyOf", []), ("additionalProperties", {}), ("additionalProperties", True)):
        if key in part and part[key] == empty:
            del part[key]


def _split(part: dict[str, Json], kinds: list[Json]) -> None:
    """Replace a list of types by alternatives of one type each, in place; the values of an enum need no type."""
    del part["type"]
    if "enum" in part or "anyOf" in part:
        return
    rest = {key: part.pop(key) for key in list(part) if key != "description"}
    made: list[dict[str, Json]] = [{"type": kind} if kind == "null" else {**rest, "type": kind} for kind in kinds]
    for one in made:
        _simplify(one)
    part.update(made[0] if len(made) == 1 else {"anyOf": made})


def _is_within(parameters: Mapping[str, Json], limits: ToolLimits) -> bool:
    """Return whether a provider accepts the schema unchanged."""
    if limits.top & parameters.keys() or _OLD_DRAFT.match(str(parameters.get("$schema"))):
        return False
    parts = list(subschemas(parameters))
    return not any(limits.anywhere & part.keys() for part in parts) and not _refused(parts, limits)


def _refused(parts: Iterable[Mapping[str, Json]], limits: ToolLimits) -> list[str]:
    """Return the names of properties that the provider refuses."""
    if limits.keys is None:
        return []
    return sorted(name for name in _names(parts) if not limits.keys.fullmatch(name))


def _names(parts: Iterable[Mapping[str, Json]]) -> set[str]:
    found = (part.get("properties") for part in parts)
    return {name for one in found if isinstance(one, Mapping) for name in one}


def _wire_keys(parameters: Mapping[str, Json], limits: ToolLimits) -> dict[str, str]:
    parts = list(subschemas(parameters))
    taken, made = _names(parts), {}
    for name in _refused(parts, limits):
        assert limits.keys is not None  # noqa: S101 - without it, no name is refused
        made[name] = wire_key(name, limits.keys, taken)
        taken.add(made[name])
    return made


def _renamed(schema: dict[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    """Rename properties in an inlined schema, in place, and return it."""
    for part in list(subschemas(schema)) if names else ():
        assert isinstance(part, dict)  # noqa: S101 - ``inlined`` returns dicts
        if isinstance(required := part.get("required"), list | tuple):
            part["required"] = [names.get(name, name) for name in required]
        for key in ("properties", "dependentRequired", "dependentSchemas"):
            if isinstance(named := part.get(key), Mapping):
                part[key] = {names.get(name, name): one for name, one in named.items()}
    return schema


def _flattened(schema: dict[str, Json], limits: ToolLimits) -> dict[str, Json]:
    """Return the schema without the keywords that are refused at the top.

    Properties of alternatives become properties of the whole schema; the description states the alternatives if they are short.
    """
    options = [one for key in CHOICES if key in limits.top for one in schema.get(key) or () if isinstance(one, dict)]
    kept = {key: value for key, value in schema.items() if key not in limits.top}
    if not options:
        return kept
    properties: dict[str, list[Json]] = {name: [one] for name, one in (kept.get("properties") or {}).items()}
    own = set(properties)
    for option in options:
        for name, one in (option.get("properties") or {}).items():
            known = properties.setdefault(name, [])
            if name not in own and one not in known:
                known.append(one)
    kept["properties"] = {name: ones[0] if len(ones) == 1 else {"anyOf": ones} for name, ones in properties.items()}
    needed = [name for name in properties if all(name in (one.get("required") or ()) for one in options)]
    kept["required"] = list(dict.fromkeys([*(kept.get("required") or ()), *needed]))
    if all(one.get("additionalProperties") is False for one in options):
        kept["additionalProperties"] = False
    rule = json.dumps({key: schema[key] for key in CHOICES if key in schema}, ensure_ascii=False)
    if len(rule) <= _SHOWN:
        kept["description"] = "\n".join(filter(None, [kept.get("description"), f"The arguments must also match {rule}"]))
    return kept
