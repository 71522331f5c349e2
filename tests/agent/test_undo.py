"""Undo of changes by file tools, through a session's public interface."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import Crib, RunResult, Session, assemble
from agent.config import Config, parse_config
from agent.conversation.limits import RunLimits
from agent.undo import NothingToUndoError, Undo, UndoPlan, UndoRequest
from tests.forks import Forks
from toolcrib import (
    Answer,
    Environment,
    EnvironmentFailed,
    ExecutedCall,
    Image,
    ProviderTurn,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolcribError,
    ToolResult,
)
from toolcrib.contract.undo import ChangeStep
from toolcrib.testing import FakeEnvironment
from tools.dispatch.bridge import run_async
from tools.dispatch.json_results import as_json
from tools.environments import open_environment
from tools.environments.local import LocalEnvironment
from tools.files.text import decode, split_lines
from tools.undo.restore import Done

Tree = dict[str, tuple[bytes | None, int]]


def agree(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    return Answer(ticket.id, payload={"approved": True, "scope": "once"})


class Hand:
    """A model that makes the given calls, one a turn, and ends the run when it is given None."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[ToolCall | None] = asyncio.Queue()
        self._results: asyncio.Queue[ExecutedCall] = asyncio.Queue()

    async def make(self, call: ToolCall) -> ExecutedCall:
        await self._calls.put(call)
        return await self._results.get()

    async def end(self) -> None:
        await self._calls.put(None)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Ignore the message: the test decides the calls."""

    async def stream_turn(self, on_event: Any) -> ProviderTurn:
        call = await self._calls.get()
        return ProviderTurn("done") if call is None else ProviderTurn("", (call,))

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        await self._results.put(*executed)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


class Person:
    """A session in ``folder``, and a user's actions on it. After ``turn`` a model makes the calls, before it the person."""

    def __init__(self, crib: Crib, folder: Path) -> None:
        self.crib = crib
        self.folder = folder
        self.session: Session = crib.open_session(asker=agree, cwd=str(folder))
        self._hand: Hand | None = None
        self._run: asyncio.Task[RunResult] | None = None

    def turn(self) -> None:
        """Send a message: its run continues until the next message, or until an undo."""
        run_async(self._begin())

    async def _begin(self) -> None:
        await self._end()
        self._hand = Hand()
        self.session.link.use(self._hand)
        self._run = asyncio.create_task(self.session.ask("go on", limits=RunLimits(max_turns=1_000, repeats=1_000)))

    async def _end(self) -> None:
        if self._hand is not None and self._run is not None:
            await self._hand.end()
            assert (await self._run).stopped == "done"
        self._hand = self._run = None

    def close(self) -> None:
        run_async(self._end())
        self.session.close_sync()

    def run_call(self, name: str, args: Any) -> ExecutedCall:
        if self._hand is None:
            return self.session.call(name, args)
        return run_async(self._hand.make(ToolCall(ToolCall.new_id(), name, args)))

    def call(self, name: str, **args: Any) -> ToolResult:
        return self.run_call(name, args).result

    def write(self, path: str, content: str) -> ToolResult:
        result = self.call("write_file", path=path, content=content)
        assert result.is_success, result
        return result

    def delete(self, path: str) -> None:
        text = decode((self.folder / path).read_bytes())
        assert text is not None
        lines = split_lines(text.text)
        body = "".join(f"-{line}" for line in lines)
        body += "" if body.endswith("\n") else "\n\\ No newline at end of file\n"
        diff = f"--- a/{path}\n+++ /dev/null\n@@ -1,{len(lines)} +0,0 @@\n{body}"
        result = self.call("patch", diff=diff if lines else f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n")
        assert result.is_success, result

    def rename(self, old: str, new: str) -> ToolResult:
        return self.call("patch", diff=f"diff --git a/{old} b/{new}\nrename from {old}\nrename to {new}\n")

    def plan(self, what: Any = "turn", name: str = "", *, force: bool = False) -> UndoPlan:
        return self.plan_for(UndoRequest(what, name, force))

    def plan_for(self, wanted: UndoRequest, environment: Environment | None = None) -> UndoPlan:
        run_async(self._end())
        return run_async(self._undo.plan(wanted, environment or self.session.scope.environment))

    def carry_out(self, plan: UndoPlan) -> Done:
        return run_async(self._undo.carry_out(plan, self.session.scope.environment))

    def undo(self, what: Any = "turn", name: str = "", *, force: bool = False) -> Done:
        return self.carry_out(self.plan(what, name, force=force))

    @property
    def _undo(self) -> Undo:
        return self.crib.undo(self.session.id)

    @property
    def steps(self) -> Sequence[ChangeStep]:
        return run_async(self._undo.steps())

    def tree(self) -> Tree:
        found: Tree = {}
        for path in sorted(self.folder.rglob("*")):
            content = None if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(self.folder))] = (content, path.stat().st_mode & 0o7777)
        return found


def configured(text: str) -> Config:
    return parse_config(text.encode(), Path(os.environ["HOME"]) / "config.yaml")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Person]]:
    """``opened("undo: {max_mb: 1}")``: a session with this configuration."""
    (tmp_path / "project").mkdir()
    cribs: list[Person] = []

    def make(text: str = "", folder: Path | None = None) -> Person:
        config = configured(text) if text else None
        cribs.append(Person(assemble(config=config, project_dir=tmp_path / "project"), folder or tmp_path / "project"))
        return cribs[-1]

    yield make
    for each in cribs:
        each.close()
        each.crib.close()


@pytest.fixture
def person(opened: Callable[..., Person]) -> Person:
    return opened()


def actions(done: Done) -> dict[str, str]:
    return {Path(item.path).name: item.why_not or item.action for item in done.items}


# -- undo and redo ---------------------------------------------------------------------------------------------------


def test_a_turn_is_taken_back_and_brought_back(person: Person) -> None:
    script, old = person.folder / "run.sh", person.folder / "old.txt"
    script.write_text("echo 1\n")
    script.chmod(0o750)
    old.write_text("one\ntwo\n")
    before = person.tree()
    person.turn()
    person.write("new/deep/x.txt", "x\n")
    person.write("run.sh", "echo 2\n")
    person.turn()
    assert person.call("patch", path="run.sh", old="echo 2", new="echo 3").is_success
    person.delete("old.txt")
    assert person.rename("new/deep/x.txt", "y.txt").is_success
    after = person.tree()
    done = person.undo()
    assert actions(done) == {"run.sh": "restore", "old.txt": "recreate", "x.txt": "recreate", "y.txt": "remove"}
    assert (script.read_text(), old.read_text()) == ("echo 2\n", "one\ntwo\n")
    person.undo()
    assert person.tree() == before, "modes, folders and all"
    with pytest.raises(NothingToUndoError, match="nothing is left to undo"):
        person.plan()
    person.undo("redo")
    person.undo("redo")
    assert {name: found for name, found in person.tree().items() if found[0] is not None} == {
        name: found for name, found in after.items() if found[0] is not None
    }
    with pytest.raises(NothingToUndoError, match="no undo to revert"):
        person.plan("redo")
    person.undo()
    person.undo()
    assert person.tree() == before


def test_a_call_is_taken_back_by_itself(person: Person) -> None:
    person.turn()
    person.write("a", "1")
    person.write("b", "1")
    first, _ = person.steps
    person.undo("call", first.call_id[-6:])
    assert [path.name for path in person.folder.iterdir()] == ["b"]
    with pytest.raises(ToolcribError, match="already undone"):
        person.plan("call", first.call_id)
    with pytest.raises(ToolcribError, match="no call whose id begins or ends"):
        person.plan("call", "nobody")
    with pytest.raises(ToolcribError, match="several calls"):
        person.plan("call", "call_")
    with pytest.raises(ToolcribError, match=r"no turn 77 changed files; turns that did: 1"):
        person.plan("turn", "77")
    with pytest.raises(ToolcribError, match="'x' is not the number of a turn"):
        person.plan("turn", "x")
    person.undo("call")
    assert list(person.folder.iterdir()) == []


def test_one_file_of_a_turn_is_taken_back_and_the_rest_later(person: Person) -> None:
    person.turn()
    for name in ("d/a", "d/b", "c"):
        person.write(name, "1")

    def undo(*paths: str, what: Any = "turn") -> Done:
        wanted = UndoRequest(what, paths=paths)
        return person.carry_out(person.plan_for(wanted))

    assert actions(undo("./b", f"{person.folder}/c")) == {"b": "remove", "c": "remove"}
    assert actions(undo("c", what="redo")) == {"c": "recreate"}
    with pytest.raises(ToolcribError, match=r"x is not among the changed files: .*/c, .*/d/a"):
        undo("x")
    assert actions(person.undo()) == {"c": "remove", "a": "remove"}
    assert list(person.folder.iterdir()) == []


def test_a_file_that_was_deleted_and_written_anew_gets_its_mode_back(person: Person) -> None:
    person.turn()
    person.write("a", "1")
    (person.folder / "a").chmod(0o600)
    person.turn()
    person.delete("a")
    person.write("a", "1")
    assert (person.folder / "a").stat().st_mode & 0o777 == 0o644
    assert actions(person.undo()) == {"a": "restore"}
    assert (person.folder / "a").stat().st_mode & 0o777 == 0o600
    person.undo("redo")
    assert (person.folder / "a").stat().st_mode & 0o777 == 0o644


OPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "patch", "delete", "rename", "turn"]),
        st.sampled_from(["a", "b", "d/x", "d/e/y", "n/z"]),
        st.sampled_from(["a", "d/w", "m/k/v", "n/z"]),
        st.sampled_from(["", "one\n", "two\nlines\n", "caf\u00e9 without an end"]),
    ),
    max_size=10,
)


@settings(max_examples=25)
@given(ops=OPS, units=st.lists(st.sampled_from(["turn", "call"]), min_size=10, max_size=10))
def test_whatever_was_done_can_be_taken_back_and_done_again(ops: list[tuple[str, str, str, str]], units: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "p"
        (folder / "d").mkdir(parents=True)
        (folder / "a").write_bytes(b"a \xff\r\nb\r\n")
        (folder / "d" / "x").write_text("one\n")
        (folder / "d" / "x").chmod(0o600)
        with assemble(project_dir=folder) as crib:
            person = Person(crib, folder)
            before = person.tree()
            for what, path, other, content in ops:
                match what:
                    case "write":
                        person.call("write_file", path=path, content=content)
                    case "patch":
                        person.call("patch", path=path, old="one\n", new=content)
                    case "delete" if (folder / path).is_file():
                        person.delete(path)
                    case "rename":
                        person.rename(path, other)
                    case _:
                        person.turn()
            after = person.tree()
            undone = 0
            try:
                for unit in [*units, *["turn"] * len(ops)]:
                    done = person.undo(unit)
                    assert not done.refused
                    undone += bool(done.changed)
            except NothingToUndoError:
                assert person.tree() == before
            for _ in range(undone):
                assert not person.undo("redo").refused
            assert {path: kept for path, kept in person.tree().items() if kept[0] is not None} == {
                path: kept for path, kept in after.items() if kept[0] is not None
            }
            person.close()


# -- what undo leaves alone ------------------------------------------------------------------------------------------


def test_a_file_that_changed_since_is_left_alone_but_for_force(person: Person) -> None:
    person.turn()
    person.write("mine", "1")
    person.write("theirs", "1")
    (person.folder / "mine").write_text("my own work")
    done = person.undo()
    assert actions(done) == {"mine": "it has changed since", "theirs": "remove"}
    assert (person.folder / "mine").read_text() == "my own work"
    with pytest.raises(NothingToUndoError):
        person.plan()
    forced = person.undo(force=True, name="1")
    assert (actions(forced), forced.items[0].by_force) == ({"mine": "remove"}, "it has changed since")
    person.undo("redo")
    assert (person.folder / "mine").read_text() == "my own work"


@pytest.mark.parametrize("what", ["turn", "call"])
def test_force_completes_what_the_last_undo_refused_before_it_goes_further_back(person: Person, what: str) -> None:
    both = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-1\n+2\n" for name in ("a", "b"))
    person.turn()
    person.write("a", "1\n")
    person.write("b", "1\n")
    person.turn()
    assert person.call("patch", diff=both).is_success
    (person.folder / "a").write_text("by hand")
    assert actions(person.undo(what)) == {"a": "it has changed since", "b": "restore"}
    (person.folder / "b").write_text("by hand, too")
    forced = person.undo(what, force=True)
    assert (actions(forced), (person.folder / "a").read_text()) == ({"a": "restore"}, "1\n")
    assert (person.folder / "b").read_text() == "by hand, too", "an earlier turn is not undone over it"
    assert "b" in actions(person.undo(what, force=True))


def test_nothing_goes_further_back_by_itself_past_what_cannot_be_undone(person: Person) -> None:
    person.turn()
    person.write("a", "1")
    person.turn()
    person.write("b", "1")
    (person.folder / "b").write_text("2")
    for _ in range(2):
        plan = person.plan()
        assert plan.acting == []
        assert [Path(item.path).name for item in plan.refused] == ["b"]
    person.undo("turn", "1")
    assert not (person.folder / "a").exists()


def test_a_later_change_is_named(person: Person) -> None:
    person.turn()
    person.write("a", "1")
    person.turn()
    person.call("patch", path="a", old="1", new="2")
    assert person.plan("turn", "1").refused[0].why_not == "it has changed since, by patch in turn 5: undo that first"


def test_a_change_between_two_calls_of_a_turn_is_not_lost_unseen(person: Person) -> None:
    person.turn()
    person.write("a", "1")
    (person.folder / "a").write_text("1\nby hand\n")
    person.write("a", "2")
    assert "another program changed it between" in person.plan().refused[0].why_not
    person.undo("call")
    assert (person.folder / "a").read_text() == "1\nby hand\n"


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (lambda path: path.mkdir(), "a folder is there now"),
        (lambda path: path.symlink_to("/etc/passwd"), "a symbolic link is now in its path"),
        (lambda path: os.mkfifo(path), "a special file is there now"),
    ],
)
def test_what_took_the_place_of_the_file_stays_even_by_force(person: Person, put: Callable[[Path], None], why: str) -> None:
    person.write("a", "1")
    (person.folder / "a").unlink()
    put(person.folder / "a")
    assert [item.why_not for item in person.plan(force=True).items] == [why]


def test_a_link_in_place_of_a_folder_leads_nowhere(person: Person, tmp_path: Path) -> None:
    (person.folder / "d").mkdir()
    (person.folder / "d" / "a").write_text("old")
    person.write("d/a", "new")
    shutil.move(person.folder / "d", tmp_path / "elsewhere")
    (person.folder / "d").symlink_to(tmp_path / "elsewhere")
    assert person.plan(force=True).refused[0].why_not == "a symbolic link is now in its path"
    assert (tmp_path / "elsewhere" / "a").read_text() == "new"


def test_a_file_that_changes_while_it_is_shown_is_left_alone(person: Person) -> None:
    person.write("a", "1")
    plan = person.plan()
    (person.folder / "a").write_text("2")
    assert actions(person.carry_out(plan)) == {"a": "it has changed since"}


def test_what_is_already_as_it_was_counts_as_undone(person: Person) -> None:
    person.write("a", "1")
    (person.folder / "a").unlink()
    assert actions(person.undo()) == {"a": "nothing"}
    with pytest.raises(NothingToUndoError):
        person.plan()


def test_another_place_is_refused(person: Person) -> None:
    """A file is only reverted in the environment that holds it."""
    person.write("a", "1")
    elsewhere = FakeEnvironment({str(person.folder / "a"): b"1"})
    plan = person.plan_for(UndoRequest(), elsewhere)
    assert (
        plan.refused[0].why_not == "it was changed on local, but this is fake: undo it there with --backend, if it still exists"
    )


def test_other_folders_stay_where_a_place_cannot_remove_them(person: Person) -> None:
    class Old:
        """A plugin's environment that lacks the newer method ``delete_folder``."""

        identity = "old"

        def __init__(self, inner: LocalEnvironment) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            if name in ("delete_folder", "holder"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    person.session.scope.open_environment = lambda: Old(LocalEnvironment(str(person.folder)))  # type: ignore[assignment, return-value]  # duck-typed
    person.write("d/a", "1")
    done = person.undo()
    assert (person.folder / "d").is_dir()
    assert not (person.folder / "d" / "a").exists()
    assert any("can't remove folders" in note for note in done.notes)


# -- what is not stored ----------------------------------------------------------------------------------------------


def test_a_file_too_big_is_replaced_and_that_is_said(opened: Callable[..., Person]) -> None:
    person = opened("undo: {max_file_mb: 1}")
    (person.folder / "big").write_bytes(b"x" * (2 * 1024 * 1024))
    result = person.write("big", "small")
    assert "can't be undone" in result.views["model"]
    assert "2 MiB" in result.data["note"]
    assert "only files up to 1 MiB are kept" in person.plan().refused[0].why_not
    (person.folder / "big").write_text("".join(f"{'x' * 50} {number}\n" for number in range(30_000)))
    assert "can't be undone" in as_json(person.run_call("patch", {"path": "big", "old": " 77\n", "new": " 78\n"}))


def test_where_all_must_be_undoable_the_rest_is_not_done(opened: Callable[..., Person]) -> None:
    person = opened("undo: {max_file_mb: 1, required: true}")
    (person.folder / "big").write_bytes(b"x" * (2 * 1024 * 1024))
    result = person.call("write_file", path="big", content="small")
    assert result.is_error
    assert "undo.required" in str(result.message)
    assert (person.folder / "big").stat().st_size == 2 * 1024 * 1024
    with pytest.raises(NothingToUndoError, match="changed nothing in this session"):
        person.plan()
    assert person.write("small", "1").is_success


def test_where_nothing_can_be_kept_the_call_goes_on_and_says_so(person: Person) -> None:
    state = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib"
    (person.folder / "a").write_text("1")
    (state / "undo").write_text("a file in the way, as a full disk would be")
    result = person.write("a", "2")
    assert "this can't be undone" in result.views["model"]
    assert (person.folder / "a").read_text() == "2"
    (state / "undo").unlink()
    (state / "undo" / "contents.db").mkdir(parents=True)
    assert "could not be kept" in person.write("a", "3").data["note"]


def test_contents_that_are_gone_are_told(person: Person) -> None:
    (person.folder / "a").write_text("1")
    person.write("a", "2")
    person.write("b", "2")
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "undo")
    assert "no longer kept" in person.plan("call", person.steps[0].call_id).refused[0].why_not
    assert actions(person.undo("call")) == {"b": "remove"}, "a removal needs none"


def test_without_a_store_it_works_as_long_as_the_process_lives(opened: Callable[..., Person]) -> None:
    person = opened("store: {enabled: false}")
    (person.folder / "a").write_text("1")
    person.write("a", "2")
    person.undo()
    assert (person.folder / "a").read_text() == "1"
    assert not (Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "undo").exists()


def test_what_is_too_old_goes_from_the_journal_too(opened: Callable[..., Person], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    person = opened("undo: {days: 2}")
    for _ in range(6):
        person.write("a", f"{now}\n")
        now += 86_400.0
    steps = person.steps
    assert 2 <= len(steps) <= 4
    assert now - steps[0].at <= 4 * 86_400


def test_where_it_is_switched_off_nothing_is_kept(opened: Callable[..., Person]) -> None:
    person = opened("undo: {enabled: false}")
    person.write("a", "1")
    assert list(run_async(person.crib.store.changes.sessions())) == []
    with pytest.raises(ToolcribError, match=r"undo\.enabled is false"):
        person.plan()


def test_a_call_that_failed_is_no_change(person: Person) -> None:
    (person.folder / "f").write_text("1\n")
    (person.folder / "d").mkdir()
    (person.folder / "d").chmod(0o555)
    assert person.call("write_file", path="f/a", content="x").is_error
    assert person.call("patch", path="f", old="none", new="x").is_error
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/f/x\n@@ -0,0 +1 @@\n+x\n"
    assert person.call("patch", diff=diff).is_error
    assert (person.folder / "f").read_text() == "1\n"
    person.write("f", "1\n")
    assert list(run_async(person.crib.store.changes.sessions())) == [], "the last one wrote what was there already"


def test_old_contents_do_not_leave_the_state_folder(person: Person, caplog: pytest.LogCaptureFixture) -> None:
    (person.folder / "a").write_text("a very secret line\n")
    with caplog.at_level("DEBUG"):
        result = person.write("a", "2")
        person.undo()
    assert "very secret" not in caplog.text + json.dumps(result.to_json(), default=str)
    assert b"very secret" not in (Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "toolcrib.db").read_bytes()


# -- concurrent and interrupted changes ------------------------------------------------------------------------------


def test_two_sessions_that_write_one_file_each_know_what_they_replaced(opened: Callable[..., Person]) -> None:
    people = [opened(), opened()]
    path = people[0].folder / "a"
    path.write_text("start")

    def work(number: int) -> None:
        for count in range(10):
            people[number].write("a", f"{number} {count}")

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = sorted(
        (step for each in people for step in each.steps),
        key=lambda step: step.id,
    )
    states = [(change.before, change.after) for step in steps for change in step.changes]
    assert len(states) == 20
    for (_, after), (before, _) in pairwise(states):
        assert after is not None
        assert before is not None
        assert after.digest == before.digest


KILLED = """
import os, signal, sys
from pathlib import Path
from agent.config import parse_config
from agent.api import assemble
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async
from tools.environments.local import LocalEnvironment
from tools.files.text import decode, split_lines
at, write = sys.argv[1], LocalEnvironment.replace_file
async def dies(self, path, data, **facts):
    if at == "after":
        await write(self, path, data, **facts)
    os.kill(os.getpid(), signal.SIGKILL)
LocalEnvironment.replace_file = dies
plain = b"sandbox: {mode: none}\\nsnapshots: {enabled: false}"
with assemble(config=parse_config(plain, Path("none")), project_dir=Path.cwd()) as crib:
    session = crib.open_session()
    session.link.use(ScriptedSession([("write_file", {"path": "a", "content": "2"})]))
    print(session.id, flush=True)
    run_async(session.ask("go"))
"""


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_process_killed_around_the_write_leaves_what_can_be_undone(person: Person, forks: Forks, at: str) -> None:
    path = person.folder / "a"
    path.write_text("1")
    done = forks.run(at, code=KILLED, cwd=person.folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.read_text() == ("2" if at == "after" else "1")
    person.close()
    person.session = person.crib.open_session(resume=done.stdout.strip())
    assert actions(person.undo()) == {"a": "restore" if at == "after" else "nothing"}
    assert path.read_text() == "1"


TORN = """
import os, signal, sys
from pathlib import Path
from agent.config import parse_config
from agent.api import assemble
from agent.undo import UndoRequest
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async
write, number = os.write, os.stat("a").st_ino
def dies(fd, data):
    if os.fstat(fd).st_ino == number:
        write(fd, bytes(data[:len(data) // 2]))
        os.kill(os.getpid(), signal.SIGKILL)
    return write(fd, data)
os.write = dies
with assemble(config=parse_config(b"undo: {max_file_mb: 1}", Path("none")), project_dir=Path.cwd()) as crib:
    if sys.argv[1] == "edit":
        session = crib.open_session()
        session.link.use(ScriptedSession([("write_file", {"path": "a", "content": sys.stdin.read()})]))
        print(session.id, flush=True)
        run_async(session.ask("go"))
    else:
        session = crib.open_session(resume=sys.argv[2])
        async def undo():
            taking, place = crib.undo(session.id), session.scope.environment
            await taking.carry_out(await taking.plan(UndoRequest(), place), place)
        run_async(undo())
"""


def torn(person: Person, forks: Forks, *what: str, text: str = "") -> str:
    """Kill a process that has written half of the file ``a``, and return its output."""
    done = forks.run(*what, code=TORN, cwd=person.folder, stdin=text)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [("one\n" * 40, "two\n" * 60), ("one\n" * 60, "two\n" * 40), ("old", "x" * 3000), ("1" * 2_000_000, "2" * 99)],
    ids=["longer", "shorter", "much longer", "too big to be kept"],
)
def test_an_edit_in_place_that_was_cut_off_is_taken_back_or_completed(person: Person, forks: Forks, old: str, new: str) -> None:
    """A file with several names is written in place, so it is half written. A file too big to be stored is still recorded."""
    path = person.folder / "a"
    path.write_text(old)
    (person.folder / "b").hardlink_to(path)
    before = path.stat()
    session_id = torn(person, forks, "edit", text=new)
    half = path.read_text()
    assert half not in (old, new)
    person.close()
    person.session = person.crib.open_session(resume=session_id)
    assert actions(person.undo()) == {"a": "restore"}
    assert (path.read_text(), path.stat().st_mtime_ns, path.stat().st_nlink) == (old, before.st_mtime_ns, 2)
    assert sorted(each.name for each in person.folder.iterdir()) == ["a", "b"]
    assert actions(person.undo("redo")) == {"a": "restore"}
    assert (person.folder / "b").read_text() == new


def test_a_file_too_big_to_be_kept_that_was_not_changed_is_as_it_was(
    opened: Callable[..., Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection or the process died before the edit began."""
    person = opened("undo: {max_file_mb: 1}")
    (person.folder / "a").write_bytes(b"1" * 2_000_000)

    async def lost(self: LocalEnvironment, path: str, data: bytes, **facts: Any) -> Sequence[str]:
        raise EnvironmentFailed("lost")

    with monkeypatch.context() as patch:
        patch.setattr(LocalEnvironment, "replace_file", lost)
        assert not person.call("write_file", path="a", content="2").is_success
    assert actions(person.undo()) == {"a": "nothing"}


def test_an_edit_that_was_cut_off_and_then_mended_by_hand_is_left_alone(person: Person, forks: Forks) -> None:
    path = person.folder / "a"
    path.write_text("one\n" * 40)
    (person.folder / "b").hardlink_to(path)
    session_id = torn(person, forks, "edit", text="two\n" * 60)
    path.write_text(path.read_text().replace("\0", "").replace("one", "by hand", 1))
    person.close()
    person.session = person.crib.open_session(resume=session_id)
    assert actions(person.undo()) == {"a": "it has changed since"}


def test_an_undo_that_was_cut_off_within_a_file_is_completed(person: Person, forks: Forks) -> None:
    path = person.folder / "a"
    path.write_text("one\n" * 40)
    (person.folder / "b").hardlink_to(path)
    person.write("a", "two\n" * 60)
    session_id = person.session.id
    person.close()
    torn(person, forks, "undo", session_id)
    assert path.read_text() not in ("one\n" * 40, "two\n" * 60)
    person.session = person.crib.open_session(resume=session_id)
    assert actions(person.undo()) == {"a": "restore"}
    assert path.read_text() == "one\n" * 40
    assert sorted(each.name for each in person.folder.iterdir()) == ["a", "b"]


def test_an_edit_that_failed_is_in_the_list_only_if_it_changed_something(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (person.folder / name).write_text("1\n")
    write = LocalEnvironment.replace_file

    async def fails(self: LocalEnvironment, path: str, data: bytes, **facts: Any) -> Sequence[str]:
        if path.endswith("b") and data == b"2\n":
            raise OSError(28, "No space left on device")
        if path.endswith("a") and data == b"1\n":
            raise OSError(5, "Input/output error")
        return await write(self, path, data, **facts)

    monkeypatch.setattr(LocalEnvironment, "replace_file", fails)
    both = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-1\n+2\n" for name in "ab")
    result = person.call("patch", diff=both)
    assert str(result.message).endswith(f"No space left on device; could not be restored: {person.folder}/a")
    assert [Path(change.path).name for step in person.steps for change in step.changes] == ["a"]
    assert not person.call("write_file", path="b", content="2\n").is_success
    assert len(person.steps) == 1
    monkeypatch.undo()
    assert actions(person.undo()) == {"a": "restore"}


def test_an_undo_that_was_cut_short_can_be_done_again(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.turn()
    for name in "abc":
        (person.folder / name).write_text("1")
        person.write(name, "2")
    write, left = LocalEnvironment.replace_file, [1]

    async def breaks(self: LocalEnvironment, path: str, data: bytes, **facts: Any) -> Sequence[str]:
        if not left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        return await write(self, path, data, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(LocalEnvironment, "replace_file", breaks)
        done = person.undo()
    assert sorted(actions(done).values()) == ["No space left on device", "not done, because another file failed", "restore"]
    person.undo()  # the second undo continues with these files, not with earlier changes
    assert {name: (person.folder / name).read_text() for name in "abc"} == dict.fromkeys("abc", "1")


def test_bare_calls_keep_nothing(tmp_path: Path) -> None:
    import model_tools

    answer = model_tools.handle_function_call("write_file", {"path": str(tmp_path / "a"), "content": "1"}, task_id="undo-test")
    assert "created" in answer
    assert not (Path(os.environ["XDG_STATE_HOME"]) / "toolcrib").exists()


def test_a_sandbox_s_own_tmp_is_not_this_machine_s(tmp_path: Path) -> None:
    environment: Any = open_environment("local", cwd=str(tmp_path), sandbox="bubblewrap")
    assert environment.holder(f"{tmp_path.resolve()}/a") == "local"
    assert environment.holder("/tmp/a") != "local"
    asyncio.run(environment.close())
