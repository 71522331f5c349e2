"""Variants side by side: the messages for a front end, their order, and the resulting code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from agent.api import Crib
from agent.conversation.limits import MaxTurnsReached, RunLimits
from agent.filepair.frontend import Message
from agent.filepair.htmltext import find_html
from agent.filepair.variants import Variant, VariantOutcome, VariantSettings, run_variants
from agent.model_choice.models import ModelChoice
from toolcrib import ProviderTurn, StreamEvent, ToolCall, ToolcribError
from toolcrib.testing import ChatServer, Response, ScriptedSession
from tools.dispatch.bridge import run_async

PAGE = "<html>\n" + "".join(f"<p>line {number}</p>\n" for number in range(30)) + "</html>"


class Streams(ScriptedSession):
    """A scripted model whose calls come in pieces, as (id, name, raw arguments); arguments that are not JSON become a fault."""

    def __init__(self, *turns: str | list[tuple[str, str, str]], piece: int = 5) -> None:
        super().__init__(*turns)
        self._piece = piece

    async def stream_turn(self, on_event: Callable[[StreamEvent], None]) -> ProviderTurn:
        turn = self._turns[0]
        if isinstance(turn, str):
            on_event(StreamEvent("thinking_delta", "hm"))
            return await super().stream_turn(on_event)
        self._turns.pop(0)
        calls = []
        for call_id, name, raw in turn:
            for at in range(0, len(raw), self._piece):
                on_event(StreamEvent("tool_call_delta", raw[at : at + self._piece], call_id, name))
                await asyncio.sleep(0)
            try:
                calls.append(ToolCall(call_id, name, json.loads(raw)))
            except ValueError:
                calls.append(ToolCall(call_id, name, {"INVALID_JSON": raw}, "not valid JSON"))
        return ProviderTurn("", tuple(calls), turn)


def run(crib: Crib, *models: Any, prompt: Any = "a page", **settings: Any) -> tuple[list[VariantOutcome], list[Message]]:
    told: list[Message] = []
    opened = [model if isinstance(model, ModelChoice) else (lambda session, model=model: model) for model in models]
    outcomes = asyncio.run(run_variants(crib, opened, prompt, told.append, settings=VariantSettings(**settings)))
    return outcomes, told


def create(content: str = PAGE, path: str = "index.html", call_id: str = "c1") -> tuple[str, str, str]:
    return call_id, "create_file", json.dumps({"path": path, "content": content})


def edit(*edits: dict[str, Any], call_id: str = "c2") -> tuple[str, str, str]:
    return call_id, "edit_file", json.dumps({"edits": list(edits)})


def kinds(told: Sequence[Message]) -> list[str]:
    """Return the types in order, with repeated types merged."""
    found: list[str] = []
    for message in told:
        if not found or found[-1] != message.type:
            found.append(message.type)
    return found


def test_one_run_from_prompt_to_code(crib: Crib) -> None:
    """004-1, 004-8, 004-11, 004-17: the order within a turn, and one id for all messages of a call"""
    model = Streams([create()], [edit({"old_text": "line 3<", "new_text": "LINE 3<"})], "Done.")
    (outcome,), told = run(crib, model)
    assert kinds(told) == ["toolStart", "setCode", "toolResult", "toolStart", "setCode", "toolResult", "thinking", "assistant"]
    assert outcome.error is None
    assert outcome.result is not None
    assert outcome.code == PAGE.replace("line 3<", "LINE 3<")
    assert (outcome.result.path, outcome.result.run.text) == ("index.html", "Done.")
    first = [message for message in told if message.event_id == "c1"]
    assert [message.type for message in first].count("toolStart") == 1
    assert [message.type for message in first][-2:] == ["setCode", "toolResult"]
    assert first[-2].value == PAGE
    assert first[-1].data == {
        "name": "create_file",
        "output": {"path": "index.html", "content_length": len(PAGE), "lines": 32},
        "ok": True,
    }
    second = [message for message in told if message.event_id == "c2"]
    assert [message.type for message in second] == ["toolStart", "setCode", "toolResult"]
    assert second[1].value == outcome.code
    assert second[2].data is not None
    assert second[2].data["output"]["first_changed_line"] == 5
    assert model.said == ["a page"]
    assert model.closed


def test_previews_grow_and_the_start_comes_before_the_arguments_are_complete(crib: Crib) -> None:
    """004-8, 004-9"""
    _, told = run(crib, Streams([create()], "ok", piece=1))
    codes = [message.value or "" for message in told if message.type == "setCode"]
    assert codes[0] == "<"
    assert codes[-1] == PAGE
    previews = codes[:-1]
    assert len(previews) > 5
    assert all(len(later) == len(one) + 40 for one, later in pairwise(previews))
    assert all(PAGE.startswith(code) for code in codes)
    start = told[0]
    assert (start.type, start.data) == (
        "toolStart",
        {"name": "create_file", "input": {"path": "index.html", "contentLength": 0, "preview": ""}},
    )


def test_content_before_path_is_previewed_right(crib: Crib) -> None:
    """004-10: another key after the content is not part of it"""
    raw = '{"content": "<p>\\u00e9 \\"q\\"</p>", "path": "a.html"}'
    _, told = run(crib, Streams([("c1", "create_file", raw)], "ok", piece=3))
    codes = [message.value or "" for message in told if message.type == "setCode"]
    assert codes[-1] == '<p>é "q"</p>'
    assert all(codes[-1].startswith(code) for code in codes)


def test_inputs_are_summaries(crib: Crib) -> None:
    """004-20"""
    long = "x" * 5000
    model = ScriptedSession(
        [("create_file", {"path": "a.html", "content": long})],
        [("edit_file", {"edits": [{"old_text": long, "new_text": "y" * 3000}]})],
        "ok",
    )
    _, told = run(crib, model)
    first, second = [message.data["input"] for message in told if message.type == "toolStart" and message.data]
    assert first == {"path": "a.html", "contentLength": 5000, "preview": "x" * 197 + "..."}
    assert list(second) == ["edits"]
    assert len(second["edits"]) == 200


def test_unknown_tools_and_unreadable_calls_go_on(crib: Crib) -> None:
    """004-16"""
    calls = [
        ("c1", "make_coffee", "{}"),
        ("c2", "terminal", '{"command": "ls"}'),
        ("c3", "create_file", '{"path": "a", "content": "<p>'),
    ]
    model = Streams(calls, "sorry")
    (outcome,), told = run(crib, model)
    results = {message.event_id: message.data for message in told if message.type == "toolResult"}
    assert results["c1"] == {"name": "make_coffee", "output": {"error": "Unknown tool: make_coffee"}, "ok": False}
    assert results["c2"] == {"name": "terminal", "output": {"error": "Unknown tool: terminal"}, "ok": False}
    assert results["c3"] is not None
    assert results["c3"]["ok"] is False
    assert "was not run: not valid JSON" in results["c3"]["output"]["error"]
    assert [one.call.args for one in model.results[0]][2] == {"INVALID_JSON": calls[2][2]}
    assert [message.type for message in told].count("toolStart") == 3
    assert outcome.error is None
    assert outcome.code == ""


def test_a_preview_of_what_was_not_written_gives_way(crib: Crib) -> None:
    """004-8, 004-19: a call that is cut off leaves the file and the screen unchanged"""
    cut_off = ("c2", "create_file", json.dumps({"path": "a.html", "content": "<b>" * 50})[:100])
    (outcome,), told = run(crib, Streams([create()], [cut_off], "ok"))
    assert outcome.code == PAGE
    assert [message.value for message in told if message.type == "setCode"][-1] == PAGE


def test_failed_edits_change_nothing(crib: Crib) -> None:
    """004-19"""
    (outcome,), told = run(crib, Streams([create()], [edit({"old_text": "absent", "new_text": ""})], "ok"))
    assert outcome.code == PAGE
    last = [message for message in told if message.event_id == "c2"]
    assert [message.type for message in last] == ["toolStart", "toolResult"]
    assert last[1].data is not None
    assert "old_text is not in index.html" in last[1].data["output"]["error"]


def test_variants_run_side_by_side_each_with_its_own_file(crib: Crib) -> None:
    """004-1, 004-11: the same ids in several variants do not collide"""
    pages = [PAGE.replace("line", name) for name in ("one", "two", "three")]
    outcomes, told = run(crib, *(Streams([create(text)], f"done {place}") for place, text in enumerate(pages)))
    assert [outcome.code for outcome in outcomes] == pages
    assert [outcome.variant for outcome in outcomes] == [0, 1, 2]
    for place, text in enumerate(pages):
        own = [message for message in told if message.variant == place]
        assert all(text.startswith(message.value or "") for message in own if message.type == "setCode")
        assert own[-1].value == f"done {place}"
    order = [message.variant for message in told]
    assert order != sorted(order)
    assert len(run_async(crib.store.sessions.list())) == 3


def test_one_that_fails_leaves_the_others(crib: Crib, caplog: pytest.LogCaptureFixture) -> None:
    """004-1"""
    broken = ScriptedSession([("create_file", {"path": "a.html", "content": "<p>kept"})], ToolcribError("no more"))
    odd = ScriptedSession(ValueError("odd"))
    outcomes, _ = run(crib, broken, Streams([create()], "ok"), odd)
    assert [(outcome.code, str(outcome.error)) for outcome in outcomes] == [("<p>kept", "no more"), (PAGE, "None"), ("", "odd")]
    assert broken.closed
    assert odd.closed
    assert "variant 2 failed" in caplog.text


def test_at_most_20_tool_turns(crib: Crib) -> None:
    """004-6, 004-1"""
    turns = [[create(f"<p>{number}", call_id=f"c{number}")] for number in range(30)]
    model = Streams(*turns)
    (outcome,), told = run(crib, model)
    assert isinstance(outcome.error, MaxTurnsReached)
    assert len(model.results) == 20
    assert [message.type for message in told].count("toolResult") == 20
    assert outcome.code == "<p>19"
    for wanted, taken in ((3, 3), (25, 20)):
        other = Streams(*turns)
        (limited,), _ = run(crib, other, limits=RunLimits(max_turns=wanted))
        assert isinstance(limited.error, MaxTurnsReached)
        assert len(other.results) == taken
    assert model.closed


def test_cancelling_closes_all(crib: Crib) -> None:
    """004-21: every exit closes the session"""

    class Hangs(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            on_event(StreamEvent("tool_call_delta", '{"path": "a.html", "content": "<p>', "c1", "create_file"))
            begun.set()
            await asyncio.sleep(1000)
            raise AssertionError

    model, told, begun = Hangs(), list[Message](), asyncio.Event()

    async def go() -> None:
        task = asyncio.create_task(Variant(crib, told.append).run(lambda session: model, "x"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert model.closed
    assert [message.type for message in told] == ["toolStart", "setCode", "toolResult"]
    assert told[-1].data == {"name": "create_file", "output": {"error": "interrupted before it ran"}, "ok": False}


def test_the_page_in_the_last_text_where_no_file_was_written(crib: Crib) -> None:
    """004-18"""
    (outcome,), told = run(crib, Streams(f"Here it is:\n```html\n{PAGE}\n```\nEnjoy."))
    assert outcome.code == PAGE
    assert [message.value for message in told if message.type == "setCode"] == [PAGE]
    (kept,), _ = run(crib, Streams([create("<p>file</p>")], f"```html\n{PAGE}\n```"))
    assert kept.code == "<p>file</p>"


def test_a_page_in_an_earlier_text_is_not_the_last_one(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    """004-18: the last text alone counts. An empty answer is no text."""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    failing = ("edit_file", {"edits": [{"old_text": "a", "new_text": "b"}]})
    early = ChatServer.calls(failing, text=f"```html\n{PAGE}\n```")
    with ChatServer(early, ChatServer.calls(failing, text="Once more."), ChatServer.text("Done.")) as server:
        (outcome,), told = run(crib, ModelChoice("test-model", server.base_url))
    assert (outcome.error, outcome.code) == (None, "")
    assert "setCode" not in kinds(told)
    with ChatServer(ChatServer.calls(failing, text="None yet."), early, ChatServer.text("")) as server:
        (outcome,), _ = run(crib, ModelChoice("test-model", server.base_url))
    assert outcome.code == PAGE


def test_a_file_to_begin_with(crib: Crib) -> None:
    """004-18, 004-19"""
    model = Streams([edit({"old_text": "line 0", "new_text": "first"})], "ok")
    (outcome,), _ = run(crib, model, start=("index.html", PAGE))
    assert outcome.code == PAGE.replace("line 0", "first")


def test_prompt_messages(crib: Crib) -> None:
    """004-1: the conversation so far comes before the question"""
    before = [{"role": "user", "text": "one"}, {"role": "assistant", "text": "1", "calls": []}]
    model = ScriptedSession("ok")
    (good,), _ = run(crib, model, prompt=[*before, {"role": "user", "text": "two"}])
    assert good.error is None
    assert model.said == ["two"]
    (info,) = run_async(crib.store.sessions.list())
    records = run_async(crib.store.sessions.messages(info.id))
    assert [record["role"] for record in records] == ["user", "assistant", "user", "assistant"]
    (outcome,), _ = run(crib, ScriptedSession("ok"), prompt=before)
    assert "must end with the request of the user" in str(outcome.error)


def test_the_file_pair_is_granted_to_variants_alone(crib: Crib) -> None:
    """004-7"""
    run(crib, Streams("ok"))
    for platform in ("cli", "api", "gateway", "cron"):
        assert not {"create_file", "edit_file"} & set(crib.granted(platform)), platform
    assert crib.granted("cli", ["filepair"]) == ["create_file", "edit_file"]


def test_over_a_real_server(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    """004-3, 004-8, 004-9, 004-11"""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    created = ChatServer.calls(("create_file", {"path": "index.html", "content": PAGE}), ids=["call_a"])
    with ChatServer(Response(created.body, pieces=7), ChatServer.text("Done.")) as server:
        (outcome,), told = run(crib, ModelChoice("test-model", server.base_url))
    assert outcome.error is None
    assert outcome.code == PAGE
    assert kinds(told) == ["toolStart", "setCode", "toolResult", "assistant"]
    assert {message.event_id for message in told if message.type != "assistant"} == {"call_a"}
    assert [message.type for message in told].count("setCode") > 5
    asked: Any = server.requests[0]
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["create_file", "edit_file"]
    assert "self-contained web page" in asked["messages"][0]["content"]


def test_each_turn_of_a_run_has_ids_of_its_own(crib: Crib, monkeypatch: pytest.MonkeyPatch) -> None:
    """004-2, 004-11: ids differ even if the server repeats the ids of its calls"""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    pages = [("create_file", {"path": "index.html", "content": f"<p>{number}"}) for number in (1, 2)]
    turns = [ChatServer.calls(page, text=f"Turn {number}", ids=["c1"]) for number, page in enumerate(pages, 1)]
    with ChatServer(*turns, ChatServer.text("Done.")) as server:
        _, told = run(crib, ModelChoice("test-model", server.base_url))
    by_id: dict[str, list[Message]] = {}
    for message in told:
        by_id.setdefault(message.event_id, []).append(message)
    texts = ["".join(str(one.value) for one in own) for own in by_id.values() if own[0].type == "assistant"]
    assert texts == ["Turn 1", "Turn 2", "Done."]
    calls = [kinds(own) for own in by_id.values() if own[0].type != "assistant"]
    assert calls == [["toolStart", "setCode", "toolResult"]] * 2


# -- pages in text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("", ""),
        ("All done.", ""),
        ("The <html> tag is the root.", ""),
        ("<!DOCTYPE html>\n<html><p>a</html>", "<!DOCTYPE html>\n<html><p>a</html>"),
        ("Sure!\n<!doctype HTML><HTML lang='en'><p>a</HTML>\nDone with </html>.", "<!doctype HTML><HTML lang='en'><p>a</HTML>"),
        ("x <html><p>a</html> y", "<html><p>a</html>"),
        ("```html\n<html><p>a</html>\n```", "<html><p>a</html>"),
        ("```html\n<html><p>a\n```", "<html><p>a"),
        ("```html\n<div>a</div>\n```\nand more", "<div>a</div>"),
        ("```css\np {}\n```\n```html\n<p>b</p>\n```", "<p>b</p>"),
        ("```\n<p>b</p>", "<p>b</p>"),
        ("```python\nprint('<b>')\n```", ""),
        ('<file path="index.html">\n<html><p>a</html>\n</file>', "<html><p>a</html>"),
        ('Here:\n<file path="index.html">\n```html\n<p>a</p>\n```\n</file> bye', "<p>a</p>"),
        ("<file path='a.html'>\n<p>a</p>", "<p>a</p>"),
        ('<FILE path="a.html">İİİ<p>1</p></FILE>\n<file path="b.html"><p>2</p></file>', "İİİ<p>1</p>"),
    ],
)
def test_pages_are_found_in_text(text: str, page: str) -> None:
    """004-18: the wrapper, fences, doctype and html"""
    assert find_html(text) == page


def test_finding_pages_is_linear() -> None:
    """004-18"""
    size = 200_000
    for text in ("```" + "a" * size + "`", "<html " * size, "```\n" * size, "<file path" + " " * size, "<a" * size):
        find_html(text)
