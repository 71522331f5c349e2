"""``toolcrib cron``, from adding a job to its history, and the process that runs jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer
from tools.registry import registry
from tools.schedules.parse import EXAMPLES

_CODE = "import sys; from agent.cli import main; sys.exit(main())"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(ChatServer.text("All is well."), ChatServer.text("Still well.")) as server:
        yield server


@pytest.fixture
def job(run: Any, config: Callable[[str], Path], server: ChatServer) -> str:
    """Add a job whose model answers, and return its id."""
    config(f"model: {{base_url: '{server.base_url}', name: test-model}}\n")
    added = run("cron", "add", "every weekday at 9", "look after things", "--name", "looks", "--zone", "Europe/Berlin", "--json")
    assert added.code == 0, added.err
    return str(json.loads(added.out)["id"])


def test_a_job_is_added_listed_run_paused_and_removed(run: Any, job: str, server: ChatServer) -> None:
    """003-32"""
    listed = run("cron")
    assert listed.code == 0, "it was listed, whether or not a process runs jobs"
    assert f"{job}  looks" in listed.out
    assert "every weekday at 9 (Europe/Berlin): next " in listed.out
    assert "no scheduler is running: start `toolcrib cron serve`" in listed.err
    ran = run("cron", "run", "looks")
    assert (ran.code, ran.out.strip()) == (0, "All is well.")
    assert "look after things" in json.dumps(server.requests[0])
    [past] = json.loads(run("cron", "history", job, "--json").out)
    assert (past["state"], past["note"]) == ("done", "All is well.")
    assert "All is well." in run("sessions", "show", past["session"]).out
    assert json.loads(run("sessions", "--json").out) == [], "a person's own are not pushed off the list"
    [session] = json.loads(run("sessions", "--all", "--json").out)
    assert (session["platform"], session["title"]) == ("cron", "looks")
    assert "paused" in run("cron", "pause", "looks").out
    assert "next " in run("cron", "resume", job[:5]).out
    assert "is removed" in run("cron", "remove", job).out
    assert "no jobs" in run("cron").out
    assert "done" in run("cron", "history", job).out, "its history stays"
    assert "done" in run("cron", "history", "looks").out, "by its name too"
    assert f"{job}  looks  removed" in run("cron", "list", "--removed").out


def test_what_is_added_is_shown_with_its_next_five_times(run: Any, config: Callable[[str], Path]) -> None:
    config("cron: {zone: Asia/Tokyo}\n")
    added = run("cron", "add", "every day at 9", "say hello")
    assert added.code == 0
    assert added.out.count("09:00 JST") == 5
    assert "at 09:00 every day" in added.out
    elsewhere = run("cron", "add", "every day at 9 America/New_York", "say hello")
    assert elsewhere.code == 0, elsewhere.err
    assert elsewhere.out.count("09:00 E") == 5


def test_help_docs_and_the_tools_schema_list_every_form_of_a_schedule(run: Any) -> None:
    schema = json.dumps(registry.get_definitions(["cronjob"]))
    docs = Path(__file__).parents[4] / "docs" / "cron.md"
    for listed in (schema, " ".join(run("cron", "--help").out.split()), docs.read_text(encoding="utf-8")):
        assert [form for form in EXAMPLES if form not in listed] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "whenever", "x"], "Use one of these: in 20 minutes"),
        (["add", "every day at 9"], "give the schedule and the task"),
        (["add", "every 10 seconds", "x"], "cron.shortest_interval"),
        (["add", "every day at 9", "x", "--zone", "Mars"], "no time zone 'Mars'"),
        (["add", "every day at 9", "x", "--unattended", "yes"], "choose deny, park"),
        (["add", "every day at 9", "x", "--to", "matrix:!nowhere"], "is not your chat"),
        (["run"], "give the job"),
        (["pause", "none"], "there is no job 'none'"),
    ],
)
def test_what_is_wrong_says_what_to_do(run: Any, words: list[str], told: str) -> None:
    done = run("cron", *words)
    assert done.code == 2
    assert told in done.err


def test_times_within_a_minute_are_shown_with_their_seconds(run: Any, config: Callable[[str], Path]) -> None:
    config("cron: {shortest_interval: 1}\n")
    added = run("cron", "add", "every 2 seconds", "look", "--zone", "UTC", "--json")
    assert len(set(json.loads(added.out)["next"])) == 5
    shown = run("cron", "add", "every 2 seconds", "look", "--zone", "UTC").out.splitlines()[-5:]
    assert len(set(shown)) == 5
    assert shown[0].count(":") == 3, "next: 20:15:02 UTC"


def test_without_a_model_nothing_is_run(run: Any) -> None:
    assert run("cron", "add", "every day at 9", "x").code == 0
    for words in (["serve"], ["run", "x"]):
        done = run("cron", *words)
        assert done.code == 2
        assert "no model is configured" in done.err


def test_a_model_that_is_dead_is_told_and_kept(run: Any, config: Callable[[str], Path]) -> None:
    config("model: {base_url: 'http://127.0.0.1:1/v1', name: test-model}\nretry: {attempts: 1}\n")
    assert run("cron", "add", "every day at 9", "x", "--name", "dead").code == 0
    assert run("cron", "run", "dead").code == 1
    [past] = json.loads(run("cron", "history", "dead", "--json").out)
    assert past["state"] == "failed"
    assert "127.0.0.1:1" in past["note"]


def test_what_waits_for_an_answer_is_told_with_the_way_to_give_it(
    run: Any, config: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "build").mkdir(exist_ok=True)
    with ChatServer(ChatServer.calls(("terminal", {"command": "rm -rf build"}))) as server:
        config(f"model: {{base_url: '{server.base_url}', name: test-model}}\n")
        assert run("cron", "add", "every day at 9", "tidy", "--name", "tidy", "--unattended", "park").code == 0
        done = run("cron", "run", "tidy")
    assert done.code == 7
    assert "toolcrib approvals" in done.err
    [past] = json.loads(run("cron", "history", "tidy", "--json").out)
    assert past["state"] == "running"
    assert "rm -rf build" in run("approvals", "pending").out
    again = run("cron", "run", "tidy")
    assert again.code == 2
    assert "is already running" in again.err


def test_doctor_finds_jobs_that_nobody_runs_and_rules_that_are_none(run: Any, config: Callable[[str], Path]) -> None:
    assert run("cron", "add", "every day at 9", "x").code == 0
    rule = "{tool: terminal, decision: allow, why: w, args: {command: 're:('}}"
    config(f"cron: {{zone: Mars/Base, rule_sets: {{odd: {{tools: [{rule}]}}}}}}\n")
    done = run("doctor")
    assert "1 job, but no scheduler is running" in done.out
    assert "cron.zone" in done.out
    assert "cron.rule_sets.odd" in done.out


@pytest.mark.full
def test_jobs_run_while_they_are_served_and_the_list_says_so(run: Any, job: str, server: ChatServer, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _CODE, "cron", "serve"], stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stderr is not None
            assert "running 1 job until Ctrl-C" in serving.stderr.readline()
            ends = time.monotonic() + 60
            while "no scheduler is running" in run("cron").err:
                assert time.monotonic() < ends, "the list never reported a process that runs them"
                time.sleep(0.1)
            assert run("cron", "add", "in 1 second", "be quick", "--name", "quick").code == 0
            while not any(one["state"] == "done" for one in json.loads(run("cron", "history", "quick", "--json").out)):
                assert time.monotonic() < ends, "it was not run"
                time.sleep(0.1)
        finally:
            os.kill(serving.pid, signal.SIGTERM)
        assert serving.wait(30) == 0
    assert "no scheduler is running" in run("cron").err
