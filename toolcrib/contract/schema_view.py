"""Resolved views of JSON Schemas: references are followed within the schema, ``allOf`` is merged, nothing is ever fetched.

The conversion of arguments, error texts and the adaptation to providers' limits all use these views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product, zip_longest
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from toolcrib.contract.types import Json

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose values map names to schemas."""
DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""
CHOICES = ("anyOf", "oneOf")
_ANNOTATIONS = ("description", "title", "default", "examples")
_WITHIN = frozenset({"additionalItems", "additionalProperties", "contains", "items", "propertyNames"})
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
Matches: TypeAlias = Callable[[str, str], bool]
_MOST_CHOICES = 256
"""Maximum number of a schema's alternatives; if there are more, none is read. An alternative may itself have a quarter as many,
and so on.
"""
_MOST_KNOWN = 256
_NOTHING: Mapping[str, Json] = {"not": {}}


class SchemaView:
    """A schema, resolved one level deep; its parts are resolved on demand, so that circular schemas have views too.

    ``fields`` are its keywords, with those of references and ``allOf`` merged in. ``sources`` are the schema itself, and the
    targets of its references. Threads may share a view.
    """

    __slots__ = ("_above", "_choices", "_document", "_known", "_types", "_values", "fields", "sources")

    def __init__(
        self,
        schema: Json,
        document: _Document | None = None,
        *,
        matches: Matches | None = None,
        above: Sequence[SchemaView] = (),
    ) -> None:
        """Resolve a schema. ``matches`` checks whether a pattern matches a name; without it, patternProperties have no views.

        ``above`` are the views that have this one as an alternative.
        """
        self._document = document or _Document(schema, matches)
        sources: dict[int, Json] = {id(schema): schema}
        self.fields: Mapping[str, Json] = self._document.flat(schema, sources)
        self.sources: Mapping[int, Json] = sources
        self._above = above
        self._known: dict[str | int, SchemaView | None] = {}
        self._choices: dict[str, list[SchemaView]] = {}
        self._types: frozenset[str] | None = None
        self._values: Sequence[Json] | None = None

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that a value may have; empty if it may have any."""
        if self._types is None:
            self._types = _common_types(self._narrowings())
        return self._types

    def _narrowings(self) -> Iterator[set[str]]:
        yield set(_names(self.fields.get("type")))
        if "const" in self.fields:
            yield {type_of(self.fields["const"])}
        yield {type_of(one) for one in _listed(self.fields.get("enum"))}
        for key in CHOICES:
            found = [one.types for one in self.choices(key)]
            yield {name for one in found for name in one} if all(found) else set()

    def choices(self, *keys: str) -> list[SchemaView]:
        """Return the views of the alternatives in these keywords: anyOf and oneOf if none is given.

        An alternative that leads back to the schema itself adds nothing and is left out: otherwise, alternatives would never end.
        """
        found: list[SchemaView] = []
        for key in keys or CHOICES:
            if key not in self._choices:
                self._choices[key] = list(self._alternatives(key))
            found += self._choices[key]
        return found

    def _alternatives(self, key: str) -> Iterator[SchemaView]:
        above, listed = (*self._above, self), _listed(self.fields.get(key))
        if len(listed) > _MOST_CHOICES >> 2 * len(self._above):
            yield SchemaView({}, self._document)  # too many to read: a value may be anything
            return
        for schema in listed:
            view = SchemaView(schema, self._document, above=above)
            is_above = any(view.sources.keys() & other.sources.keys() for other in above)
            if not is_above and all(view.choices(one) for one in CHOICES if view.fields.get(one)):
                yield view

    @property
    def values(self) -> Sequence[Json]:
        """The only values that are allowed, from const, enum or alternatives that all list their values; empty if other values
        may be allowed.
        """
        if self._values is None:
            self._values = self._listed_values()
        return self._values

    def _listed_values(self) -> Sequence[Json]:
        if "const" in self.fields:
            return [self.fields["const"]]
        if "enum" in self.fields:
            return _listed(self.fields["enum"])
        found = [one.values for one in self.choices()]
        return [value for one in found for value in one] if all(found) else []

    def allows(self, value: Json) -> bool:
        """Return whether ``value`` is one of ``values``."""
        return any(_is_same(one, value) for one in self.values)

    @property
    def names(self) -> list[str]:
        """The names of the properties, those of alternatives included."""
        found = dict.fromkeys(_mapped(self.fields.get("properties")))
        for one in self.choices():
            found.update(dict.fromkeys(_mapped(one.fields.get("properties"))))
        return list(found)

    @property
    def required(self) -> Sequence[str]:
        """The names of properties that a value must have."""
        return [one for one in _listed(self.fields.get("required")) if isinstance(one, str)]

    def property(self, name: str, among: Sequence[SchemaView] | None = None) -> SchemaView | None:
        """Return the view of a property, None if the schema does not describe it.

        ``among`` are the alternatives that count, all of them unless given; see ``fitting``.
        """
        if among is not None:
            return self._property(name, among)
        if name not in self._known:
            found = self._property(name, self.choices())
            if len(self._known) >= _MOST_KNOWN:
                return found
            self._known[name] = found
        return self._known[name]

    def _property(self, name: str, among: Sequence[SchemaView]) -> SchemaView | None:
        parts: list[Json] = []
        if name in (own := _mapped(self.fields.get("properties"))):
            parts.append(own[name])
        patterns, matches = _mapped(self.fields.get("patternProperties")), self._document.matches
        parts += [one for pattern, one in patterns.items() if matches is not None and matches(pattern, name)]
        is_other = not parts and (not patterns or matches is not None)
        if is_other and isinstance(more := self.fields.get("additionalProperties"), Mapping):
            parts.append(more)
        return self._joined(parts, [one.property(name) for one in among])

    def item(self, index: int, among: Sequence[SchemaView] | None = None) -> SchemaView | None:
        """Return the view of a list's item, as ``property`` does."""
        items: Json = self.fields.get("items")
        first = _listed(self.fields.get("prefixItems"))
        if isinstance(items, list):  # before Draft 2020-12
            first, items = items, self.fields.get("additionalItems")
        part = first[index] if index < len(first) else items
        parts = [part] if isinstance(part, Mapping) else []
        return self._joined(parts, [one.item(index) for one in (self.choices() if among is None else among)])

    def fitting(self, value: Json) -> list[SchemaView]:
        """Return the alternatives that ``value`` may be meant for, by its type, its constants and the names in it."""
        kind = type_of(value)
        options = [one for one in self.choices() if not one.types or kind in one.types]
        if not isinstance(value, Mapping):
            return options
        for closer in (_has_constants, _has_required, _has_no_other):
            options = [one for one in options if closer(one, value)] or options
        return options

    def at(self, path: Iterable[str | int]) -> SchemaView:
        """Return the view of the value at ``path``, or of the last value on that path that the schema describes."""
        view = self
        for part in path:
            inner = view.item(part) if isinstance(part, int) else view.property(part)
            if inner is None:
                break
            view = inner
        return view

    def part(self, schema: Json) -> SchemaView:
        """Return the view of a schema in ``fields``."""
        return self._document.view(schema)

    def _joined(self, parts: list[Json], options: Sequence[SchemaView | None]) -> SchemaView | None:
        """Return the view of a part that all of ``parts`` and one of ``options`` describe."""
        if options and all(one is not None for one in options):
            parts = [*parts, {"anyOf": [one.fields for one in options if one is not None]}]
        elif len(parts) == 1:
            return self.part(parts[0])
        return SchemaView({"allOf": parts}, self._document) if parts else None


class _Document:
    """A whole schema: finds the targets of references, and keeps the views of its parts."""

    def __init__(self, root: Json, matches: Matches | None) -> None:
        self._root = root
        self.matches = matches
        self._views: dict[int, SchemaView] = {}
        self._bases: dict[int, str] = {}
        self._targets: dict[str, Json] = {}
        self._index(root, "")
        draft = root.get("$schema") if isinstance(root, Mapping) else None
        self._alone = isinstance(draft, str) and "json-schema.org/draft-0" in draft
        """True before Draft 2019-09: keywords next to ``$ref`` do not count, except annotations and ``allOf``."""

    def view(self, schema: Json) -> SchemaView:
        """Return the view of a part. It is kept, unless the part was made by merging."""
        known = self._views.get(id(schema))
        if known is None:
            known = SchemaView(schema, self)
            if id(schema) in self._bases:
                self._views[id(schema)] = known
        return known

    def flat(self, schema: Json, sources: dict[int, Json]) -> Mapping[str, Json]:
        """Return the keywords of a schema, with those of its references and of ``allOf``; add their targets to ``sources``."""
        if not isinstance(schema, Mapping):
            return _NOTHING if schema is False else {}
        found: Mapping[str, Json] = {key: one for key, one in schema.items() if key not in REFERENCES and key != "allOf"}
        for key in REFERENCES:
            reference = schema.get(key)
            if not isinstance(reference, str):
                continue
            target = self._find(reference, schema)
            if target is None:
                found = {**found, key: reference}  # the reference leads nowhere
            if target is None or id(target) in sources:
                continue
            if self._alone:
                found = {key: one for key, one in found.items() if key in _ANNOTATIONS}
            sources[id(target)] = target
            found = _merged(found, self.flat(target, sources))
        for one in _listed(schema.get("allOf")):
            if id(one) not in sources:
                found = _merged(found, self.flat(one, sources))
        return found

    def _find(self, reference: str, near: Mapping[str, Json]) -> Json:
        """Return the schema that a reference leads to, None if it leads out of the whole schema or nowhere."""
        uri, fragment = urldefrag(urljoin(self._bases.get(id(near), ""), reference))
        if fragment and not fragment.startswith("/"):
            return self._targets.get(f"{uri}#{fragment}")
        found: Json = self._targets.get(uri)
        for step in unquote(fragment).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list | tuple) and step.isdecimal():
                found = found[int(step)] if int(step) < len(found) else None
            else:
                found = found.get(step) if isinstance(found, Mapping) else None
        return found

    def _index(self, schema: Json, base: str, *, names: bool = False) -> None:
        if isinstance(schema, list | tuple):
            for one in schema:
                self._index(one, base)
        if not isinstance(schema, Mapping):
            return
        if not names:
            own = next((schema[key] for key in ("$id", "id") if isinstance(schema.get(key), str)), "")
            base, anchor = urldefrag(urljoin(base, own))
            if own or schema is self._root:
                self._targets[f"{base}#{anchor}" if anchor else base] = schema
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(key), str):
                    self._targets[f"{base}#{schema[key]}"] = schema
            self._bases[id(schema)] = base
        for key, one in schema.items():
            if names or key not in DATA:
                self._index(one, base, names=not names and key in NAMED)


def _merged(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """Return the keywords of two schemas, merged to require what both require. If two values can't be merged, keep the first."""
    both = {**other, **one}
    for key in one.keys() & other.keys():
        if one[key] != other[key]:
            both[key] = _both(key, one[key], other[key])
    return {key: both[key] for key in dict.fromkeys((*one, *other))}


def _both(key: str, first: Any, second: Any) -> Json:
    if key in NAMED and isinstance(first, Mapping) and isinstance(second, Mapping):
        shared = first.keys() & second.keys()
        return {**first, **second, **{name: {"allOf": [first[name], second[name]]} for name in shared}}
    if key == "type":
        names = sorted(_common_types([set(_names(first)), set(_names(second))]))
        return names[0] if len(names) == 1 else names
    if key == "required":
        return list(dict.fromkeys([*_listed(first), *_listed(second)]))
    if key == "enum":
        return [value for value in _listed(first) if any(_is_same(one, value) for one in _listed(second))]
    if key in CHOICES:
        pairs = len(_listed(first)) * len(_listed(second))
        return first if pairs > _MOST_CHOICES else [{"allOf": list(two)} for two in product(_listed(first), _listed(second))]
    if key == "prefixItems":
        return [{"allOf": list(two)} for two in zip_longest(_listed(first), _listed(second), fillvalue=True)]
    if key in _WITHIN and not isinstance(first, list) and not isinstance(second, list):
        return {"allOf": [first, second]}
    if key in _LOWER | _UPPER and all(isinstance(bound, int | float) for bound in (first, second)):
        return max(first, second) if key in _LOWER else min(first, second)
    return first


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two values are equal in JSON, where 1 is not true."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _common_types(narrowings: Iterable[set[str]]) -> frozenset[str]:
    """Return the types in all sets; empty sets, and sets without a type in common with the ones before, do not count."""
    found: set[str] = set()
    for one in narrowings:
        one = one & set(TYPES)
        common = one & found
        if any("integer" in narrow and "number" in wide for narrow, wide in ((one, found), (found, one))):
            common = common | {"integer"}
        found = common if one and common else found or one
    return frozenset(found)


def _has_constants(option: SchemaView, value: Mapping[str, Json]) -> bool:
    """Return whether each property with fixed values has one of them."""
    known = ((one, value[name]) for name in option.names if name in value and (one := option.property(name)) is not None)
    return all(one.allows(given) for one, given in known if one.values)


def _has_required(option: SchemaView, value: Mapping[str, Json]) -> bool:
    return all(name in value for name in option.required)


def _has_no_other(option: SchemaView, value: Mapping[str, Json]) -> bool:
    """Return whether the option names all properties of the value, even if it allows more."""
    return value.keys() <= set(option.names)


def subschemas(schema: Json, *, names: bool = False) -> Iterator[Mapping[str, Json]]:
    """Yield the schema and all schemas in it, without following references. ``names``: its keys are names of schemas."""
    if isinstance(schema, list | tuple):
        for one in schema:
            yield from subschemas(one)
    if not isinstance(schema, Mapping):
        return
    if not names:
        yield schema
    for key, one in schema.items():
        if names or key not in DATA:
            yield from subschemas(one, names=not names and key in NAMED)


def type_of(value: Json) -> str:
    """Return the JSON type of a value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) else "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"


def _mapped(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else ()


def _names(value: Json) -> Sequence[str]:
    return [value] if isinstance(value, str) else [one for one in _listed(value) if isinstance(one, str)]
