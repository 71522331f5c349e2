"""Every wire, and every text protocol, with every end of a reply: whether calls run, and what follows for the run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent import reply_ends
from agent.api import Agent
from agent.config import config_path
from agent.conversation.limits import RunLimits
from agent.model_choice.retry import RetryPolicy
from agent.protocols import NAMES
from agent.providers import _anthropic_reader, _chat_reader, _gemini_reader, _responses_reader
from agent.reply_ends import BROKEN, CUT, FILTERED, NOTES, REPEATED, UNKNOWN, ReplyEnd, end_of, fault_of_end, shortened
from tests.agent.protocols.call_forms import FORMS
from tests.agent.test_unsound_ends import GOOD, WIRES, WRITES, turn_of
from toolcrib import StreamBroken
from toolcrib.testing import ChatServer, Response

WHOLE = {
    "chat": _chat_reader.WHOLE_WORDS,
    "anthropic": _anthropic_reader.WHOLE_WORDS,
    "responses": _responses_reader.WHOLE_WORDS,
    "gemini": _gemini_reader.WHOLE_WORDS,
}
CHAT: dict[str, list[str]] = {
    "whole": ["stop", "tool_calls", "eos_token", "STOP", "COMPLETE"],
    "cut": ["length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens"],
    "repeated": ["repetition_truncation", "repetition", "repeated_output"],
    "filtered": [
        "content_filter",
        "sensitive",
        "SAFETY",
        "content-filter",
        "blocked",
        "guardrail_intervened",
        "policy_violation",
    ],
    "broken": ["insufficient_system_resource", "network_error", "abort", "aborted", "cancelled", "timeout", "engine_failed"],
    "unknown": ["mumble", "incomplete", "other", "STOPPED"],
}
WORDS: dict[str, dict[str, list[str]]] = {
    "chat": CHAT,
    "text": CHAT,
    "anthropic": {
        "whole": ["end_turn", "stop_sequence"],
        "cut": ["max_tokens", "model_context_window_exceeded"],
        "repeated": ["repetition"],
        "filtered": ["refusal", "content_filtered", "sensitive"],
        "broken": ["malformed_model_output", "cancelled"],
        "unknown": ["pause_turn", "mumble", "stop"],
    },
    "responses": {
        "whole": ["completed"],
        "cut": ["incomplete:max_output_tokens"],
        "repeated": ["incomplete:repetition"],
        "filtered": ["incomplete:content_filter", "incomplete:safety"],
        "broken": ["cancelled", "incomplete:server_error"],
        "unknown": ["incomplete", "incomplete:mumble", "=queued"],
    },
    "gemini": {
        "whole": ["STOP"],
        "cut": ["MAX_TOKENS"],
        "repeated": ["REPETITION"],
        "filtered": ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR"],
        "broken": ["MALFORMED_RESPONSE"],
        "unknown": ["OTHER", "LANGUAGE", "MUMBLE"],
    },
}
ENDS = {end.kind: end for end in (reply_ends.WHOLE, CUT, REPEATED, FILTERED, BROKEN, UNKNOWN)}
EACH = [
    pytest.param(wire, kind, word, id=f"{wire}-{kind}-{word}")
    for wire, kinds in WORDS.items()
    for kind, words in kinds.items()
    for word in words
]
FIRST = [case for case in EACH if case.values[2] == WORDS[case.values[0]][case.values[1]][0]]
"""The first word of each kind on each wire, for whole runs."""


Started = Callable[..., tuple[Agent, ChatServer]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Started]:
    """Return a function that starts an agent in ``tmp_path`` and its server, which sends these responses."""
    with ExitStack() as stack:

        def begin(wire: str, *replies: Response, attempts: int = 2) -> tuple[Agent, ChatServer]:
            server = stack.enter_context(ChatServer(*replies))
            limits = RunLimits(retry=RetryPolicy(attempts=attempts, first=0.01))
            agent = Agent(model="m", provider=wire, base_url=server.base_url, project_dir=tmp_path, limits=limits)
            return stack.enter_context(agent), server

        yield begin


@pytest.mark.parametrize(("wire", "kind", "word"), EACH)
def test_what_a_word_means(wire: str, kind: str, word: str) -> None:
    """With calls, each has a fault unless the reply is whole; without calls, a broken reply is an error."""
    finish = ("stop", "tool_calls") if kind == "whole" else (ENDS[kind].finish,)
    turn = turn_of(wire, WIRES[wire](word, WRITES, "I write.", whole=False))
    assert len(turn.tool_calls) == len(WRITES)
    for call, args in zip(turn.tool_calls, WRITES, strict=True):
        assert (call.fault is None) == (kind == "whole")
        assert call.args == args or ENDS[kind].is_capped  # the last call of a cut reply may be incomplete
        assert call.fault is None or "none of its calls was run" in call.fault or "cut off" in call.fault
    assert turn.finish in finish
    said = WIRES[wire](word, [], "So far", whole=True)
    if kind == "broken":
        with pytest.raises(StreamBroken):
            turn_of(wire, said)
    else:
        turn = turn_of(wire, said)
        assert (turn.assistant_text.strip(), turn.tool_calls) == ("So far", ())
        assert turn.finish in finish


@pytest.mark.parametrize(("wire", "kind", "word"), FIRST)
def test_an_end_with_calls(start: Started, tmp_path: Path, wire: str, kind: str, word: str) -> None:
    """Calls run only after a whole reply. After any other end each call has a result with the reason."""
    agent, server = start(
        wire, WIRES[wire](word, WRITES, "I write.", whole=False), WIRES[wire](GOOD[wire], [], "Well.", whole=False)
    )
    assert agent.ask("go").text.strip() == "Well."
    assert len(list(tmp_path.glob("*.txt"))) == (2 if kind == "whole" else 0)
    sent = json.dumps(server.requests[-1])
    assert ("none of its calls was run" in sent or "cut off" in sent) == (kind != "whole")


@pytest.mark.parametrize(("wire", "kind", "word"), FIRST)
def test_an_end_without_calls(start: Started, wire: str, kind: str, word: str) -> None:
    """The text is the answer, and ``finish`` names the end. After a broken reply the model is asked again."""
    said = WIRES[wire](word, [], "So far", whole=True), WIRES[wire](GOOD[wire], [], "Well.", whole=True)
    agent, server = start(wire, *said)
    result = agent.ask("go")
    again = kind == "broken"
    assert (result.text.strip(), len(server.requests)) == (("Well.", 2) if again else ("So far", 1))
    expected = "stop" if again else ENDS[kind].finish
    assert result.finish in (expected, "tool_calls" if expected == "stop" else expected)


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_that_breaks_off_each_time_ends_the_run(start: Started, wire: str) -> None:
    word = WORDS[wire]["broken"][0]
    agent, server = start(wire, *(WIRES[wire](word, [], "So far", whole=True) for _ in range(3)), attempts=3)
    with pytest.raises(StreamBroken, match=word.partition(":")[2] or word):
        agent.ask("go")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in NAMES for kind in ENDS if kind in ("whole", "cut", "filtered") or name == NAMES[0]],
)
def test_calls_of_a_text_protocol_run_only_after_a_whole_reply(start: Started, tmp_path: Path, name: str, kind: str) -> None:
    """Whole calls in the protocol's own form, and in the forms that it also reads.

    A protocol knows only whether a reply was cut off; the session holds back the calls of all other ends.
    """
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(json.dumps({"model": {"protocol": name}}))
    own = [form for form in FORMS.values() if form.own == name]
    for said in (form.call("write_file", {"path": "a.txt", "content": "x"}) for form in own or [FORMS["json"]]):
        cut = ChatServer.stream({"choices": [{"index": 0, "delta": {"content": said}, "finish_reason": CHAT[kind][0]}]})
        answer = '{"final": {"content": "Well."}}' if name == "json_object" else "Well."
        agent, _ = start("text", cut, ChatServer.text(answer))
        assert agent.ask("go").text.strip() == "Well."
        assert len(list(tmp_path.glob("*.txt"))) == (kind == "whole")


@pytest.mark.parametrize(("kind", "end"), ENDS.items())
def test_the_table(kind: str, end: ReplyEnd) -> None:
    """The user reads a note, and the model a fault, about each end that is not whole."""
    assert (end.finish in NOTES) == (kind != "whole")
    assert (fault_of_end(end, "w") is None) == (kind == "whole")
    assert end.is_capped == (kind in ("cut", "repeated"))
    assert "{" not in str(fault_of_end(end, "w"))


def test_a_word_is_read_the_same_on_each_wire_unless_it_means_whole() -> None:
    for word in ("length", "SAFETY", "network_error", "repetition", "mumble"):
        assert len({end_of(word, whole) for whole in WHOLE.values()}) == 1


def test_a_long_text_is_shortened_to_its_beginning_and_its_end() -> None:
    text = "a" * 50_000 + "z" * 50_000
    found = shortened(text)
    assert (found[:10], found[-10:]) == ("a" * 10, "z" * 10)
    assert "characters left out" in found
    assert len(found) < 6_000
    assert shortened("short") == "short"


# -- reported cases ----------------------------------------------------------------------------------------------------

REPORTED: dict[str, tuple[str, dict[str, str], bool]] = {
    "end-insufficient_system_resource": ("chat", {"insufficient_system_resource": "broken"}, False),
    "end-sensitive": ("chat", {"sensitive": "filtered"}, False),
    "end-repetition": ("chat", {"repetition_truncation": "repeated"}, False),
    "end-error": ("chat", {"error": "broken"}, False),
    "call-filtered-gemini": (
        "gemini",
        dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT"), "filtered"),
        True,
    ),
    "call-network_error": (
        "chat",
        dict.fromkeys(("network_error", "abort", "insufficient_system_resource"), "broken"),
        True,
    ),
}
"""The rows of the reported cases: wire, words with the kind that they mean, and whether the reply has a call."""


def reported() -> list[Any]:
    folder = os.environ.get("TOOLCRIB_CORPORA", "")
    if not (folder and (rows := Path(folder) / "reports" / "models.jsonl").is_file()):
        return [pytest.param({}, marks=pytest.mark.skip("set TOOLCRIB_CORPORA to the folder of recorded cases"))]
    found = map(json.loads, rows.read_text("utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in found if row["kind"] == "ends"]


@pytest.mark.parametrize("row", reported())
def test_a_reported_end(start: Started, tmp_path: Path, row: dict[str, Any]) -> None:
    wire, words, with_call = REPORTED[row["id"]]
    for word, kind in words.items():
        assert end_of(word, WHOLE[wire]) is ENDS[kind]
        if with_call:
            test_an_end_with_calls(start, tmp_path, wire, kind, word)
        else:
            test_an_end_without_calls(start, wire, kind, word)
