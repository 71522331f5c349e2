"""The instructions for the model about its answer's form, and about an answer that does not fit."""

from __future__ import annotations

import pytest

from agent.conversation.structured import AnswerCheck


def test_the_schema_is_shown_as_it_is_written() -> None:
    asked = AnswerCheck({"type": "object", "description": "größer als 1"}).request("Wie viele?")
    assert asked.startswith("Wie viele?\n\n")
    assert asked.endswith('{"type": "object", "description": "größer als 1"}')


def test_three_faults_are_told_at_most() -> None:
    check = AnswerCheck({"type": "array", "items": {"type": "integer"}})
    assert check.read("[1, 2]") == [1, 2]
    with pytest.raises(ValueError, match=r"at 0: .*; at 1: .*; at 2: ") as error:
        check.read('["a", "b", "c", "d"]')
    assert "at 3" not in str(error.value)
