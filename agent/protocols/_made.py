"""Calls from the blocks of a reply: names, arguments in the types of the tool's schema, and faults that show the correct form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agent.protocols.repair import read_json, shown
from toolcrib.contract.dataclass import replace
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import Json, ToolCall

UNREADABLE = "INVALID_JSON"
"""Name of the only argument of an unreadable call, whose value is the raw text."""

CUT_OFF = "cut off before its end, so it was not run; call again with less content"
CUT_REPLY = "the reply with this call was cut off, so none of its calls was run; call again, with less in one reply"
"""Fault of a complete call in an incomplete reply: the missing text may show that the call is an example (ADR 0032)."""
_NAMES = ("name", "tool_name", "tool", "function")
_ARGS = ("arguments", "args", "parameters", "input")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_NOT_ON_WIRES = re.compile(r"[^a-zA-Z0-9_-]")
_BETWEEN = re.compile(r"[\s,;]+")
_BESIDE = frozenset(("type", "id", "index", "call_id", "tool_call_id", "thought", "reasoning", *_NAMES, *_ARGS))
"""Fields of a call itself. Any other field is an argument in the wrong place, or the object is not a call."""
_SCHEMA_FIELDS = frozenset(("type", "properties", "required", "additionalProperties", "description", "$schema", "title"))
_CALL_TYPES = (None, "function", "function_call", "tool", "tool_call", "tool_use")
_WRAPPERS = ("tool_calls", "function_call", "tool_call")
_NO_ARGUMENTS = object()
_FENCED = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)


class Definitions:
    """The tools of a conversation, from their schemas; each bare or in its ``{"type": "function"}`` wrapper."""

    def __init__(self, definitions: Sequence[Mapping[str, Json]] = ()) -> None:
        self.tools: dict[str, Mapping[str, Json]] = {}
        self._views: dict[str, SchemaView] = {}
        for one in definitions:
            inner = one.get("function")
            function = inner if isinstance(inner, Mapping) else one
            if isinstance(name := function.get("name"), str):
                self.tools[name] = function
        self._by_wire_name = self._wire_names()

    def _wire_names(self) -> dict[str, str]:
        """Return the tools whose names native APIs reject, by their names in these APIs: ``a_b`` for ``a.b``. Models use both."""
        made = [(_NOT_ON_WIRES.sub("_", name), name) for name in self.tools if _NOT_ON_WIRES.search(name)]
        counts = Counter(wire for wire, _ in made)
        return {wire: name for wire, name in made if counts[wire] == 1 and wire not in self.tools}

    @property
    def names(self) -> Collection[str]:
        """The names that a model may write: those of the tools, and those in native APIs if they differ and are unique."""
        return (*self.tools, *self._by_wire_name)

    def __contains__(self, name: object) -> bool:
        return name in self.tools or name in self._by_wire_name

    def __bool__(self) -> bool:
        return bool(self.tools)

    def own(self, name: str) -> str:
        """Return a tool's own name: ``a.b`` for ``a_b``, its name in native APIs, and ``weather`` for ``weather.weather``."""
        if name in self.tools:
            return name
        space, _, bare = name.rpartition(".")
        return bare if space == bare and bare in self.tools else self._by_wire_name.get(name, name)

    def parameters(self, name: str) -> Mapping[str, Json]:
        schema = self.tools.get(self.own(name), {}).get("parameters")
        return schema if isinstance(schema, Mapping) else {}

    def view(self, name: str) -> SchemaView:
        """Return the resolved view of a tool's parameters."""
        if name not in self._views:
            self._views[name] = SchemaView(self.parameters(name))
        return self._views[name]

    def keys(self, name: str) -> tuple[str, ...]:
        """Return the names of the tool's arguments, as far as its schema lists them."""
        return tuple(self.view(name).names)

    def fitted(self, calls: Sequence[ToolCall], *, unwrap: bool = True) -> list[ToolCall]:
        """Return the calls with the tools' own names.

        ``unwrap``: also remove a needless ``{"arguments": {...}}`` around the arguments.
        """
        named = [replace(call, name=name) if (name := self.own(call.name)) != call.name else call for call in calls]
        return [self._unwrapped(call) for call in named] if unwrap else named

    def _unwrapped(self, call: ToolCall) -> ToolCall:
        if call.fault is not None or len(call.args) != 1 or call.name not in self.tools:
            return call
        ((key, inner),) = call.args.items()
        if key not in _ARGS or self.takes(call.name, key):
            return call
        if isinstance(inner, str) and inner.lstrip()[:1] == "{":
            try:
                inner = read_json(inner)
            except ValueError:
                return call
        fits = isinstance(inner, dict) and all(self.takes(call.name, one) for one in inner)
        return replace(call, args=inner) if fits else call

    def takes(self, name: str, key: str) -> bool:
        """Return whether the tool's schema names this argument."""
        return key in self.view(name).names

    def lacks(self, name: str, args: Mapping[str, Json]) -> bool:
        """Return whether an argument that the tool requires is missing."""
        return any(key not in args for key in self.view(name).required)

    def takes_more(self, name: str, args: Mapping[str, Json]) -> bool:
        """Return whether the tool has more arguments than given, or may have more because its schema does not list them."""
        view = self.view(name)
        return "properties" not in view.fields or any(key not in args for key in view.names)

    def schema(self, name: str, key: str) -> SchemaView:
        """Return the view of an argument's schema; empty if unknown."""
        return self.view(name).property(key) or ANY


ANY = SchemaView({})
"""The view of a schema that accepts everything."""


def faulty(name: str, raw: str, fault: str) -> ToolCall:
    """Return a call that gets a fault as its result and is never run."""
    return ToolCall(ToolCall.new_id(), name, {UNREADABLE: raw}, f"{fault}. It was: {shown(raw.strip())}")


def cut_short(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls of a cut-off reply. None of them runs; complete ones keep their arguments."""
    return [replace(call, fault=call.fault or CUT_REPLY) for call in calls]


def made(name: Any, args: Json, raw: str) -> ToolCall:
    """Return a call of ``name``; faulty if name or arguments are invalid (000-28)."""
    if not isinstance(name, str) or not name.strip():
        return faulty("", raw, "the call names no tool")
    if args is None or args == "":
        args = {}
    if isinstance(args, str):
        try:
            args = read_json(args)
        except ValueError as error:
            return faulty(name.strip(), raw, f"the arguments are not valid JSON ({error}); send one JSON object")
    if not isinstance(args, dict):
        return faulty(name.strip(), raw, f"the arguments are not a JSON object but {type(args).__name__}; send one JSON object")
    return ToolCall(ToolCall.new_id(), name.strip(), args)


def from_json(value: Json, raw: str) -> Iterator[ToolCall]:
    """Yield the calls in a JSON value: one, or a list of them, in any of the usual shapes."""
    value = _unwrapped(value)
    if isinstance(value, list):
        for one in value:
            yield from from_json(one, raw) if not isinstance(one, list) else iter((faulty("", raw, "a list is not a call"),))
        return
    if not isinstance(value, dict):
        yield faulty("", raw, 'a call is a JSON object, such as {"name": "tool_name", "arguments": {...}}')
        return
    name, args = _parts(value)
    if twice := _given_twice(value):
        yield faulty(str(name or ""), raw, f"{twice} are both given and differ; send one of them")
    elif args is _NO_ARGUMENTS and isinstance(name, str) and (others := value.keys() - _BESIDE):
        fields = ", ".join(sorted(others))
        yield faulty(name, raw, f'its arguments must be in an object named "arguments"; these are outside it: {fields}')
    elif _is_schema(args):
        yield faulty(str(name or ""), raw, "its arguments are the tool's schema; send the values themselves")
    else:
        yield made(name, {} if args is _NO_ARGUMENTS else args, raw)


def _given_twice(value: dict[str, Json]) -> str:
    """Return the fields that name the tool, or its arguments, in conflicting ways; "" for none."""
    inner = value.get("function")
    both = [*value.items(), *(inner.items() if isinstance(inner, dict) else ())]
    for fields in (_NAMES, _ARGS):
        given = [(key, one) for key, one in both if key in fields and one is not None and one is not inner]
        if any(one != given[0][1] for _, one in given):
            return " and ".join(key for key, _ in given)
    return ""


def is_record(value: Json) -> bool:
    """Return whether JSON has more fields than a call: then it is a record of a call, or describes a tool."""
    value = _unwrapped(value)
    ones = value if isinstance(value, list) else [value]
    return any(isinstance(one, dict) and len(one) > 1 and bool(one.keys() - _BESIDE) for one in ones)


def is_data(value: Json, known: Definitions) -> bool:
    """Return whether JSON names tools without calling them: no arguments, and no field that the tool would accept.

    In addition, each object has other fields than a call or a type that calls do not have, or an object in a list has only the
    name of a tool that requires arguments.
    """
    value = _unwrapped(value)
    ones = value if isinstance(value, list) else [value]
    for one in ones:
        name, args = _parts(one) if isinstance(one, dict) else (None, None)
        if args is not _NO_ARGUMENTS or not isinstance(one, dict) or any(known.takes(str(name), key) for key in one):
            return False
    if isinstance(value, list) and any(len(one) == 1 and known.lacks(str(_parts(one)[0]), {}) for one in ones):
        return True
    return all(one.keys() - _BESIDE or one.get("type") not in _CALL_TYPES for one in ones)


def _is_schema(args: Json) -> bool:
    """Return whether a model returned the parameters of the tool's definition as its arguments."""
    if not isinstance(args, dict) or args.get("type") != "object" or not args.keys() <= _SCHEMA_FIELDS:
        return False
    return isinstance(args.get("properties"), dict)


def _unwrapped(value: Json) -> Json:
    """Return the calls in ``{"tool_calls": [...]}``, which may have up to two other fields; return any other value unchanged."""
    if isinstance(value, dict) and not value.keys() & {*_NAMES, *_ARGS}:
        inner = [value[key] for key in _WRAPPERS if isinstance(value.get(key), (list, dict))]
        if len(inner) == 1 and len(value) <= 3:
            return inner[0]
    return value


def looks_called(value: Json, known: Definitions) -> bool:
    """Return whether untagged JSON is a call: of a known tool, or, if no tools are known, with arguments."""
    value = _unwrapped(value)
    ones = value if isinstance(value, list) else [value]
    for one in ones:
        if not isinstance(one, dict):
            return False
        name, args = _parts(one)
        if not isinstance(name, str) or (name not in known if known else args is _NO_ARGUMENTS):
            return False
    return bool(ones)


def spells_calls(value: Json, known: Definitions) -> list[str]:
    """Return the names of the calls in JSON, if each is of a known tool and has arguments; none otherwise."""
    names = []
    value = _unwrapped(value)
    if isinstance(value, dict) and value.keys() <= {"thought", "action"}:
        value = value.get("action")
    for one in value if isinstance(value, list) else [value]:
        name, args = _parts(one) if isinstance(one, dict) else (None, None)
        if not isinstance(name, str) or name not in known or not isinstance(args, (dict, str)):
            return []
        names.append(name)
    return names


def _parts(value: dict[str, Json]) -> tuple[Any, Any]:
    function = value.get("function")
    if isinstance(function, dict) and "name" not in value:
        value = function
    name = next((value[key] for key in _NAMES if key in value), None)
    args = next((value[key] for key in _ARGS if key in value), _NO_ARGUMENTS)
    if name is None and args is _NO_ARGUMENTS and len(value) == 1:
        ((only, inner),) = value.items()
        if isinstance(inner, dict) and only not in (*_NAMES, *_ARGS):
            return only, inner  # Apertus: {"name": {arguments}}
    return name, args


def unfenced(text: str) -> str:
    """Return ``text`` without a Markdown fence around all of it."""
    text = text.strip()
    match = _FENCED.fullmatch(text)
    return match[1] if match else text


def between(text: str, at: int) -> int:
    """Return the offset after the separators between two calls: blanks, a comma, a semicolon."""
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def typed(text: str, schema: SchemaView) -> Json:
    """Return an argument in bare text as a value of the schema's type; a string if the schema allows one.

    If the schema allows strings and also null, lists or objects, a text in the form of one of these is read as such. With an
    empty schema, only a text that looks like a number, a literal, a list or an object is converted. If the schema lists fixed
    values, the result is the fixed value that the text spells.
    """
    types = schema.types
    bare = text.strip()
    if schema.values:
        return next((one for one in (text, bare, _read(text)) if schema.allows(one)), text)
    if not types:
        return _read(text) if schema.fields or _is_value(bare) else text
    if "string" in types:
        if bare == "null" and "null" in types:
            return None
        if (bare[:1] == "{" and "object" in types) or (bare[:1] == "[" and "array" in types):
            return _read(text)
        return text
    return _read(text)


def takes_list(schema: SchemaView) -> bool:
    """Return whether a list fits the schema and a string does not."""
    return "array" in schema.types and "string" not in schema.types


def _read(text: str) -> Json:
    try:
        return read_json(text)
    except ValueError:
        return text  # validation against the tool's schema will report the problem


def _is_value(text: str) -> bool:
    return text[:1] in ("{", "[") or text in ("true", "false", "null", "True", "False", "None") or bool(_NUMBER.fullmatch(text))
