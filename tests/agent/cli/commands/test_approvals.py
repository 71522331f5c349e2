"""``toolcrib approvals``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from toolcrib import Answer, SuspendTicket, ToolCall
from toolcrib.contract.store import AuditEntry, TicketRecord
from toolcrib.testing import ChatServer
from tools.approval.grants import new_grant
from tools.dispatch.bridge import run_async

DELETE = "fs.recursive-delete"


@pytest.fixture
def other(run: Any, tmp_path: Path) -> Iterator[Crib]:
    """Yield a second crib that has a chat open on the same store, as another process would."""
    with assemble(project_dir=tmp_path) as crib:
        run_async(crib.store.sessions.create("5e551044", platform="cli", user="", cwd=str(tmp_path)))
        run_async(crib.store.sessions.create("0d9e5510", platform="cli", user="", cwd=str(tmp_path)))
        yield crib


def granted(crib: Crib, session: str = "5e551044", **more: Any) -> str:
    grant = new_grant(more.pop("scope", "session"), DELETE, "/p", session_id=session, by="terminal", at=time.time(), **more)
    run_async(crib.grants.add(grant))
    return grant.id


def asked(crib: Crib, ticket_id: str, session: str = "5e551044") -> None:
    call = ToolCall(f"c-{ticket_id}", "terminal", {"command": "rm -rf build"})
    ticket = SuspendTicket("approve_tool", "terminal: rm -rf build\x1b[2J\nrecursive delete", call, {"cwd": "/p"}, id=ticket_id)
    run_async(crib.store.tickets.put(TicketRecord(ticket, session, at=time.time())))


def test_nothing_yet(run: Any) -> None:
    assert "no grants" in run("approvals").out
    assert "no request is pending" in run("approvals", "pending").out
    assert "no decisions" in run("approvals", "history").out
    for action in ("list", "pending", "history"):
        assert json.loads(run("approvals", action, "--json").out) == []


def test_grants_are_listed_with_what_they_cover(run: Any, other: Crib) -> None:
    one, two = granted(other), granted(other, "0d9e5510", scope="uses", uses=3)
    run_async(other.grants.add(new_grant("always", "", "/p", argv=("make", "clean"), by="terminal")))
    lines = run("approvals").out.splitlines()
    assert lines[0].split() == ["ID", "COVERS", "UNTIL", "SESSION", "BY", "SINCE"]
    assert f"{one[:8]}  fs.recursive-delete below /p  you revoke it  5e551044  terminal" in run("approvals").out
    assert "3 more calls" in run("approvals", "list").out
    (permanent,) = [line for line in lines if "`make clean` in /p" in line]
    assert permanent.split()[-3:-1] == ["every", "config.yaml"]
    here = run("approvals", "--session", "5e55").out
    assert one[:8] in here
    assert two[:8] not in here
    found = {grant["id"]: grant for grant in json.loads(run("approvals", "--json").out)}
    assert found[two] == {**found[two], "scope": "uses", "uses_left": 3, "key": DELETE, "root": "/p"}
    assert len(found) == 3


def test_a_grant_is_narrowed_and_taken_back(run: Any, other: Crib) -> None:
    """003-26"""
    grant = granted(other)
    done = run("approvals", "narrow", grant[:6], "build")
    assert (done.code, done.out) == (0, "narrowed: fs.recursive-delete below /p/build\n")
    assert [one.root for one in run_async(other.grants.all("5e551044"))] == ["/p/build"]
    assert "is not below /p/build" in run("approvals", "narrow", grant, "..").err
    assert "give the folder" in run("approvals", "narrow", grant).err
    done = run("approvals", "revoke", grant[:6])
    assert (done.code, done.out) == (0, "revoked: fs.recursive-delete below /p/build\n")
    assert run_async(other.grants.all("5e551044")) == []
    assert run("approvals", "revoke", grant[:6]).code == 2


def test_a_permanent_grant_is_taken_back_while_the_chat_is_open(run: Any, other: Crib) -> None:
    """003-27"""
    given = new_grant("always", "", "/p", argv=("make", "clean"), by="terminal")
    run_async(other.grants.add(given))
    done = run("approvals", "revoke", given.id[:8])
    assert (done.code, done.out) == (0, "revoked: `make clean` in /p\n")
    assert run_async(other.grants.all("5e551044")) == []
    assert "make" not in other.config.path.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["revoke"], "give the id: toolcrib approvals revoke ID"),
        (["narrow"], "give the"),
        (["deny"], "give the"),
        (["revoke", "zz"], "no grant begins with 'zz'. List grants: toolcrib approvals"),
        (["deny", "zz"], "no request begins with 'zz'. List the pending ones: toolcrib approvals pending"),
        (["revoke", "aa", "bb"], "give one id"),
        (["list", "aa"], "takes no id"),
        (["history", "aa"], "takes no id"),
        (["revoke", "aa", "--session", "s"], "--session is only for lists"),
        (["--session", "zz"], "no session starts with 'zz'. List sessions: toolcrib sessions"),
        (["grant"], "invalid choice: 'grant'"),
        (["show"], "give the ticket: toolcrib approvals show TICKET"),
        (["show", "zz"], "no ticket begins with 'zz'"),
        (["answer"], "give the ticket: toolcrib approvals answer TICKET"),
        (["answer", "zz"], "no ticket begins with 'zz'. List the pending ones: toolcrib approvals pending"),
        (["answer", "aa", "bb"], "give one id"),
        (["answer", "aa", "--scope", "once", "--deny", "no"], "--scope approves and --deny denies"),
        (["answer", "aa", "--uses", "3"], "--uses needs --scope uses"),
        (["pending", "--scope", "once"], "need `toolcrib approvals answer TICKET`"),
    ],
)
def test_wrong_words_are_told_with_the_fix(run: Any, words: list[str], says: str) -> None:
    done = run("approvals", *words)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""


def test_all_of_a_waiting_call_can_be_read(run: Any, other: Crib) -> None:
    text = "".join(f"line {number}\n" for number in range(3_000))
    call = ToolCall("c", "write_file", {"path": "a", "content": f"{text}curl x | sh\x1b[2J\n{text}"})
    found = [{"key": "persist.git-hook", "level": "ask", "why": "runs later", "text": "a"}]
    covers = {"once": "this call only\n  in /tmp"}
    ticket = SuspendTicket("approve_tool", "m", call, {"path": "/p/a", "findings": found, "covers": covers}, id="aa77")
    run_async(other.store.tickets.put(TicketRecord(ticket, "5e551044", at=time.time())))
    done = run("approvals", "show", "aa7")
    assert done.code == 0
    assert done.out.startswith("write_file wants to change:\n  │ /p/a\n")
    assert "\n  │ curl x | sh^[[2J\n" in done.out
    assert done.out.count("  │ line ") == 6_000
    assert done.out.endswith("  ! runs later (persist.git-hook)\n  once: this call only\\n  in /tmp\n")


def test_ambiguous_ids_name_the_candidates(run: Any, other: Crib) -> None:
    for ticket_id in ("aa11", "aa22"):
        asked(other, ticket_id)
        run_async(other.store.grants.add(replace(new_grant("session", DELETE, "/p", session_id="5e551044"), id=ticket_id)))
    for action in ("deny", "revoke"):
        assert "(aa11, aa22); use a longer id" in run("approvals", action, "aa").err
    assert (len(run_async(other.store.tickets.pending())), len(run_async(other.grants.all()))) == (2, 2)


def test_what_waits_is_shown_and_refused_from_outside(run: Any, other: Crib) -> None:
    """003-28: the chat that answers afterwards learns that the request was already decided."""
    asked(other, "aa11")
    asked(other, "bb22", "0d9e5510")
    lines = run("approvals", "pending").out.splitlines()
    assert lines[0].split() == ["ID", "SESSION", "ASKED", "QUESTION"]
    assert "rm -rf build^[[2J · recursive delete" in lines[1]
    (record,) = json.loads(run("approvals", "pending", "--session", "0d9e", "--json").out)
    assert (record["id"], record["session"], record["parameters"]) == ("bb22", "0d9e5510", {"cwd": "/p"})
    done = run("approvals", "deny", "aa", "not now")
    assert done.code == 0
    assert done.out.startswith("denied: terminal: rm -rf build^[[2J")
    kept = run_async(other.store.tickets.get("aa11"))
    assert kept is not None
    assert kept.answer is not None
    assert (kept.state, kept.answer.payload["reason"]) == ("denied", "not now")
    assert run_async(other.store.tickets.decide_ticket(Answer("aa11", payload={"approved": True}), "approved")) == "refused"
    again = run("approvals", "deny", "aa11")
    assert (again.code, again.out) == (1, "")  # the same exit code as `answer`
    assert "already decided (denied)" in again.err


def test_without_more_all_that_waits_is_shown_before_the_grants(run: Any, other: Crib) -> None:
    """003-25: the list shows who is asked, since when, until when and about what, in every session."""
    run_async(other.store.sessions.create("7e1e6a30", platform="telegram", user="ann"))
    asked(other, "aa11")
    asked(other, "bb22", "7e1e6a30")
    grant = granted(other)
    lines = run("approvals").out.splitlines()
    assert lines[0].split() == ["TICKET", "WHO", "ASKED", "EXPIRES", "SESSION", "WHAT"]
    assert (lines[1].split()[:2], lines[2].split()[:2]) == (["aa11", "cli"], ["bb22", "telegram:ann"])
    assert "never" in lines[1]
    assert "rm -rf build^[[2J" in lines[1]
    assert "`toolcrib approvals answer TICKET` answers a ticket" in lines
    assert lines[-1].startswith(grant[:8])
    assert "aa11" not in run("approvals", "list").out
    assert "bb22" not in run("approvals", "--session", "5e55").out


def test_there_is_no_yes_from_outside(run: Any, other: Crib) -> None:
    asked(other, "aa11")
    assert run("approvals", "approve", "aa11").code == 2
    assert len(run_async(other.store.tickets.pending())) == 1


def test_the_history_says_who_decided_what_by_which_rule(run: Any, other: Crib) -> None:
    """003-25: the history attributes an approval by a model to that model."""
    decisions = [("allowed", "rule"), ("denied", "terminal"), ("approved:once", "smart:aux")]
    for number, (decision, by) in enumerate(decisions):
        detail = {"keys": [DELETE, DELETE], "command": f"rm -rf\nx{number}\x1b", "cwd": "/p"}
        session = "0d9e5510" if number == 1 else "5e551044"
        run_async(other.store.audit.record(AuditEntry(time.time(), session, f"c{number}", "terminal", decision, by, detail)))
    run_async(
        other.store.audit.record(AuditEntry(time.time(), "5e551044", "c", "write_file", "allowed", "rule", {"paths": ["/p/a"]}))
    )
    lines = run("approvals", "history").out.splitlines()
    assert lines[0].split() == ["WHEN", "SESSION", "DECISION", "BY", "TOOL", "WHAT", "FINDINGS"]
    columns = [cell.strip() for cell in lines[3].split("  ") if cell.strip()]
    assert columns[1:] == ["5e551044", "approved:once", "smart:aux", "terminal", "rm -rf x2^[", DELETE]
    assert "/p/a" in lines[4]
    assert len(run("approvals", "history", "--limit", "2").out.splitlines()) == 3
    assert [one["by"] for one in json.loads(run("approvals", "history", "--session", "0d9e", "--json").out)] == ["terminal"]


def test_an_entry_that_nobody_confirmed_is_mentioned(run: Any, config: Any) -> None:
    config("command_allowlist: [{argv: [make, clean], cwd: /p, version: 1}]\n")
    done = run("approvals")
    assert "no grants" in done.out
    assert "1 of the entries of command_allowlist apply only after you confirm them: start `toolcrib chat`" in done.err


def test_a_model_s_yes_from_the_call_to_the_history(run: Any, config: Any, tmp_path: Path) -> None:
    """003-25"""
    (tmp_path / "node_modules").mkdir()
    said = '{"decision": "approve", "why": "npm install makes it again"}'
    with ChatServer(ChatServer.text(said)) as server:
        config(f"approval: {{smart: {{enabled: true, model: aux, base_url: '{server.base_url}'}}}}\n")
        done = run("call", "terminal", '{"command": "rm -rf node_modules/"}')
        assert "aux at 127.0.0.1" in run("doctor").out
    assert done.code == 0
    assert "toolcrib: aux approved terminal: npm install makes it again" in done.err
    assert not (tmp_path / "node_modules").exists()
    (line,) = [line for line in run("approvals", "history").out.splitlines() if "smart:aux" in line]
    assert "approved:once" in line
    assert "rm -rf node_modules/" in line


def test_a_no_from_outside_says_how_the_run_continues(run: Any, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with ChatServer(ChatServer.calls(("terminal", {"command": "rm -rf build"}))) as server:
        run("run", "go", "--park", "--base-url", server.base_url, "--model", "test-model")
    (record,) = json.loads(run("approvals", "pending", "--json").out)
    done = run("approvals", "deny", record["id"], "not now")
    assert done.out.splitlines()[-1] == f"`toolcrib run --resume {record['session'][:12]}` continues the run"


def test_a_no_to_a_delegate_says_that_its_parent_goes_on(run: Any, tmp_path: Path) -> None:
    """The delegate's first request waits under its parent's session, its other requests under its own."""
    order = ChatServer.calls(("delegate_task", {"task": "tidy"}))
    asks = ChatServer.calls(("terminal", {"command": "rm -rf a"}), ("terminal", {"command": "rm -rf b"}))
    with ChatServer(order, asks) as server:
        for name in "ab":
            (tmp_path / name).mkdir()
        run("run", "go", "--park", "--base-url", server.base_url, "--model", "test-model")
    own, standing = sorted(json.loads(run("approvals", "pending", "--json").out), key=lambda one: "relays" in one["parameters"])
    done = run("approvals", "deny", own["id"], "not now")
    assert own["session"] != standing["session"]
    assert done.out.splitlines()[-1] == f"`toolcrib run --resume {standing['session'][:12]}` continues the run"
    refused = run("run", "--resume", own["session"][:12])
    assert refused.code == 2
    assert f"toolcrib run --resume {standing['session'][:12]}" in refused.err
