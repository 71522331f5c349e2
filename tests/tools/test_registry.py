"""tools.registry, as tool modules of hermes import it."""

from __future__ import annotations

import json

import toolcrib
from tools.registry import registry, tool_error, tool_result


def test_it_is_the_one_registry() -> None:
    assert registry is toolcrib.registry


def test_a_failure_is_json_with_its_message_and_what_else_is_said() -> None:
    assert json.loads(tool_error("not found", code=404)) == {"error": "not found", "code": 404}
    assert json.loads(tool_error(ValueError("naïve"))) == {"error": "naïve"}


def test_a_result_is_the_data_or_an_object_of_what_is_named() -> None:
    assert tool_result(success=True, count=42) == '{"success": true, "count": 42}'
    assert tool_result({"key": "Ö"}) == '{"key": "Ö"}'
    assert tool_result([]) == "[]"
