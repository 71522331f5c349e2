"""The translation of a run's events into messages for a front end."""

from __future__ import annotations

from agent.events import Retrying, TextDelta, ThinkingDelta, ToolCallDelta, TurnFinished, TurnStarted
from agent.filepair.frontend import Message, Translator
from agent.filepair.state import VariantFile


def test_each_turn_and_each_new_try_has_ids_of_its_own() -> None:
    """004-2: a call of an interrupted reply also ends"""
    told: list[Message] = []
    translate = Translator(told.append, VariantFile(), variant=3, knows=lambda name: True)
    for event in (
        TurnStarted(1),
        TextDelta("a", "turn-1-assistant"),
        ToolCallDelta("x", "create_file", '{"content": "<p>'),
        Retrying(1, 0.0, "broken"),
        TextDelta("a", "turn-1-assistant"),
        ToolCallDelta("y", "create_file", '{"content": "<p>'),
        TurnFinished(1, "", 1),
        TurnStarted(2),
        TextDelta("b", "turn-2-assistant"),
    ):
        translate(event)
    ids = [message.event_id for message in told if message.type == "assistant"]
    assert ids == ["turn-1-assistant", "turn-1-assistant-again-1", "turn-2-assistant"]
    assert [message.event_id for message in told if message.type == "toolResult"] == ["x", "y"]
    assert told[0].to_json() == {"type": "assistant", "value": "a", "variantIndex": 3, "eventId": "turn-1-assistant"}
    assert "data" in told[1].to_json()


def test_a_call_with_the_id_of_an_earlier_turn_is_another_call() -> None:
    """004-2, 004-8, 004-9: the call is announced again, and its preview starts again"""
    told: list[Message] = []
    translate = Translator(told.append, VariantFile(), knows=lambda name: True)
    for turn in (1, 2):
        translate(TurnStarted(turn))
        translate(ThinkingDelta("hm", f"turn-{turn}-thinking"))
        translate(ToolCallDelta("c1", "create_file", '{"path": "a.html", "content": "<p>'))
        translate(TurnFinished(turn, "", 1))
    translate.close()
    of_turn = [("thinking", None), ("toolStart", None), ("setCode", "<p>"), ("toolResult", None)]
    assert [(one.type, one.value if one.type == "setCode" else None) for one in told] == of_turn * 2
    assert [one.event_id for one in told if one.type == "thinking"] == ["turn-1-thinking", "turn-2-thinking"]


def test_the_last_text_is_that_of_the_last_turn_with_any() -> None:
    """004-18"""
    translate = Translator(lambda message: None, VariantFile())
    for turn, text in enumerate(("<p>one</p>", "two", ""), 1):
        translate(TurnStarted(turn))
        translate(TurnFinished(turn, text, 0))
    assert translate.text == "two"
