"""``toolcrib usage`` and /cost, after real runs against a server that reports usage."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async


@pytest.fixture
def server() -> Iterator[ChatServer]:
    calls = [("terminal", {"command": "echo hi"}), ("terminal", {"command": "exit 3"}), ("read_file", {"path": "none"})]
    with ChatServer(ChatServer.calls(*calls), ChatServer.text("Done."), ChatServer.text("Again.")) as server:
        yield server


@pytest.fixture
def used(run: Any, config: Callable[[str], Path], server: ChatServer) -> Any:
    """Record two turns of a model with prices, and one turn of another session."""
    config("model: {prices: {input: 100, output: 1000}}\n")
    for task in ("look up and\nlook", "again"):
        assert run("run", task, "--base-url", server.base_url, "--model", "test-model").code == 0
    return run


def totals(run: Any, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("usage", "--json", *words).out)
    return found


def test_usage_by_day_model_tool_and_session(today: str, used: Any) -> None:
    (day,) = totals(used)
    assert (day["name"], day["turns"], day["calls"], day["input"], day["output"]) == (today, 3, 3, 30, 15)
    assert day["cost"] == pytest.approx(3 * (10 * 100 + 5 * 1000) / 1e6)
    (model,) = totals(used, "--by", "model")
    assert (model["name"], model["turns"], model["unpriced"]) == ("test-model (chat)", 3, 0)
    terminal, reading = totals(used, "--by", "tool")
    assert (terminal["name"], terminal["calls"], reading["name"], reading["calls"]) == ("terminal", 2, "read_file", 1)
    assert reading["failed"] == 1
    assert terminal["seconds"] > 0
    first, second = sorted(totals(used, "--by", "session"), key=lambda one: -one["turns"])
    assert (first["turns"], first["calls"], second["turns"], second["calls"]) == (2, 3, 1, 0)
    assert totals(used, "--session", second["name"][:8])[0]["turns"] == 1


def test_it_is_shown_with_a_plot(today: str, used: Any) -> None:
    day = used("usage").out.splitlines()
    assert day[0].split() == ["DAY", "TURNS", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST"]
    assert day[1].split()[:7] == [today, "3", "30", "0", "15", "0", "0.0180"]
    assert day[1].endswith("█" * 24)
    assert day[2] == "total: 3 turns, 3 calls; 30 tokens in, 15 out; cost 0.0180"
    tools = used("usage", "--by", "tool").out.splitlines()
    assert tools[0].split() == ["TOOL", "CALLS", "FAILED", "SECONDS", "MEAN"]
    assert (len(tools[1].split()[-1]), len(tools[2].split()[-1])) == (24, 12)
    assert "look up and look" in used("usage", "--by", "session").out


def test_since_takes_an_age_or_a_date(today: str, used: Any) -> None:
    assert len(totals(used, "--since", "1h")) == len(totals(used, "--since", today)) == 1
    assert totals(used, "--since", "2999-01-01") == []
    assert "nothing was used in that time" in used("usage", "--since", "2999-01-01").out
    wrong = used("usage", "--since", "yesterday")
    assert wrong.code == 2
    assert "an age such as 12h or 7d, or a date such as 2026-11-01, got 'yesterday'" in wrong.err


def test_nothing_yet(run: Any) -> None:
    assert run("usage").out == "nothing was used yet\n"
    assert run("usage", "--json").out == "[]\n"
    assert "no session starts with 'none'" in run("usage", "--session", "none").err


def test_the_chat_tells_what_its_session_took(run: Any, server: ChatServer) -> None:
    typed = b"/cost\ngo\n/cost\n/new\n/cost\n/cost now\n"
    done = run("chat", "--base-url", server.base_url, "--model", "test-model", stdin=typed)
    nothing = "0 turns, 0 calls; 0 tokens in, 0 out; cost unknown: no turn has a price (model.prices)"
    told = [line for line in done.out.splitlines() if "tokens in" in line]
    assert told == [nothing, "2 turns, 3 calls; 20 tokens in, 10 out; cost unknown: no turn has a price (model.prices)", nothing]
    assert "/cost takes no arguments" in done.err


def test_columns_are_left_out_rather_than_numbers_cut(today: str, used: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    heading, row = used("usage").out.splitlines()[:2]
    assert heading.split() == ["DAY", "TURNS", "INPUT", "OUTPUT", "COST"]
    assert row.split() == [today, "3", "30", "15", "0.0180"]
    assert "…" not in used("usage", "--by", "tool").out
    assert used("usage", "--by", "session").out.splitlines()[0].split() == ["SESSION", "OUTPUT", "COST"]
    heading, *rows = used("approvals", "history").out.splitlines()
    assert heading.split() == ["WHEN", "DECISION", "WHAT"]
    assert any(line.endswith("echo hi") for line in rows)


def test_what_delegates_took_is_told(run: Any, config: Callable[[str], Path]) -> None:
    config("model: {prices: {input: 100, output: 1000}}\n")
    calls = ChatServer.calls(("delegate_task", {"task": "count the files"}))
    with ChatServer(calls, ChatServer.text("Seven."), ChatServer.text("It says seven.")) as server:
        lines = b"go on\n/cost\n"
        done = run("chat", "--base-url", server.base_url, "--model", "test-model", stdin=lines)
    both, part = done.out.splitlines()[-2:]
    assert both == "3 turns, 1 call; 30 tokens in, 15 out; cost 0.0180"
    assert part == "including 1 delegate: 1 turn, 0 calls; 10 tokens in, 5 out; cost 0.0060"
    (parent,) = totals(run, "--by", "session")
    assert (parent["turns"], parent["input"], parent["cost"]) == (3, 30, pytest.approx(0.018))
    below = parent["delegates"]
    assert (below["sessions"], below["turns"], below["input"], below["cost"]) == (1, 1, 10, pytest.approx(0.006))
    heading, whole, under, last = run("usage", "--by", "session").out.splitlines()
    assert (whole.split()[0], whole.split()[1:3]) == (parent["name"][:12], ["3", "30"])
    assert under.startswith("  including 1 delegate ")
    assert under.split()[3:5] == ["1", "10"]
    assert (heading.split()[0], last) == ("SESSION", f"total: {both}")
    assert run("usage", "--session", parent["name"]).out.splitlines()[-2:] == [f"total: {both}", part]
    assert totals(run, "--by", "session", "--session", parent["name"]) == [parent]
    assert totals(run, "--session", parent["name"]) == totals(run)


def test_delegates_of_delegates_count_for_the_session_of_a_person(run: Any) -> None:
    """A session whose parent is missing counts for itself, and a cycle of parents causes no endless loop."""

    async def fill() -> None:
        with assemble() as crib:
            below = (("a", ""), ("b", "a"), ("c", "b"), ("d", "a"), ("lone", "gone"), ("x", "y"), ("y", "x"))
            for name, parent in below:
                why = "delegate" if parent else ""
                await crib.store.sessions.create(name, platform="cli", user="", parent=parent, why=why)
                await crib.store.sessions.append(name, {"role": "assistant", "text": "", "usage": {"input": 10, "output": 1}})
            await crib.store.sessions.create("fork", platform="cli", user="", parent="a", why="fork")
            await crib.store.sessions.append("fork", {"role": "assistant", "text": "", "usage": {"input": 7, "output": 1}})

    run_async(fill())
    found = {one["name"]: (one["input"], one.get("delegates", {}).get("sessions", 0)) for one in totals(run, "--by", "session")}
    assert (found["a"], found["lone"], found["fork"]) == ((40, 3), (10, 0), (7, 0))
    assert sum(tokens for tokens, _ in found.values()) == 77
    assert run("usage", "--session", "a").out.splitlines()[-1].startswith("including 3 delegates: 3 turns")
    (part,) = totals(run, "--by", "session", "--session", "b")
    assert (part["name"], part["input"], part["delegates"]["sessions"]) == ("b", 20, 1)
    assert totals(run, "--by", "session", "--session", "x")[0]["input"] == 20


def test_an_estimate_is_marked_and_names_its_price_list(run: Any, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's model without model.prices, asked through a proxy."""
    monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
    assert run("run", "look", "--base-url", "http://openai.azure.com/v1", "--model", "gpt-4o").code == 0
    (day,) = totals(run)
    assert day["cost"] > 0
    assert day["estimated"].startswith("genai-prices ")
    _, row, total = run("usage").out.splitlines()
    assert row.split()[6] == f"~{day['cost']:.4f}"
    assert total.endswith(f"; cost ~{day['cost']:.4f} (estimated by {day['estimated']})")
