"""Tool schemas in the form that Gemini's older field for them accepts."""

from __future__ import annotations

import json
import re

from agent.providers._gemini_tools import GeminiNames, declarations
from agent.providers._names import WireNames


def test_parameters_keep_what_gemini_takes() -> None:
    """For servers without parametersJsonSchema: references inlined, unions and constants rewritten, unknown keys removed."""
    schema = {
        "type": "object",
        "$schema": "x",
        "additionalProperties": False,
        "properties": {
            "one": {"$ref": "#/$defs/one", "description": "mine"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/loop"}, "maxItems": 3, "uniqueItems": True},
            "maybe": {"type": ["string", "null"], "format": "uri", "default": "d"},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}, {"type": "null"}]},
            "optional": {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "T"},
            "const": {"const": 3},
            "both": {"type": ["string", "integer"], "description": "b"},
            "loose": {"type": "array"},
            "lost": {"$ref": "#/nowhere"},
            "deep": {"properties": {"x": {"type": "boolean", "exclusiveMinimum": 1}}},
        },
        "required": ["one"],
        "$defs": {
            "one": {"type": "string", "minLength": 1, "examples": ["x"]},
            "loop": {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}},
        },
    }
    tools = [{"name": "f", "description": "d", "parameters": schema}, {"name": "g", "parameters": {"type": "object"}}]
    made, bare = declarations(tools, WireNames(["f", "g"]), json_schema=False)
    assert bare == {"name": "g", "description": ""}
    assert made["parameters"]["required"] == ["one"]
    found = made["parameters"]["properties"]
    assert "next" in found["many"].pop("items")["properties"]
    assert found == {
        "one": {"type": "string", "minLength": 1, "description": "mine"},
        "many": {"type": "array", "maxItems": 3},
        "maybe": {"type": "string", "nullable": True, "default": "d"},
        "either": {"nullable": True, "anyOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]},
        "optional": {"type": "integer", "nullable": True, "title": "T"},
        "const": {"type": "string", "enum": ["3"]},
        "both": {"description": "b", "anyOf": [{"type": "string", "description": "b"}, {"type": "integer", "description": "b"}]},
        "loose": {"type": "array", "items": {"type": "string"}},
        "lost": {"type": "object"},
        "deep": {"type": "object", "properties": {"x": {"type": "boolean"}}},
    }
    assert not {"$ref", "$defs", "additionalProperties", "$schema"} & set(json.dumps(made).split('"'))


def test_names_begin_with_a_letter_or_an_underscore() -> None:
    own = ["3d", "_3d", "-x", "9" * 64, "9" * 63 + ".", "plain", "fs.write"]
    names = GeminiNames(own)
    wires = [names.wire(name) for name in own]
    assert len(set(wires)) == len(own)
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", wire) for wire in wires), wires
    assert [names.own(wire) for wire in wires] == own
    assert (names.wire("_3d"), names.wire("plain"), names.own("never")) == ("_3d", "plain", "never")
