"""A session that is resumed in the chat: its last turns, the state of its calls, and how to see the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.beside import Beside, with_beside
from agent.cli.session_format import exchanges
from agent.conversation.state import RunState
from agent.conversation.transcript import Transcript
from agent.store.memory import MemoryStore
from agent.undo import news
from toolcrib import ToolCall
from toolcrib.contract.store import Grant, GrantScope
from toolcrib.contract.undo import ChangeStep, FileChange
from tools.dispatch.bridge import run_async


def exchange(number: int) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "name": "terminal", "args": {"command": f"make part{number}"}}
    error = number % 2
    text = json.dumps({"error": "no such target"} if error else {"output": "made"})
    return [
        {"role": "user", "text": f"make part {number}"},
        {"role": "assistant", "text": "", "calls": [call], "usage": {}},
        {"role": "results", "results": [{"call_id": f"c{number}", "name": "terminal", "text": text, "is_error": bool(error)}]},
        {"role": "assistant", "text": f"part {number} is made", "calls": [], "usage": {}},
    ]


def stored(project: Path, records: list[dict[str, Any]]) -> str:
    async def store() -> str:
        async with assemble(project_dir=project) as crib:
            session = await crib.open()
            await crib.store.sessions.append_many(session.id, records)
            await session.close()
            return session.id

    return run_async(store())


def test_the_last_turns_are_shown_and_how_many_stand_above(run: Any, tmp_path: Path) -> None:
    stored(tmp_path, [one for number in range(300) for one in exchange(number)])
    shown = run("chat", "--continue", "--provider", "manual").err.splitlines()
    assert shown[0].endswith("1,200 messages: make part 0")
    assert shown[1] == "… 1,188 messages above; to read them: /show all; to write them to a file: /export"
    assert shown[2:] == [
        *("> make part 297", "  💻 terminal runs make part297  failed: no such target", "  part 297 is made"),
        *("> make part 298", "  💻 terminal runs make part298  ok", "  part 298 is made"),
        *("> make part 299", "  💻 terminal runs make part299  failed: no such target", "  part 299 is made"),
    ]


def test_a_session_of_another_folder_names_it(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    there, here = stored(other, exchange(0)), stored(tmp_path, exchange(1))
    shown = run("chat", "--provider", "manual", stdin=f"/resume {there[:12]}\n/resume {here[:12]}\n".encode()).err
    assert shown.count(f"the session works in {other}, not in {tmp_path}\n") == 1
    assert shown.count("the session works in") == 1


def test_a_subfolder_continues_its_project_s_session(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one repository, but the folder's own session comes first. The session works in its old folder, and the chat reports
    it.
    """
    project, below = tmp_path / "p", tmp_path / "p" / "a" / "b"
    below.mkdir(parents=True)
    stored(tmp_path, exchange(9))
    monkeypatch.chdir(below)
    nothing = run("chat", "--continue", "--provider", "manual")
    assert (nothing.code, "there is no session of this folder" in nothing.err) == (2, True), "what is outside is another's"
    (project / ".git").mkdir()
    stored(project, exchange(1))
    shown = run("chat", "--continue", "--provider", "manual").err
    assert "> make part 1\n" in shown
    assert f"the session works in {project}, not in {below}\n" in shown
    stored(below, exchange(2))
    assert "> make part 2\n" in run("chat", "--continue", "--provider", "manual").err


def test_a_short_session_is_shown_whole(run: Any, tmp_path: Path) -> None:
    stored(tmp_path, exchange(0))
    assert "above" not in run("chat", "--continue", "--provider", "manual").err


def test_all_of_it_can_be_read_in_the_chat(run: Any, tmp_path: Path) -> None:
    stored(tmp_path, [one for number in range(5) for one in exchange(number)])
    done = run("chat", "--continue", "--provider", "manual", stdin=b"/show all\n")
    assert "  make part 0\n" in done.out
    assert "-> terminal  make part0\n" in done.out
    assert "  part 4 is made\n" in done.out
    assert "this session has no messages yet" in run("chat", "--provider", "manual", stdin=b"/show all\n").err


def test_the_person_finds_their_own_words_again() -> None:
    """Messages are shown without the text that toolcrib adds before and after them for the model."""
    parts = [
        Beside("attached-folder", "lists the folder src, which the person attached", "a.py"),
        Beside("attached-file", "is the beginning of the file a.py, the first 1 of 2 KiB, which the person attached", "x\n</y>"),
        Beside("own-command", "is what the command `make` printed, which the person ran in the session's shell", "made"),
    ]
    changes = (FileChange("/p/keep.txt", "local", None, None),)
    undone = [ChangeStep("s", 1, "c", "patch", 0.0, changes, kind) for kind in ("undo", "redo")]
    text = f"{news(undone)}\n\n{with_beside('look at @src and @a.py', parts)}"
    assert exchanges([{"role": "user", "text": text}]) == [
        "> look at @src and @a.py",
        "  attached src",
        "  attached a.py",
        "  with it: what the command `make` printed, which the person ran in the session's shell",
    ]


def test_half_an_answer_of_a_killed_process_is_shown(run: Any, tmp_path: Path) -> None:
    session_id = stored(tmp_path, exchange(0))

    async def killed() -> None:
        async with assemble(project_dir=tmp_path) as crib:
            state = RunState(id=f"{session_id}-1", session_id=session_id, phase="asking", step=1, said="Half of an ans")
            assert await crib.store.runs.commit(state.record())

    run_async(killed())
    shown = run("chat", "--continue", "--provider", "manual").err.splitlines()
    assert shown[-1] == "  Half of an ans [interrupted here, before it was complete]"


def test_one_exchange_of_very_many_calls_does_not_fill_the_screen() -> None:
    records = [one for number in range(100) for one in exchange(number)[1:]]
    lines = exchanges([{"role": "user", "text": "go"}, *records])
    assert len(lines) == 31
    assert lines[0] == "  … 171 lines are not shown"


async def test_the_state_is_not_looked_for_beyond_results_that_had_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long session is not read completely before its first prompt."""
    store = MemoryStore()
    await store.sessions.create("s", platform="cli", user="")
    results = {"role": "results", "results": [{"call_id": "c", "name": "x", "text": "{}", "is_error": False, "seconds": 0.1}]}
    await store.sessions.append_many("s", [{"role": "user", "text": "go"}] * 1000 + [results])
    read: list[int] = []
    messages = store.sessions.messages

    async def counted(session_id: str, **how: Any) -> Any:
        found = await messages(session_id, **how)
        read.append(len(found))
        return found

    monkeypatch.setattr(store.sessions, "messages", counted)
    transcript = Transcript(store, "s")
    assert await transcript.state() == {}
    above, found = await transcript.last_exchanges(3)
    assert (above, len(found)) == (997, 4)
    assert sum(read) < 200


def test_a_resumed_session_says_which_grants_are_in_force(run: Any, tmp_path: Path) -> None:
    session_id = stored(tmp_path, exchange(0))

    async def agreed(scope: GrantScope, root: str) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            await crib.store.grants.add(Grant(f"{root[1:]:0>32}", scope, "fs.recursive-delete", root, session_id))

    assert "in force" not in run("chat", "--continue", "--provider", "manual").err
    run_async(agreed("session", "/p"))
    run_async(agreed("task", "/t"))
    line = "1 grant of this session is in force: fs.recursive-delete below /p; to list or revoke: /approvals"
    assert line in run("chat", "--continue", "--provider", "manual").err.splitlines()
    assert "in force" not in run("chat", "--provider", "manual").err
    run_async(agreed("session", "/q"))
    again = run("chat", "--resume", session_id, "--provider", "manual").err
    assert "2 grants of this session are in force; to list or revoke: /approvals" in again


def test_calls_of_a_resumed_session_say_how_they_ended(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "build").mkdir()

    async def worked() -> None:
        async with assemble(project_dir=tmp_path) as crib:
            session = await crib.open()
            made = [
                await session.calls([ToolCall(f"c{number}", name, args)])
                for number, (name, args) in enumerate(
                    [("patch", {"path": "a.txt", "old": "one", "new": "two"}), ("terminal", {"command": "rm -rf build"})]
                )
            ]
            calls = [{"id": one.call.id, "name": one.call.name, "args": dict(one.call.args)} for (one,) in made]
            results = [{"call_id": call["id"], "name": call["name"], "text": "x", "is_error": False} for call in calls]
            said = {"role": "assistant", "text": "# Done\n\n- *both*\n- " + "word " * 100, "calls": [], "usage": {}}
            records = [
                {"role": "user", "text": "go"},
                {"role": "assistant", "text": "", "calls": calls, "usage": {}},
                {"role": "results", "results": results},
                said,
            ]
            await crib.store.sessions.append_many(session.id, records)
            await session.close()

    run_async(worked())
    shown = run("chat", "--continue", "--provider", "manual").err
    assert "  💻 terminal runs rm -rf build  denied: " in shown
    assert "patch edits a.txt  ok\n" in shown
