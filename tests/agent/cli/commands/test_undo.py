"""``toolcrib undo``, and ``/undo`` in the chat; tests/agent/test_undo.py tests the changes themselves."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.conversation import Conversation
from agent.cli.format_undo import SPARE, WHOLE, rows
from agent.cli.opening import ChatOpening
from agent.cli.render import Screen, table
from agent.cli.slash import obey
from agent.config import config_path
from agent.conversation.limits import RunLimits
from agent.model_choice.models import ModelChoice
from tests.forks import Forks
from toolcrib.contract.undo import ChangeStep, FileChange
from toolcrib.testing import ChatServer

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def write(run: Any) -> Callable[[str, str], None]:
    def write(path: str, content: str) -> None:
        assert run("call", "write_file", json.dumps({"path": path, "content": content})).code == 0

    return write


def test_it_shows_asks_and_does(run: Any, write: Any, tmp_path: Path) -> None:
    """Each repetition reverts an earlier turn; piped input never counts as an answer."""
    write("d/a", "1\n")
    write("d/a", "2\n")
    shown = run("undo", "--dry-run")
    assert (shown.code, "restore   " in shown.out, "(+1 -1 lines)" in shown.out) == (0, True, True)
    unasked = run("undo", stdin=b"yes\n")
    assert (unasked.code, unasked.out.replace("0 s", "1 s")) == (4, shown.out.replace("0 s", "1 s"))
    assert "add --yes" in unasked.err
    assert (tmp_path / "d" / "a").read_text() == "2\n"
    done = run("undo", "--yes")
    assert (done.code, "restored " in done.out) == (0, True)
    assert (tmp_path / "d" / "a").read_text() == "1\n"
    assert run("undo", "--yes").code == 0
    assert not (tmp_path / "d").exists()
    nothing = run("undo", "--yes")
    assert (nothing.code, "nothing is left to undo" in nothing.err) == (1, True)
    back = run("undo", "--redo", "--yes")
    assert (back.code, "recreated" in back.out) == (0, True)
    assert (tmp_path / "d" / "a").read_text() == "1\n"


_KILLED = """
import os, signal, sys
from pathlib import Path
from agent.api import assemble
from tests.agent.test_undo import Person

person = Person(assemble(project_dir=sys.argv[1]), Path(sys.argv[1]))
assert person.call("terminal", command="until [ -e go ]; do sleep 0.02; done; rm data; touch seen", background=True).is_success
print(person.session.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_program_changed_after_a_kill_is_listed_and_undone(run: Any, forks: Forks, tmp_path: Path) -> None:
    """003-30"""
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text("snapshots: {enabled: true}\nsandbox: {mode: none}\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / "data").write_text("not committed")
    session = forks.run(str(tmp_path), code=_KILLED, cwd=tmp_path, env=dict(os.environ)).stdout.strip()
    (tmp_path / "go").touch()
    while not (tmp_path / "seen").exists():
        time.sleep(0.01)
    (step,) = json.loads(run("undo", "--list", "--json").out)
    assert (step["session"], [Path(file["path"]).name for file in step["files"]]) == (session, ["data", "go", "seen"])
    assert run("undo", "--session", session, "--call", step["call"], "--yes").code == 0
    assert (tmp_path / "data").read_text() == "not committed"


def test_a_killed_session_whose_project_is_gone_does_not_hide_the_list(
    run: Any, write: Any, forks: Forks, tmp_path: Path
) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text("snapshots: {enabled: true}\nsandbox: {mode: none}\n")
    (other := tmp_path / "other").mkdir()
    (other / "data").touch()
    (other / "go").touch()
    session = forks.run(str(other), code=_KILLED, cwd=other, env=dict(os.environ)).stdout.strip()
    while not (other / "seen").exists():
        time.sleep(0.01)
    shutil.rmtree(other)
    write("a", "1")
    listed = run("undo", "--list")
    assert listed.code == 0
    assert ["A", "a"] in [line.split()[-2:] for line in listed.out.splitlines()]
    assert f"changes of session {session[:12]} since it was killed could not be recorded: {other} is not a folder" in listed.err


def test_what_changed_since_is_told_and_fails(run: Any, write: Any, tmp_path: Path) -> None:
    write("a", "1")
    (tmp_path / "a").write_text("mine")
    refused = run("undo", "--yes")
    forced = "--force also reverts files that have changed since" in refused.out
    assert (refused.code, refused.out.count("it has changed since"), forced) == (1, 1, True)
    assert "choose with --session, --turn or --call: toolcrib undo --list" in refused.out
    assert (tmp_path / "a").read_text() == "mine"
    assert run("undo", "--force", "--yes").code == 0
    assert not (tmp_path / "a").exists()
    assert run("undo", "--redo", "--yes").code == 0
    assert (tmp_path / "a").read_text() == "mine"


def test_the_list_and_json(run: Any, write: Any, tmp_path: Path) -> None:
    assert run("undo", "--list").out == "nothing to undo yet: no change is recorded\n"
    write("a", "1")
    write("b\x1b", "1")
    listed = run("undo", "--list")
    assert listed.out.splitlines()[1].split()[-2:] == ["A", "b^["]
    (newest, oldest) = json.loads(run("undo", "--list", "--json").out)
    assert (oldest["tool"], oldest["state"], oldest["files"][0]["before"]) == ("write_file", "in effect", None)
    assert oldest["files"][0]["after"]["size"] == 1
    said = run("undo", "--json", "--session", oldest["session"][:12])
    assert (said.code, json.loads(said.out or "{}")) == (4, {})
    planned = json.loads(run("undo", "--json", "--dry-run", "--call", newest["call"], "--session", newest["session"]).out)
    assert (planned["done"], [file["action"] for file in planned["files"]]) == (False, ["remove"])
    done = json.loads(run("undo", "--json", "--yes", "--session", oldest["session"]).out)
    assert (done["done"], done["files"][0]["path"], done["not_undone"]) == (True, str(tmp_path / "a"), [])
    assert [step["kind"] for step in json.loads(run("undo", "--list", "--json", "--session", oldest["session"]).out)] == [
        "undo",
        "call",
    ]


def test_the_list_shows_the_files_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    change = FileChange("/home/me/a/long/folder/src/calc/numbers.py", "local", None, None)
    outside = FileChange("/home/me/a/long/folder-b/x", "local", None, None)
    steps = [ChangeStep("0" * 32, 1, "call_" + "1" * 30, "write_file", 0.0, (one,)) for one in (change, outside)]
    out = Terminal()
    table(rows(steps, 9.0, "/home/me/a/long/folder"), out=out, spare=SPARE, whole=WHOLE)
    _head, first, second = out.getvalue().splitlines()
    assert first.endswith(" src/calc/numbers.py")
    assert second.endswith(" /home/me/a/long/folder-b/x")
    assert max(len(first), len(second)) <= 80


def test_what_is_not_there_is_said(run: Any, write: Any, tmp_path: Path) -> None:
    nowhere = run("undo")
    assert (nowhere.code, "no session of this folder" in nowhere.err) == (1, True)
    write("a", "1")
    assert "no session begins with" in run("undo", "--session", "nobody").err
    assert run("undo", "--session", "nobody").code == 2
    assert run("undo", "--call", "nobody").code == 2
    assert "changed files" in run("undo", "--turn", "9").err
    assert "no undo to revert" in run("undo", "--redo").err
    assert run("undo", "--call", "--turn").code == 2


def chat(run: Any, server: ChatServer, *lines: str) -> Any:
    typed = "".join(f"{line}\n" for line in lines).encode()
    return run("chat", "--base-url", server.base_url, "--model", "test-model", stdin=typed)


def said(request: Any) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "user"]


def test_what_a_later_turn_ran_is_told_before_the_turn_that_can_be_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undo does not record the files that a command changes. Without the message, the user would expect undo to revert them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calc.py").write_text("1\n")
    asked: list[str] = []

    async def confirm(question: str) -> bool:
        asked.append(capsys.readouterr().err)
        return True

    async def talk(server: ChatServer, *lines: str) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            opening = ChatOpening(crib, lambda ticket, ctx: None, RunLimits(), confirm=confirm)
            chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
            await chat.open()
            for line in lines:
                await chat.say(line)
            await chat.close()

    wrote = ChatServer.calls(("write_file", {"path": "keep.txt", "content": "k"}), ("terminal", {"command": "ls"}))
    removed = ChatServer.calls(("terminal", {"command": "ls -l"}), ("terminal", {"command": "rm calc.py"}))
    done = ChatServer.text("Done.")
    with ChatServer(wrote, done, removed, done) as server:
        asyncio.run(talk(server, "keep", "tidy", "/undo"))
    before, _, after = asked[0].partition("undo turn 1 (write_file, ")
    assert "after turn 1 `terminal: rm calc.py` ran; its effects cannot be undone\n" in before
    assert after
    assert "terminal: ls" not in asked[0]
    assert not (tmp_path / "keep.txt").exists()


def test_the_chat_takes_back_a_turn_and_says_what_stays(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("one\ntwo\n")
    calls = ChatServer.calls(
        ("write_file", {"path": "a", "content": "2"}),
        ("terminal", {"command": "echo x >> made; true"}),
        ("read_file", {"path": "a"}),
        ("write_file", {"path": "new", "content": "n"}),
    )
    answers = [False, True, True, True]

    async def confirm(question: str) -> bool:
        return answers.pop(0)

    async def talk(server: ChatServer, *lines: str) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            opening = ChatOpening(crib, lambda ticket, ctx: None, RunLimits(), confirm=confirm)
            chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
            await chat.open()
            for line in lines:
                await chat.say(line)
            await chat.close()

    with ChatServer(calls, ChatServer.text("Done."), ChatServer.text("I see.")) as server:
        asyncio.run(talk(server, "change it", *["/undo"] * 3, "/undo redo", "/undo nonsense", "/undo turn 1", "go on"))
    out, err = capsys.readouterr()
    assert answers == []
    assert "undo turn 1 (write_file, " in err
    assert "nothing was done" in err
    assert out.count("`terminal: echo x >> made; true` ran too; its effects are not undone") == 2
    assert "read_file" not in out
    assert "nothing is left to undo" in err
    assert "use /undo, /undo turn [N]" in err
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    assert not (tmp_path / "new").exists()
    first, note = said(server.requests[-1])
    assert first == "change it"
    assert note.startswith("[the user undid the changes of these files: ")
    assert f"{tmp_path}/a" in note
    assert "[the user redid the changes of these files: " in note
    assert note.endswith("\n\ngo on")


def test_a_piped_chat_shows_and_does_not_do(run: Any, tmp_path: Path) -> None:
    """A tool may have produced the piped lines: only a person can undo."""
    calls = ChatServer.calls(("write_file", {"path": "a", "content": "2"}))
    with ChatServer(calls, ChatServer.text("Yes."), ChatServer.text("What?")) as server:
        done = chat(run, server, "change it", '@write_file {"path": "b", "content": "1"}', "/undo", "yes")
    assert "undo the call" in done.err, "what was typed by hand is a turn of its own"
    assert "no user can be asked here" in done.err
    assert [(tmp_path / name).exists() for name in "ab"] == [True, True]


def test_the_model_hears_of_an_undo_from_elsewhere_once(run: Any, tmp_path: Path) -> None:
    calls = ChatServer.calls(("write_file", {"path": "a", "content": "2"}))
    with ChatServer(calls, *(ChatServer.text("Yes.") for _ in range(3))) as server:
        chat(run, server, "change it")
        assert run("undo", "--yes").code == 0
        typed = b"and now?\nand then?\n"
        assert run("chat", "--base-url", server.base_url, "--model", "test-model", "--continue", stdin=typed).code == 0
    assert said(server.requests[-1])[1].startswith("[the user undid the changes of these files: ")
    assert said(server.requests[-1])[2] == "and then?"


def test_it_is_done_in_the_session_s_own_place(run: Any, write: Any, config: Any, tmp_path: Path) -> None:
    write("a", "1")
    config("terminal: {backend: mars}\n")
    refused = run("undo", "--yes")
    assert (refused.code, "--backend NAME" in refused.err) == (2, True)
    assert (tmp_path / "a").exists()
    unknown = run("undo", "--yes", "--backend", "venus")
    assert (unknown.code, "there is no backend 'venus'" in unknown.err) == (2, True)
    assert run("undo", "--yes", "--backend", "local").code == 0
    assert not (tmp_path / "a").exists()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    """Make a project with snapshots."""
    (config_path().parent).mkdir(parents=True, exist_ok=True)
    config_path().write_text("snapshots: {enabled: true}\n")
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/a").write_text("1\n")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_what_a_command_changed_is_shown_undone_and_redone(run: Any, project: Path) -> None:
    assert run("call", "terminal", json.dumps({"command": "mv src/a b; rmdir src; ln -s b link"})).code == 0
    shown = run("undo", "--dry-run")
    assert shown.code == 0
    assert "(terminal, " in shown.out
    lines = [" ".join(line.split()[:2]) for line in shown.out.splitlines() if line.startswith("  ")]
    names = (("remove", "b"), ("remove", "link"), ("recreate", "src"), ("recreate", "src/a"))
    assert sorted(lines) == sorted(f"{verb} {project}/{name}" for verb, name in names)
    assert run("undo", "--yes").code == 0
    assert sorted(path.name for path in project.rglob("*")) == ["a", "src"]
    again = run("undo", "--yes")
    assert (again.code, "no call of this session" in again.err) == (1, True)
    assert run("undo", "--redo", "--yes").code == 0
    assert sorted(path.name for path in project.rglob("*")) == ["b", "link"]
    listed = run("undo", "--list", "--json").out
    assert [step["tool"] for step in json.loads(listed)] == ["redo", "undo", "terminal"]
    assert run("undo", "--file", "src/a", "--yes").code == 0
    assert (project / "src/a").read_text() == "1\n"
    assert (project / "link").is_symlink()


def test_the_chat_undoes_a_turn_of_commands_by_its_number(run: Any, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The diff shows the changes of commands."""

    async def confirm(question: str) -> bool:
        return True

    async def talk(server: ChatServer, *lines: str) -> None:
        async with assemble(project_dir=project) as crib:
            opening = ChatOpening(crib, lambda ticket, ctx: None, RunLimits(), confirm=confirm)
            chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
            await chat.open()
            for line in lines:
                await chat.say(line)
            await chat.close()

    first = ChatServer.calls(("terminal", {"command": "echo 2 >> src/a"}))
    second = ChatServer.calls(("terminal", {"command": "echo x > new; chmod 600 new"}))
    done = ChatServer.text("Done.")
    with ChatServer(first, done, second, done, done) as server:
        asyncio.run(talk(server, "one", "two", "/diff", "/undo 1", "go on"))
    out, err = capsys.readouterr()
    assert "+2" in out
    assert "+x" in out
    assert "undo turn 1 (terminal, " in err
    assert re.search(r"^other turns: /undo \d+ \(terminal\)$", err, re.MULTILINE)
    assert "+++ b/new\n" in out
    assert (project / "src/a").read_text() == "1\n"
    assert (project / "new").exists()
    assert f"[the user undid the changes of these files: {project}/src/a." in said(server.requests[-1])[-1]
