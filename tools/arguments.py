"""Check arguments: convert them to the schema's types if that loses nothing, and explain errors with parts of the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn
from urllib.parse import urldefrag, urljoin

from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.regex import Regex
from toolcrib.contract.schema_inline import inlined
from toolcrib.contract.schema_view import DATA, NAMED, REFERENCES, TYPES, SchemaView
from toolcrib.contract.suggest import near
from toolcrib.contract.types import Json

_INTEGER = Regex(r"[+-]?\d{1,4000}")
_SNIPPET_CHARS = 800
_SHOWN_ERRORS = 3
_ALIASES: Mapping[str, str] = {"old_string": "old", "new_string": "new"}
"""Names that models know from other tools, with the schema's property of the same meaning. They are not shown, to keep schemas
small.
"""
_TOO_DEEP = "nested too deep; send a flatter value"
_LEADING = frozenset({*REFERENCES, "$schema"})
_USUAL_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_DRAFT = Regex(r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema")


def make_validator(schema: Mapping[str, Json]) -> Any:
    """Return a validator for a JSON Schema (Draft 2020-12 unless ``$schema`` differs). It never fetches anything.

    Raises ValueError or jsonschema_rs.ReferencingError for an invalid schema, and for one that refers to anything outside itself.
    """
    import jsonschema_rs

    return jsonschema_rs.validator_for(_plain(schema), retriever=_refuse)


def _refuse(uri: str) -> NoReturn:
    raise ValueError("only references within the schema are followed")


def check_schema(parameters: Mapping[str, Json]) -> tuple[str, str] | None:
    """Return None for a valid JSON Schema (Draft 2020-12 unless ``$schema`` differs), else (JSON path of the error, error).

    A reference out of the schema is an error wherever it is, as is a ``$schema`` that names no known draft.
    """
    import jsonschema_rs

    try:
        if (outer := _outer_reference(_plain(parameters))) is not None:
            return _json_path("$.parameters", outer[0]), outer[1]
        make_validator(parameters)
    except jsonschema_rs.ValidationError as error:
        return _json_path("$.parameters", error.instance_path), _fault(error.message, error.instance)
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        return "$.parameters", str(error)[:300]
    except RecursionError:
        return "$.parameters", "it is nested too deep"
    return None


def _outer_reference(schema: Json) -> tuple[Sequence[str | int], str] | None:
    """Return the path of the first reference out of the schema, with the error; None if there is none."""
    found = list(_references(schema, "", ()))
    ids = {"", *(uri for path, _, uri in found if path[-1] == "$id")}
    for path, reference, uri in found:
        if _DRAFT.fullmatch(uri):
            continue
        if path[-1] == "$schema":
            return path, f"{reference[:200]!r} is not a known draft of JSON Schema; leave it out, or use {_USUAL_DRAFT}"
        if uri not in ids:
            return path, (
                f"{reference[:200]!r} points outside the schema and is not fetched; "
                "put its target into $defs and refer to it as '#/$defs/NAME'"
            )
    return None


def _references(
    schema: Json, base: str, path: tuple[str | int, ...], *, names: bool = False
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield (path, reference, its URI without the fragment) of each reference and each ``$id``.

    ``names``: the keys of ``schema`` are not keywords but names of schemas, such as those of properties.
    """
    if isinstance(schema, list):
        for place, item in enumerate(schema):
            yield from _references(item, base, (*path, place))
    if not isinstance(schema, dict):
        return
    if not names:
        own = next((schema[key] for key in ("$id", "id") if isinstance(schema.get(key), str)), "")  # the second in Draft 4
        base = urldefrag(urljoin(base, own)).url
        yield (*path, "$id"), own, base
    for key, value in schema.items():
        if not names and key in _LEADING and isinstance(value, str):
            yield (*path, key), value, urldefrag(urljoin(base, value)).url
        elif names or key not in DATA:
            yield from _references(value, base, (*path, key), names=not names and key in NAMED)


def _fault(message: str, found: Json) -> str:
    """Return the message about an invalid schema; for an unknown type, it suggests a similar type or lists the valid types."""
    if not isinstance(found, str) or "'anyOf'" not in message:  # in the meta-schema only ``type`` has anyOf
        return message[:300]
    alike = near(found, TYPES)
    return f"{found[:80]!r} is not a type" + (f"; did you mean {alike[0]!r}?" if alike else f": use {', '.join(TYPES)}")


def misfit(schema: Mapping[str, Json], value: Json) -> str:
    """Return how ``value`` violates a JSON Schema, with the JSON path of each error; "" if it fits. Nothing is converted.

    For an invalid schema, every value has an error.
    """
    import jsonschema_rs

    try:
        validator = make_validator(schema)
        errors = [] if validator.is_valid(value) else list(validator.iter_errors(value))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        return f"$: it can't be checked ({str(error)[:200]})"
    return " | ".join(f"{_json_path('$', error.instance_path)}: {error.message[:200]}" for error in errors[:_SHOWN_ERRORS])


def _plain(schema: Json) -> Json:
    """Return a copy made of plain dicts and lists, because the library accepts no other mappings, such as read-only schemas."""
    if isinstance(schema, Mapping):
        return {key: _plain(item) for key, item in schema.items()}
    return [_plain(item) for item in schema] if isinstance(schema, list | tuple) else schema


def not_json(error: Exception) -> str:
    """Return the reason why arguments that raised ``error`` are not JSON, and what to send instead."""
    return _TOO_DEEP if isinstance(error, RecursionError) else f"not JSON: {error}; send plain JSON values"


def own_copy(args: dict[str, Json]) -> dict[str, Json]:
    """Return a copy that shares no list or dict with ``args``. Raises InvalidArguments if it is nested too deep."""
    own = args.copy()
    try:
        for key, value in args.items():
            if type(value) in _CONTAINERS:
                own[key] = _copied(value)
    except RecursionError:
        raise InvalidArguments(_TOO_DEEP) from None
    return own


_CONTAINERS = frozenset({dict, list})


def _copied(value: Json) -> Json:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else value


class ArgumentCheck:
    """Validator of one tool's arguments. Built once for a tool, then called for each call."""

    __slots__ = ("_aliases", "_integers", "_validator", "_view")

    def __init__(self, parameters: Mapping[str, Json]) -> None:
        self._validator = make_validator(parameters)
        self._view = view = SchemaView(parameters, matches=_matches)
        names = view.names
        aliases = {} if view.fields.get("additionalProperties") is not False else _ALIASES
        self._aliases = {name: own for name, own in aliases.items() if own in names and name not in names}
        self._integers = tuple(name for name in names if _is_whole(view.property(name)))

    def __call__(self, args: Json) -> dict[str, Json]:
        """Return the arguments for the handler; ``args`` itself is never changed. Raises InvalidArguments.

        None and an empty string mean no arguments (002-35). A JSON text of an object is parsed. Strings become numbers, booleans,
        lists or objects only if the schema accepts no string and the text is exactly such a value ("42" -> 42). A name of
        ``_ALIASES`` is replaced with the schema's property if that is missing: gates and handlers only see the schema's names. A
        null that the schema does not accept is left out if its property is optional.
        """
        checked = args if type(args) is dict else self._object(args)
        try:
            if not self._validator.is_valid(checked):
                checked = _coerce(self._renamed(checked), self._view)
                if not self._validator.is_valid(checked):
                    raise InvalidArguments(self._explain(checked))
        except RecursionError:
            raise InvalidArguments(_TOO_DEEP) from None
        except ValueError as error:  # the checker raises it for a value that it cannot even read
            raise InvalidArguments(not_json(error)) from error
        for name in self._integers:
            value = checked.get(name)
            if type(value) is float:  # 3.0 is an integer to JSON Schema, but not to range()
                checked = {**checked, name: int(value)}
        return checked

    def _renamed(self, args: dict[str, Json]) -> dict[str, Json]:
        names = {name: own for name, own in self._aliases.items() if name in args and own not in args}
        return {names.get(name, name): value for name, value in args.items()} if names else args

    def _object(self, args: Json) -> dict[str, Json]:
        if args is None or args == "":
            return {}
        if isinstance(args, str):
            try:
                args = json.loads(args)
            except RecursionError:
                raise InvalidArguments(_TOO_DEEP) from None
            except ValueError as error:
                raise InvalidArguments(f"not JSON: {error}; expected {_snippet(self._view)}") from error
        if isinstance(args, Mapping):
            return dict(args)
        kind = "null" if args is None else type(args).__name__
        raise InvalidArguments(f"expected an object, got {kind}; expected {_snippet(self._view)}")

    def _explain(self, args: dict[str, Json]) -> str:
        said: list[str] = []
        told: set[str] = set()
        errors = list(self._validator.iter_errors(args))
        for error in errors[:_SHOWN_ERRORS]:
            path = list(error.instance_path)
            where = (_json_path("", path) or "arguments").lstrip(".")
            expected = f"; expected {_snippet(self._view.at(path))}"
            again = where in told  # the expectation at one path is reported once
            said.append(f"{where}: {error.message[:200]}{'' if again else self._hint(args, path) + expected}")
            told.add(where)
        if len(errors) > _SHOWN_ERRORS:
            said.append(f"and {len(errors) - _SHOWN_ERRORS} more")
        return " | ".join(said)

    def _hint(self, args: dict[str, Json], path: Sequence[str | int]) -> str:
        if path:
            return ""
        known = self._view.names
        for name in args:
            if name not in known and (close := near(name, [other for other in known if other not in args])):
                return f" ({name}: did you mean {close[0]!r}?)"
        return ""


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name, as the checker does: with limited backtracking, unlike Python's ``re``."""
    try:
        return bool(make_validator({"pattern": pattern}).is_valid(name))
    except ValueError:
        return False


def _snippet(view: SchemaView) -> str:
    text = json.dumps(inlined(view), ensure_ascii=False)
    return text if len(text) <= _SNIPPET_CHARS else text[:_SNIPPET_CHARS] + " ..."


def _is_whole(view: SchemaView | None) -> bool:
    """Return whether a number in this place must be an integer."""
    return view is not None and "integer" in view.types and "number" not in view.types


def _json_path(root: str, path: Iterable[str | int]) -> str:
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _coerce(value: Json, view: SchemaView | None) -> Json:
    if view is None:
        return value
    if isinstance(value, str):
        value = _converted(value, view)
    if isinstance(value, Mapping):
        among = view.fitting(value)
        required = {name for one in (view, *among) for name in one.required}
        parts = {key: view.property(key, among) for key in value}
        return {
            key: _coerce(item, parts[key])
            for key, item in value.items()
            if item is not None or key in required or key not in view.names or _takes_null(parts[key])
        }
    if isinstance(value, list):
        among = view.fitting(value)
        return [_coerce(item, view.item(index, among)) for index, item in enumerate(value)]
    return value


def _takes_null(view: SchemaView | None) -> bool:
    return view is None or not view.types or "null" in view.types


def _converted(text: str, view: SchemaView) -> Json:
    """Return the value that ``text`` spells if the schema accepts that value but not the text; else the text."""
    if view.values:
        value = _from_text(text, view.types - {"string"})
        return value if view.allows(value) and not view.allows(text) else text
    return text if not view.types or "string" in view.types else _from_text(text, view.types)


def _from_text(text: str, types: Set[str]) -> Json:
    """Return the value in the text, if it has one of the types; else the text."""
    for kind, read in _READERS:
        if kind in types and (value := read(text.strip())) is not _UNREAD:
            return value
    return text


_UNREAD: Any = object()


def _read_integer(text: str) -> Any:
    return int(text) if _INTEGER.fullmatch(text) else _UNREAD


def _read_json(*kinds: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError:
            return _UNREAD
        return value if type(value) in kinds else _UNREAD

    return read


_READERS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("integer", _read_integer),
    ("number", _read_json(int, float)),
    ("boolean", lambda text: {"true": True, "false": False}.get(text.lower(), _UNREAD)),
    ("null", lambda text: None if text == "null" else _UNREAD),
    ("array", _read_json(list)),
    ("object", _read_json(dict)),
)
