"""``toolcrib sessions``: names, tags, forks and deletion of stored sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.drafts import KeptDraft
from agent.config import contents_path, state_dir
from agent.conversation.lineage import DELEGATE
from agent.policy.self_protection import BELOW, marks_of
from toolcrib.contract.store import Lease
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async


@pytest.fixture
def talked(run: Any) -> dict[str, str]:
    """Two sessions: their ids by their messages."""
    with ChatServer(*[ChatServer.text(f"answer {n}") for n in range(3)]) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        for lines in ("first\n", "second\nand more\n"):
            assert run("chat", *model, stdin=lines.encode()).code == 0
    return {one["title"]: one["id"] for one in json.loads(run("sessions", "--json").out)}


def row(run: Any, session_id: str) -> str:
    return next(line for line in run("sessions").out.splitlines() if line.startswith(session_id[:12]))


def test_a_session_is_renamed(run: Any, talked: dict[str, str]) -> None:
    done = run("sessions", "rename", talked["first"][:8], "the flaky", "login  test")
    assert (done.code, done.out) == (0, f"{talked['first'][:12]}  the flaky login test\n")
    assert row(run, talked["first"]).endswith("  the flaky login test")
    assert [one["title"] for one in json.loads(run("sessions", "--json").out)] == ["second", "the flaky login test"]
    assert "  the flaky login test\n" in run("sessions", "show", talked["first"]).out
    assert "give the id and the title" in run("sessions", "rename", talked["first"]).err
    assert "give a title" in run("sessions", "rename", talked["first"], " \u200b").err
    assert "at most 200 characters" in run("sessions", "rename", talked["first"], "x" * 201).err
    assert run("sessions", "rename", talked["first"], "red \x1b[31mtext").code == 0
    assert "\x1b" not in run("sessions").out


def test_sessions_are_tagged_and_found_by_tags(run: Any, talked: dict[str, str]) -> None:
    first, second = talked["first"], talked["second"]
    assert run("sessions", "tag", first[:8], "+web", "release/1.2").out == f"{first[:12]}  first  #web #release/1.2\n"
    assert (
        run("sessions", "tag", second, "+web", "--json").out
        == json.dumps({"id": second, "title": "second", "tags": ["web"]}) + "\n"
    )
    assert row(run, first).endswith("  first  #web #release/1.2")
    tagged = json.loads(run("sessions", "--tag", "#web", "--tag", "release/1.2", "--json").out)
    assert [(one["id"], one["tags"]) for one in tagged] == [(first, ["web", "release/1.2"])]
    assert run("sessions", "--tag", "none").out == "no such sessions; list all: toolcrib sessions\n"
    assert run("sessions", "search", "answer", "--tag", "release/1.2").out.startswith(f"{first[:12]}  ")
    assert run("sessions", "search", "answer", "--tag", "none").out == "nothing found\n"
    assert run("sessions", "tag", first, "-#web", "+#home").out.endswith("  #release/1.2 #home\n")
    assert "the session has no tag 'web'; its tags: release/1.2, home" in run("sessions", "tag", first, "-web").err
    assert "'two words' is not a valid tag" in run("sessions", "tag", first, "+two words").err
    assert "give the id and the tags" in run("sessions", "tag", first).err
    assert "at most 30 tags" in run("sessions", "tag", first, *(f"t{number}" for number in range(40))).err


def test_a_word_that_shall_not_stand_there_needs_no_quotes(run: Any, talked: dict[str, str]) -> None:
    assert len(run("sessions", "search", "answer").out.splitlines()) == 5
    found = run("sessions", "search", "answer", "-0").out
    assert talked["first"][:12] not in found
    assert found.startswith(f"{talked['second'][:12]}  ")
    assert "-WORD is for search and tag" in run("sessions", "show", "tag", "-x").err


def test_a_fork_at_a_message(run: Any, talked: dict[str, str]) -> None:
    shown = run("sessions", "show", talked["second"]).out
    assert "\n1 assistant:\n  answer 1\n" in shown
    made = run("sessions", "fork", talked["second"], "--at", "1")
    assert "2 of 4 records" in made.err
    assert "and more" not in run("sessions", "show", made.out.strip()).out
    made = run("sessions", "fork", talked["second"], "--at", "2")
    assert "unanswered, so left out: and more\n" in made.err
    assert "lists messages 0 to 3" in run("sessions", "fork", talked["second"], "--at", "4").err
    assert "expected the number of a message" in run("sessions", "fork", talked["second"], "--at", "x").err


def test_resume_is_what_the_chat_does(run: Any, talked: dict[str, str]) -> None:
    with ChatServer(ChatServer.text("again")) as server:
        done = run("sessions", "resume", talked["first"][:8], stdin=b"/model manual\n/sessions\n")
        assert not server.requests
    assert f"session {talked['first'][:12]}, 2 messages: first" in done.err
    assert "give the id: toolcrib sessions resume ID" in run("sessions", "resume").err
    assert "no session starts with 'zz'" in run("sessions", "resume", "zz").err


def test_the_chat_names_its_session(run: Any) -> None:
    with ChatServer(ChatServer.text("hello")) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        done = run("chat", *model, stdin=b"/title\n/title the  plan\nhi\n/title\n/sessions\n")
    assert "this session has no title yet; to set one: /title TEXT" in done.err
    assert "the session is renamed: the plan\n" in done.err
    assert "the plan; to rename it: /title TEXT\n" in done.err
    assert done.out.splitlines()[-1].endswith("  the plan")


def test_sessions_are_deleted_after_a_yes(run: Any, talked: dict[str, str]) -> None:
    first, second = talked["first"], talked["second"]
    asked = run("sessions", "delete", first[:8])
    assert asked.code == 2
    assert "Delete this session permanently, with calls, approvals, undo data" in asked.err
    assert "No user can be asked here: add --yes" in asked.err
    assert f"  {first[:12]}  0 s ago, 2 messages: first\n" in asked.out
    assert run("sessions", "export", first, "-o", "first.md").code == 0
    KeptDraft(state_dir() / "drafts", "/p").keep_now(first, "half a thought")
    done = run("sessions", "delete", first[:8], first, "--yes")
    assert done.code == 0
    assert done.out.splitlines()[-3:] == [
        "deleted: 1 session",
        "not deleted: files with exports of these sessions",
        f"  {Path.cwd()}/first.md",
    ]
    assert [one["id"] for one in json.loads(run("sessions", "--json").out)] == [second]
    assert run("sessions", "search", "first").out == "nothing found\n"
    assert list((state_dir() / "drafts").iterdir()) == []
    assert run("sessions", "delete", second, first, "--yes").code == 2
    assert "give the id: toolcrib sessions delete ID" in run("sessions", "delete").err
    told = json.loads(run("sessions", "delete", second, "--yes", "--json").out)
    assert (told["deleted"], told["kept"]) == ([second], [])


def test_one_that_is_in_use_stays(run: Any, talked: dict[str, str]) -> None:
    async def hold(session_id: str) -> Lease | None:
        return await crib.store.leases.take(session_id, "somebody", 60.0)

    with assemble() as crib:
        assert run_async(hold(talked["first"])) is not None
        done = run("sessions", "delete", talked["first"], talked["second"], "--yes")
    assert done.code == 1
    assert "deleted: 1 session\n" in done.out
    assert f"{talked['first'][:12]} was kept: it is running" in done.err


def test_what_could_be_undone_goes_with_the_session(run: Any, tmp_path: Path) -> None:
    """Contents that another session's undo needs are kept."""
    (tmp_path / "a.txt").write_text("only here: quinces\n")
    (tmp_path / "b.txt").write_text("both: apricots\n")

    def write(path: str) -> tuple[Any, Any]:
        return ChatServer.calls(("write_file", {"path": path, "content": "new\n"})), ChatServer.text("done")

    def kept() -> bytes:
        return b"".join(path.read_bytes() for path in contents_path().parent.glob("contents.db*"))

    with ChatServer(*write("a.txt"), *write("b.txt"), *write("b.txt")) as server:
        model = ("--base-url", server.base_url, "--model", "m", "--no-stdin")
        run("run", "write a", *model)
        first = json.loads(run("sessions", "--json").out)[0]["id"]
        run("run", "write b", *model, "--resume", first)
        (tmp_path / "b.txt").write_text("both: apricots\n")
        run("run", "write b", *model)
    assert b"quinces" in kept()
    assert run("sessions", "delete", first, "--yes").code == 0
    assert b"quinces" not in kept()
    assert b"apricots" in kept()


def test_prune_tells_what_it_would_forget(run: Any, talked: dict[str, str]) -> None:
    assert run("sessions", "prune", "--older-than", "0s", "--dry-run").out.startswith(
        "would be deleted: 2 sessions (This includes"
    )
    assert json.loads(run("sessions", "prune", "--older-than", "0s", "--dry-run", "--json").out) == {"old": 2}
    assert len(json.loads(run("sessions", "--json").out)) == 2


@pytest.mark.parametrize("action", ["list", "search", "show", "export", "resume", "rename", "tag", "import", "delete", "prune"])
def test_below_a_session_it_refuses(run: Any, talked: dict[str, str], monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    monkeypatch.setenv(BELOW, marks_of([state_dir()]))
    done = run("sessions", action, *([] if action == "list" else [talked["first"]]))
    assert (done.code, done.out) == (2, "")
    assert f"stored sessions (toolcrib sessions {action}) is for a user only" in done.err


def test_lists_leave_delegates_out_unless_asked(run: Any) -> None:
    async def fill() -> None:
        with assemble() as crib:
            for name, parent, why in (("aaaa", "", ""), ("bbbb", "aaaa" * 4, DELEGATE), ("cccc", "aaaa" * 4, DELEGATE)):
                await crib.store.sessions.create(name * 4, platform="cli", user="", cwd="", parent=parent, why=why)
                await crib.store.sessions.append(name * 4, {"role": "user", "text": f"hello from {name}"})

    run_async(fill())
    listed = run("sessions", "--limit", "2").out.splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["aaaaaaaaaaaa"]
    assert [info["id"] for info in json.loads(run("sessions", "--json").out)] == ["aaaa" * 4]
    every = run("sessions", "--all").out.splitlines()[1:]
    assert ["(delegate of aaaaaaaaaaaa)" in line for line in every] == [True, True, False]
    chat = run("chat", "--provider", "manual", stdin=b"/sessions\n/resume bbbb\n")
    assert "aaaaaaaaaaaa" in chat.out
    assert "bbbbbbbbbbbb" not in chat.out
    assert "session bbbbbbbbbbbb (delegate of aaaaaaaaaaaa), 1 message: hello from bbbb" in chat.err
