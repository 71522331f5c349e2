"""Resolved views of JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.contract.frozen import freeze
from toolcrib.contract.schema_inline import inlined
from toolcrib.contract.schema_view import SchemaView

DEFS = {
    "I": {"type": "integer"},
    "One": {"type": "string", "enum": ["1", "2"]},
    "Tree": {"type": "object", "properties": {"n": {"$ref": "#/$defs/I"}, "next": {"$ref": "#/$defs/Tree"}}, "description": "t"},
    "a/b~c": {"type": "boolean"},
    "Anchored": {"$anchor": "here", "type": "null"},
    "Loop": {"$ref": "#/$defs/Loop"},
    "Inner": {"$id": "inner.json", "type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "number"}}},
}


def view(schema: Any) -> SchemaView:
    """Return the view of a property with this schema, beside DEFS."""
    whole = freeze({"type": "object", "properties": {"v": schema}, "$defs": DEFS})
    found = SchemaView(whole, matches=lambda pattern, name: name.startswith(pattern[1:])).property("v")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["integer", "null"]}, "integer null"),
        ({"$ref": "#/$defs/I"}, "integer"),
        ({"$ref": "#/$defs/a~1b~0c"}, "boolean"),
        ({"$ref": "#/%24defs/I"}, "integer"),
        ({"$ref": "#here"}, "null"),
        ({"$ref": "inner.json"}, "array"),
        ({"$ref": "inner.json#/$defs/x"}, "number"),
        ({"$ref": "#"}, "object"),
        ({"$dynamicRef": "#/$defs/I"}, "integer"),
        ({"allOf": [{"$ref": "#/$defs/I"}]}, "integer"),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": "number"}]}, "integer"),
        ({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"description": "d"}]}, "integer null"),
        ({"anyOf": [{"$ref": "#/$defs/I"}, {"type": "null"}]}, "integer null"),
        ({"oneOf": [{"const": 1}, {"const": "x"}]}, "integer string"),
        ({"enum": [1, 2]}, "integer"),
        ({"enum": ["a", None]}, "null string"),
        ({"const": True}, "boolean"),
        ({"type": ["string", "null"], "enum": ["a"]}, "string"),
        ({"type": "number", "enum": [1, 2]}, "integer"),
        ({"anyOf": [{}, {"type": "integer"}]}, ""),
        ({"$ref": "#/$defs/Loop"}, ""),
        ({"$ref": "#/nowhere"}, ""),
        (True, ""),
        (False, ""),
        ({"type": "string", "enum": [1]}, "string"),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "object"),
    ],
)
def test_types_are_those_of_the_resolved_schema(schema: Any, types: str) -> None:
    assert " ".join(sorted(view(schema).types)) == types


def test_a_circular_schema_has_views_at_any_depth() -> None:
    deep = view({"$ref": "#/$defs/Tree"}).at(["next"] * 50 + ["n"])
    assert deep.types == {"integer"}
    assert view({"$ref": "#/$defs/Tree"}).at(["unknown"]).types == {"object"}


def test_keywords_beside_a_reference_count_as_its_draft_says() -> None:
    beside = {"$ref": "#/definitions/n", "minimum": 3, "description": "d"}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"v": beside}}
    new = {"properties": {"v": beside}}
    definitions = {"definitions": {"n": {"type": "integer", "description": "other"}}}
    assert dict(SchemaView({**new, **definitions}).at(["v"]).fields) == {"minimum": 3, "description": "d", "type": "integer"}
    assert dict(SchemaView({**old, **definitions}).at(["v"]).fields) == {"description": "d", "type": "integer"}


def test_all_parts_of_all_of_are_merged() -> None:
    merged = SchemaView(
        {
            "allOf": [
                {"properties": {"a": {"type": ["integer", "string"]}, "b": {}}, "required": ["a"], "description": "first"},
                {"properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["b"], "description": "second"},
                {"properties": {"a": {"minimum": 5}}, "enum": [1, 2, 3]},
                {"enum": ["x", 2, 3]},
            ]
        }
    )
    assert merged.required == ["a", "b"]
    assert inlined(merged) == {
        "properties": {"a": {"type": "integer", "minimum": 5}, "b": {}},
        "required": ["a", "b"],
        "description": "first",
        "enum": [2, 3],
    }


def test_items_and_other_properties_have_views() -> None:
    listed = view({"prefixItems": [{"type": "integer"}, {"type": "null"}], "items": {"type": "boolean"}})
    assert [sorted(one.types) for index in range(3) if (one := listed.item(index))] == [["integer"], ["null"], ["boolean"]]
    old = view({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}})
    assert [sorted(one.types) for index in range(2) if (one := old.item(index))] == [["integer"], ["string"]]
    named = view({"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})
    assert [sorted(one.types) for name in ("n_x", "other") if (one := named.property(name))] == [["integer"], ["boolean"]]
    assert view({"type": "object"}).property("x") is None


def test_alternatives_are_chosen_by_what_a_value_has() -> None:
    cat = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}}
    dog = {"type": "object", "properties": {"kind": {"const": "dog"}, "lives": {"type": "string"}}}
    either = view({"oneOf": [cat, dog, {"type": "null"}]})
    value = {"kind": "cat", "lives": "9"}
    found = either.property("lives", either.fitting(value))
    assert found is not None
    assert found.types == {"integer"}
    both = either.property("lives", either.fitting({"lives": "9"}))
    assert both is not None
    assert both.types == {"integer", "string"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_that_are_the_schema_itself_come_to_an_end(keyword: str) -> None:
    to_itself = {keyword: [{"$ref": "#/$defs/A"}, {"type": "integer"}]}
    by_another = {keyword: [{"$ref": "#/$defs/C"}, {"properties": {"x": {"type": "integer"}}, "type": "object"}]}
    merged = {"allOf": [{keyword: [{"$ref": "#/$defs/D"}, {"type": "integer"}]}, {keyword: [{"$ref": "#/$defs/D"}, {}]}]}
    defs = {"A": to_itself, "B": by_another, "C": {keyword: [{"$ref": "#/$defs/B"}]}, "D": merged}
    for name, types in (("A", {"integer"}), ("B", {"object"}), ("D", None)):
        found = SchemaView({"$ref": f"#/$defs/{name}", "$defs": defs})
        assert types is None or found.types == types
        assert found.values == []
        assert "$ref" not in json.dumps(inlined(found))
        assert found.property("x") is None or found.at(["x"]).types == {"integer"}
        assert [one.types for one in found.fitting({"x": 1})] == ([{"object"}] if name == "B" else [])


def test_alternatives_of_alternatives_are_read_up_to_a_number() -> None:
    defs: dict[str, Any] = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 4} for at in range(30)}
    defs["d30"] = {"type": "integer"}
    assert SchemaView({"$ref": "#/$defs/d0", "$defs": defs}).types == set()


def test_an_inlined_schema_has_no_reference_and_an_unchanged_one_is_unchanged() -> None:
    plain = {
        "type": "object",
        "properties": {"a": {"description": "d", "type": "string", "default": {"$ref": "x"}}},
        "required": ["a"],
    }
    assert json.dumps(inlined(SchemaView(plain))) == json.dumps(plain)
    tree = inlined(SchemaView({"$ref": "#/$defs/Tree", "$defs": DEFS}))
    assert tree == {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "next": {"type": "object", "description": "t"}},
        "description": "t",
    }


def test_definitions_that_use_each_other_are_cut_before_they_explode() -> None:
    defs: dict[str, Any] = {
        f"d{at}": {"properties": {"a": {"$ref": f"#/$defs/d{at + 1}"}, "b": {"$ref": f"#/$defs/d{at + 1}"}}} for at in range(40)
    }
    defs["d40"] = {"type": "integer"}
    assert len(json.dumps(inlined(SchemaView({"$ref": "#/$defs/d0", "$defs": defs})))) < 200_000


def test_an_older_draft_is_written_as_the_current_one() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.test/x",
        "properties": {
            "n": {"minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": False},
            "l": {"items": [{"type": "string"}], "additionalItems": False},
        },
        "dependencies": {"n": ["l"], "l": {"required": ["n"]}},
    }
    assert inlined(SchemaView(old)) == {
        "properties": {"n": {"maximum": 5, "exclusiveMinimum": 1}, "l": {"prefixItems": [{"type": "string"}], "items": False}},
        "dependentRequired": {"n": ["l"]},
        "dependentSchemas": {"l": {"required": ["n"]}},
    }
