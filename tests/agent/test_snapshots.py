"""Undo of changes by commands, through a session's public interface, with snapshots on."""

from __future__ import annotations

import mmap
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.undo import NothingToUndoError, UndoRequest
from tests.agent.test_undo import Hand, Person, agree, configured
from tests.forks import Forks
from tests.fuzz.undo_scripts import make_tree, picture
from toolcrib import ActivityEvent, Answer, ExecutedCall, ProviderTurn, StoreFailed, SuspendTicket, ToolCall, ToolCallContext
from tools.dispatch.bridge import run_async
from tools.environments.local.holding import sandbox_here
from tools.undo.snapshots.calls import CallRecorder
from tools.undo.snapshots.entries import ProjectSnapshot, SnapshotFailed
from tools.undo.snapshots.project import Project
from tools.undo.snapshots.scan import TreeScanner

Opened = Callable[..., Person]
HELD = sandbox_here("workspace")
ON = "snapshots: {enabled: true}\n"


class Batch(Hand):
    """A model that makes all these calls in one turn."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._turns = [ProviderTurn("", tuple(calls)), ProviderTurn("done")]

    async def stream_turn(self, on_event: Any) -> ProviderTurn:
        return self._turns.pop(0)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        assert all(one.result.is_success for one in executed)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """``opened("snapshots: {skip: [x]}")``: a session with this configuration in a project with unusual files."""
    make_tree(tmp_path / "project")
    subprocess.run(["rm", "-rf", ".git"], cwd=tmp_path / "project", check=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "project", check=True)
    people: list[Person] = []

    def make(text: str = ON) -> Person:
        person = Person(assemble(project_dir=tmp_path / "project", config=configured(text)), tmp_path / "project")
        people.append(person)
        return person

    yield make
    for person in people:
        person.close()
        person.crib.close()
    subprocess.run(["chmod", "-R", "u+rwx", str(tmp_path)], check=True)


def _run(person: Person, command: str) -> None:
    result = person.call("terminal", command=command)
    assert result.is_success, result


def _restored(person: Person) -> list[str]:
    done = person.undo()
    assert not done.refused, done.refused
    return sorted(item.path.removeprefix(f"{person.folder}/") for item in done.changed)


@pytest.mark.parametrize("by_model", [True, False], ids=["a turn", "by hand"])
def test_what_commands_changed_is_undone_exactly(opened: Opened, by_model: bool) -> None:
    person = opened()
    before = picture(person.folder)
    if by_model:
        person.turn()
    _run(person, "rm -rf src empty && mv ro renamed && chmod 640 .env && git add -A && mkdir new && ln -s x new/link")
    if by_model:
        _run(person, "echo more > new/file; echo replaced > .env")
    assert person.undo().refused == []
    assert picture(person.folder) == before


def test_a_file_and_its_new_folder_are_undone_together(opened: Opened) -> None:
    """The tool records the file and the snapshot the folder: two steps of one call that has no turn."""
    person = opened()
    before = picture(person.folder)
    person.write("made/deep/file", "by a tool\n")
    assert _restored(person) == ["made", "made/deep", "made/deep/file"]
    assert picture(person.folder) == before


def test_a_turn_of_tools_and_commands_is_undone_once_and_redone(opened: Opened) -> None:
    person = opened()
    before = picture(person.folder)
    person.turn()
    person.write("src/a.py", "by a tool\n")
    _run(person, "sed -i s/tool/command/ src/a.py; mkdir made; echo 1 > made/one")
    person.turn()
    _run(person, "echo later > later")
    after = picture(person.folder)
    assert _restored(person) == ["later"]
    assert _restored(person) == ["made", "made/one", "src/a.py"]
    assert picture(person.folder) == before
    with pytest.raises(NothingToUndoError):
        person.plan()
    for _ in range(2):
        person.undo("redo")
    assert {path: facts[4] for path, facts in picture(person.folder).items()} == {path: facts[4] for path, facts in after.items()}
    assert [step.tool for step in person.steps if step.kind == "call"] == ["write_file", "terminal", "terminal"]


def test_a_later_change_of_a_person_is_shown_and_kept(opened: Opened) -> None:
    person = opened()
    _run(person, "echo command | tee src/a.py src/b.py > /dev/null")
    (person.folder / "src/a.py").write_text("a person's\n")
    plan = person.plan()
    assert [(item.path.rpartition("/")[2], item.why_not) for item in plan.refused] == [("a.py", "it was changed later")]
    assert [item.path.rpartition("/")[2] for item in plan.acting] == ["b.py"]
    person.carry_out(plan)
    assert (person.folder / "src/a.py").read_text() == "a person's\n"
    assert (person.folder / "src/b.py").read_text() == "two\n"
    person.undo(force=True)
    assert (person.folder / "src/a.py").read_text() == "one\ntwo\n"
    person.undo("redo")
    assert (person.folder / "src/a.py").read_text() == "a person's\n"


def test_a_change_between_two_calls_is_listed_and_undone_only_by_its_name(opened: Opened) -> None:
    person = opened()
    person.turn()
    _run(person, "echo 1 > one")
    (person.folder / "between").write_text("not by a call")
    _run(person, "echo 2 > two")
    (step,) = [step for step in person.steps if step.tool == "background"]
    assert [change.path for change in step.changes] == [f"{person.folder}/between"]
    assert _restored(person) == ["one", "two"]
    with pytest.raises(NothingToUndoError):
        person.plan()
    assert (person.folder / "between").exists()
    person.undo("call", step.call_id)
    assert not (person.folder / "between").exists()


def test_two_sessions_in_a_project_undo_only_their_own(opened: Opened) -> None:
    one, other = opened(), opened()
    _run(one, "echo 1 > one; echo 1 > both")
    _run(other, "echo 2 > two; echo 2 > both")
    _run(one, "echo 3 > three")
    assert _restored(one) == ["three"]
    plan = one.plan()
    assert [(Path(item.path).name, item.why_not) for item in plan.refused] == [("both", "it was changed later")]
    one.carry_out(plan)
    assert not (one.folder / "one").exists()
    assert (one.folder / "both").read_text() == "2\n"
    assert _restored(other) == ["both", "two"]
    assert (one.folder / "both").read_text() == "1\n"


@pytest.mark.parametrize("mode", ["none", "workspace"])
def test_what_a_program_in_the_background_changes_has_the_name_of_its_command(opened: Opened, mode: str) -> None:
    if mode != "none" and HELD.mode != mode:
        pytest.skip(f"no sandbox can be made here: {HELD.why_not_more}")
    person = opened(f"{ON}sandbox: {{mode: {mode}}}\n")
    person.turn()
    _run(person, "echo 1 > one")
    watcher = "(until [ -e go ]; do sleep 0.02; done; mv one seen; sleep 600) < /dev/null > /dev/null 2>&1 &"
    _run(person, watcher)
    (person.folder / "go").touch()
    while not (person.folder / "seen").exists():
        time.sleep(0.01)
    _run(person, "echo 2 > two")
    _run(person, "kill %1; wait; echo 3 > three")
    (person.folder / "by hand").write_text("1")
    _run(person, "echo 4 > four")
    named, by_hand = [step for step in person.steps if step.tool.startswith("background")]
    assert named.tool == f"background: {watcher}"
    assert [Path(change.path).name for change in named.changes] == ["go", "one", "seen"]
    assert (by_hand.tool, [Path(change.path).name for change in by_hand.changes]) == ("background", ["by hand"])
    _restored(person)
    assert (person.folder / "seen").exists()
    person.undo("call", named.call_id)
    assert not (person.folder / "seen").exists()


@pytest.mark.parametrize("background", [True, False], ids=["a background process", "left by a command"])
@pytest.mark.parametrize("ends", [True, False], ids=["ends before", "ends with the session"])
def test_what_a_program_changes_after_the_last_call_is_undone_too(opened: Opened, ends: bool, background: bool) -> None:
    """003-30."""
    person, reader = opened(), opened()
    (person.folder / "data").write_text("not committed")
    command = f"until [ -e go ]; do sleep 0.02; done; rm data; touch seen; {'' if ends else 'sleep 600'}"
    if background:
        assert person.call("terminal", command=command, background=True).is_success
    else:
        command = f"({command}) < /dev/null > /dev/null 2>&1 &"
        _run(person, command)
    (person.folder / "go").touch()
    while not (person.folder / "seen").exists():
        time.sleep(0.01)
    person.close()
    undo, environment = reader.crib.undo(person.session.id), reader.session.scope.environment
    (step,) = [step for step in run_async(undo.steps()) if step.tool.startswith("background")]
    assert [Path(change.path).name for change in step.changes] == ["data", "go", "seen"]
    assert ends or step.tool == f"background: {command}"
    plan = run_async(undo.plan(UndoRequest("call", step.call_id), environment))
    assert run_async(undo.carry_out(plan, environment)).refused == []
    assert (person.folder / "data").read_text() == "not committed"


_LEFT = """
import os, signal, sys
from pathlib import Path
from agent.api import assemble
from tests.agent.test_snapshots import ON
from tests.agent.test_undo import Person, configured

person = Person(assemble(project_dir=sys.argv[1], config=configured(f"{ON}sandbox: {{mode: none}}")), Path(sys.argv[1]))
watcher = "until [ -e go ]; do sleep 0.02; done; rm data; touch seen; until [ -e more ]; do sleep 0.02; done; rm more; sleep 60"
assert person.call("terminal", command=watcher, background=True).is_success
print(person.session.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_program_changes_after_a_kill_is_recorded_by_a_session_without_calls(
    opened: Opened, forks: Forks, tmp_path: Path
) -> None:
    """003-30"""
    folder = tmp_path / "project"
    (tmp_path / "tmp").mkdir()
    (folder / "data").write_text("not committed")
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    session_id = forks.run(str(folder), code=_LEFT, cwd=tmp_path, env=env).stdout.strip()
    (folder / "go").touch()
    while not (folder / "seen").exists():
        time.sleep(0.01)
    person = opened(f"{ON}sandbox: {{mode: none}}\n")
    session = person.crib.open_session(asker=agree, resume=session_id)
    session.close_sync()
    (step,) = [step for step in run_async(person.crib.undo(session_id).steps()) if step.tool.startswith("background")]
    assert [Path(change.path).name for change in step.changes] == ["data", "go", "seen"]


def test_what_a_program_changes_after_a_kill_is_undone_too(opened: Opened, forks: Forks, tmp_path: Path) -> None:
    """003-30. Its session is listed before another toolcrib opens it, and then it is opened."""
    folder = tmp_path / "project"
    (tmp_path / "tmp").mkdir()
    (folder / "data").write_text("not committed")
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    ended = forks.run(str(folder), code=_LEFT, cwd=tmp_path, env=env)
    session_id = ended.stdout.strip()
    assert session_id, ended.stderr
    (folder / "go").touch()
    while not (folder / "seen").exists():
        time.sleep(0.01)
    person = opened(f"{ON}sandbox: {{mode: none}}\n")
    undo, environment = person.crib.undo(session_id), person.session.scope.environment
    run_async(undo.recover(environment))
    (step,) = [step for step in run_async(undo.steps()) if step.tool.startswith("background")]
    assert [Path(change.path).name for change in step.changes] == ["data", "go", "seen"]
    (folder / "more").touch()
    while (folder / "more").exists():
        time.sleep(0.01)
    (folder / "after").touch()
    session = person.crib.open_session(asker=agree, resume=session_id)
    assert session.call("terminal", {"command": "echo 1 > one"}).result.is_success
    names = [[Path(change.path).name for change in step.changes] for step in run_async(undo.steps())]
    assert names[-2:] == [["after"], ["one"]]
    session.close_sync()
    plan = run_async(undo.plan(UndoRequest("call", step.call_id), environment))
    assert run_async(undo.carry_out(plan, environment)).refused == []
    assert (folder / "data").read_text() == "not committed"


def test_what_an_interrupted_command_changed_is_undone(opened: Opened) -> None:
    person = opened()
    before = picture(person.folder)

    def interrupt() -> None:
        while not (person.folder / "begun").exists():
            time.sleep(0.01)
        person.session.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = person.call("terminal", command="rm src/a.py; touch begun; sleep 60")
    thread.join()
    assert result.failure is not None
    assert result.failure.kind == "Cancelled"
    person.session.scope.clear_interrupt()
    assert _restored(person) == ["begun", "src/a.py"]
    assert picture(person.folder) == before


def test_calls_at_the_same_time_are_undone_with_their_turn(opened: Opened) -> None:
    person = opened()
    before = picture(person.folder)
    calls = [ToolCall(ToolCall.new_id(), "write_file", {"path": f"new/{name}", "content": name}) for name in "abcd"]
    calls.append(ToolCall(ToolCall.new_id(), "terminal", {"command": "rm -r src; echo x >> .env"}))
    person.session.link.use(Batch(calls))
    assert run_async(person.session.ask("go on")).stopped == "done"
    assert not (person.folder / "src").exists()
    assert (person.folder / "new/d").exists()
    assert person.undo().refused == []
    assert picture(person.folder) == before


def test_a_change_between_two_calls_of_a_turn_is_not_undone_with_them(opened: Opened) -> None:
    person = opened()
    person.turn()
    _run(person, "echo 1 > one; echo 1 > two")
    (person.folder / "one").write_text("a person's\n")
    _run(person, "echo 2 >> one; echo 2 >> two")
    plan = person.plan()
    assert [(item.path.rpartition("/")[2], item.why_not) for item in plan.refused] == [
        ("one", "another program changed it between these calls")
    ]
    person.carry_out(plan)
    assert (person.folder / "one").read_text() == "a person's\n2\n"
    assert not (person.folder / "two").exists()


def test_what_a_program_writes_while_a_call_only_reads_is_undone_with_the_call(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = opened()
    person.turn()
    _run(person, "(until [ -e go ]; do sleep 0.02; done; echo late > src/a.py) < /dev/null > /dev/null 2>&1 &")
    take = Project.take

    async def noted(project: Project, label: str, **more: Any) -> ProjectSnapshot:
        taken = await take(project, label, **more)
        (person.folder / "go").touch()
        return taken

    monkeypatch.setattr(Project, "take", noted)
    person.turn()
    _run(person, "until grep -q late src/a.py; do sleep 0.05; done")
    assert _restored(person) == ["go", "src/a.py"]


def test_a_call_that_only_reads_runs_without_a_snapshot_beside_a_program(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    person = opened()
    _run(person, "sleep 600 < /dev/null > /dev/null 2>&1 &")

    def fail(*_: Any) -> None:
        raise SnapshotFailed("no room")

    monkeypatch.setattr(Project, "_take", fail)
    _run(person, "ls")
    assert person.call("terminal", command="touch x").is_error


def test_modules_that_commands_compiled_are_deleted_with_the_session(opened: Opened) -> None:
    person = opened()
    _run(person, "mkdir src/__pycache__; touch src/__pycache__/a.pyc; echo __pycache__/ > .gitignore")
    person.close()
    assert not list((person.folder / "src/__pycache__").iterdir())


def test_a_write_through_a_memory_map_is_found_when_the_run_ends(opened: Opened) -> None:
    """No event reports the write while the file is mapped."""
    person = opened()
    file = person.folder / "mapped"
    file.write_bytes(b"a" * 4096)
    with file.open("r+b") as opened_file, mmap.mmap(opened_file.fileno(), 0) as mapped:
        person.turn()
        _run(person, "echo 1 > one")
        mapped[:1] = b"b"
        mapped.flush()
        person.turn()  # the run has ended
        _run(person, "rm mapped")
        assert _restored(person) == ["mapped"]
        assert file.read_bytes()[:1] == b"b"


def test_differences_have_all_that_commands_changed(opened: Opened) -> None:
    """Before an undo, the same differences are shown in reverse."""
    person = opened()
    person.turn()
    _run(
        person, "sed -i s/two/2/ src/a.py; rm src/b.py src/none; ln -sf b.py src/link; chmod 644 .env; mkdir made; touch made/new"
    )
    person.turn()
    _run(person, "echo more >> src/a.py")
    undo, environment = person.crib.undo(person.session.id), person.session.scope.environment
    found = run_async(undo.differences(environment))
    shown = {one.path.removeprefix(f"{person.folder}/"): (*one.lines, one.why) for one in found}
    names = sorted([".env", "made", "made/new", "src/a.py", "src/b.py", "src/link", "src/none"])
    assert [path for path in sorted(shown) if path != "src"] == names
    assert {"-two", "+2", "+more"} <= set(shown["src/a.py"])
    assert "-two" in shown["src/b.py"]
    assert {"-a.py", "+b.py"} <= set(shown["src/link"])
    assert shown[".env"][1:3] == ("old mode 600", "new mode 644")
    assert shown["made"] == ("nothing becomes folder",)
    assert shown["src/none"][1] == "+++ /dev/null"
    first = [one.path for one in run_async(undo.differences(environment, 1)) if "/src/a.py" in one.path]
    assert first, "of one turn"
    plan = person.plan()
    assert [one.lines[2:] for one in run_async(undo.preview(plan, environment))] == [("@@ -1,3 +1,2 @@", " one", " 2", "-more")]
    person.undo()
    plan = person.plan()
    preview = {
        one.path.removeprefix(f"{person.folder}/"): (*one.lines, one.why) for one in run_async(undo.preview(plan, environment))
    }
    assert [path for path in sorted(preview) if path != "src"] == names
    assert {"+two", "-2"} <= set(preview["src/a.py"])
    assert preview["made"] == ("folder becomes nothing",)
    person.carry_out(plan)
    assert not run_async(undo.differences(environment))
    redo = person.plan("redo")
    assert {"-two", "+2"} <= {line for one in run_async(undo.preview(redo, environment)) for line in one.lines}


def test_a_call_that_only_reads_takes_no_snapshot(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    person = opened()

    def fail(*_: Any) -> None:
        raise SnapshotFailed("no room")

    monkeypatch.setattr(Project, "_take", fail)
    _run(person, "ls; cat src/a.py")
    assert person.call("read_file", path="src/a.py").is_success
    assert not list(Path(os.environ["HOME"]).rglob("snapshots")), "not even a store"


def test_a_call_is_denied_if_no_snapshot_can_be_taken(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    person = opened()
    _run(person, "echo 1 > one")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tools.undo.snapshots.store.SnapshotStore.add", fail)
    for name, args in (("terminal", {"command": "rm one"}), ("write_file", {"path": "one", "content": "2"})):
        failure = person.call(name, **args).failure
        assert failure is not None
        assert failure.kind == "Denied"
        assert "no snapshot could be taken" in failure.text
        assert "the disk is full" in failure.text
    assert (person.folder / "one").read_text() == "1\n"
    assert not person.session.scope.policy.covers(str(person.folder / "one"))  # type: ignore[attr-defined, union-attr]  # a Policy
    monkeypatch.undo()
    _run(person, "rm one")
    assert person.session.scope.policy.covers(str(person.folder / "one"))  # type: ignore[attr-defined, union-attr]  # a Policy


def test_an_undo_that_fails_can_be_repeated(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    person = opened()
    before = picture(person.folder)
    _run(person, "rm -rf src")
    plan = person.plan()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tools.undo.snapshots.store.SnapshotStore.add", fail)
    with pytest.raises(SnapshotFailed, match="the disk is full"):
        person.carry_out(plan)
    monkeypatch.undo()
    with pytest.raises(NothingToUndoError):
        person.plan("redo")
    assert person.undo().refused == []
    assert picture(person.folder) == before


def test_a_project_that_is_too_large_has_no_snapshots_and_its_calls_run(opened: Opened) -> None:
    person = opened("snapshots: {enabled: true, max_mb: 1}")
    _run(person, "rm -rf src")
    assert not (person.folder / "src").exists()
    assert not person.session.scope.policy.covers(str(person.folder / "new"))  # type: ignore[attr-defined, union-attr]  # a Policy
    with pytest.raises(NothingToUndoError):
        person.plan()


def test_a_call_that_was_judged_by_what_is_covered_is_denied_if_that_is_not_kept(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project now has too many files for snapshots. The next call is judged without them."""
    person = opened()
    _run(person, "echo 1 > one")
    policy = person.session.scope.policy
    assert policy.covers(str(person.folder / "one"))  # type: ignore[attr-defined, union-attr]  # a Policy
    monkeypatch.setattr("tools.undo.snapshots.scan.MOST_PATHS", 5)
    for number in range(5):
        (person.folder / f"more{number}").touch()
    failure = person.call("terminal", command="rm one").failure
    assert failure is not None
    assert failure.kind == "Denied"
    assert "snapshots.skip" in failure.text
    assert (person.folder / "one").exists()
    assert not policy.covers(str(person.folder / "one"))  # type: ignore[attr-defined, union-attr]  # a Policy
    _run(person, "rm one")


def test_an_interrupt_while_the_first_snapshot_is_taken_leaves_all_well(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call does not run, and undo does not treat it as executed: later changes are the person's own."""
    person = opened()
    waits, goes_on, read = threading.Event(), threading.Event(), TreeScanner.read

    def slow(scan: TreeScanner) -> None:
        waits.set()
        goes_on.wait()
        read(scan)

    def interrupt() -> None:
        waits.wait()
        person.session.interrupt()

    monkeypatch.setattr(TreeScanner, "read", slow)
    thread = threading.Thread(target=interrupt)
    thread.start()
    failure = person.call("terminal", command="rm src/a.py").failure
    thread.join()
    assert failure is not None
    assert failure.kind == "Cancelled"
    assert (person.folder / "src/a.py").exists()
    goes_on.set()
    person.session.scope.clear_interrupt()
    (person.folder / "src/a.py").write_text("a person's\n")
    with pytest.raises(NothingToUndoError):
        person.plan()
    _run(person, "rm src/b.py")
    assert _restored(person) == ["src/b.py"]
    assert (person.folder / "src/a.py").read_text() == "a person's\n"


def test_a_call_that_waits_for_the_first_snapshot_shows_how_far_it_is(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    person = opened()
    goes_on, shown, read = threading.Event(), [], TreeScanner.read

    def slow(scan: TreeScanner) -> None:
        goes_on.wait()
        read(scan)

    class Screen:
        def emit(self, event: ActivityEvent) -> None:
            shown.append(event.content)
            goes_on.set()

    monkeypatch.setattr(TreeScanner, "read", slow)
    person.session.scope.activity_sink = Screen()
    _run(person, "rm src/b.py")
    messages = [one["message"] for one in shown if isinstance(one, dict) and "message" in one]
    assert messages[0].startswith("waits for a snapshot of the project: ")
    assert messages[-1] == "the snapshot has been taken"


def test_what_is_not_covered_is_said_once(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    person = opened()
    monkeypatch.setenv("HOME", str(person.folder))
    person.call("read_file", path="src/a.py")
    _run(person, "ls")
    assert not caplog.records
    for _ in range(2):
        _run(person, "echo 1 > one")
    (said,) = [record.getMessage() for record in caplog.records if "can't be undone" in record.getMessage()]
    assert said.endswith(f": {person.folder} is or contains your home folder; work in a project folder below it")


def test_what_a_call_changed_is_undone_though_its_record_could_not_be_written(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed between the snapshot and the record."""
    person = opened()
    before = picture(person.folder)

    async def fail(*_: Any) -> None:
        raise StoreFailed("no room")

    with monkeypatch.context() as patched:
        patched.setattr(CallRecorder, "_record", fail)
        _run(person, "rm -r src")
    assert len(_restored(person)) > 3
    assert picture(person.folder) == before
    with pytest.raises(NothingToUndoError):
        person.plan()


@pytest.mark.parametrize("by", ["the next call", "an undo"])
def test_a_change_between_two_calls_is_recorded_later_if_it_can_not_be_recorded_at_once(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    person = opened()
    assert person.call("terminal", command="sleep 600", background=True).is_success
    (person.folder / "between").write_text("not by a call")
    undo, environment = person.crib.undo(person.session.id), person.session.scope.environment

    async def fail(*_: Any) -> None:
        raise StoreFailed("no room")

    with monkeypatch.context() as patched:
        patched.setattr(type(person.crib.store.changes), "begin", fail)
        if by == "an undo":
            with pytest.raises(StoreFailed):
                run_async(undo.recover(environment))
        else:
            assert person.call("terminal", command="touch by_the_call").failure is not None
    (person.folder / "after").write_text("not by a call either")
    if by == "an undo":
        run_async(undo.recover(environment))
    else:
        _run(person, "touch by_the_call")
    (step,) = [step for step in person.steps if step.tool.startswith("background")]
    assert [Path(change.path).name for change in step.changes] == ["after", "between"]


@pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
@pytest.mark.parametrize("rebuildable", ["allow", "ask"])
def test_what_an_undo_reverts_is_not_asked_in_a_sandbox(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, rebuildable: str
) -> None:
    """003-24. A folder that a tool can rebuild is left out; a command that may change it needs approval if so configured."""
    asked = []

    def refuse(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(ticket)
        return Answer(ticket.id, payload={"approved": False, "reason": "no"})

    monkeypatch.setattr("tests.agent.test_undo.agree", refuse)
    person = opened(f"{ON.rstrip()[:-1]}, rebuildable: {rebuildable}}}\nsandbox: {{mode: workspace}}\n")
    make = "mkdir -p node_modules src; touch package.json; "
    make += "truncate -s 101M node_modules/a; echo node_modules > .gitignore; git add -A"
    for command in ("git clean -fdx", "rm -rf node_modules", "rm -rf *", "git push --force origin main"):
        _run(person, make)
        (person.folder / "src/a.py").write_text(f"before {command}")
        asked.clear()
        person.call("terminal", command=command)
        assert bool(asked) == (rebuildable == "ask" or "push" in command), command
    _run(person, make)
    asked.clear()
    for command in ("git checkout -f", "git clean -fd", "rm -rf src"):
        (person.folder / "src/a.py").write_text(f"before {command}")
        (person.folder / "untracked").write_text("x")
        person.call("terminal", command=command)
        assert not asked, command
    assert not (person.folder / "src").exists()


def test_snapshots_can_be_switched_off(opened: Opened) -> None:
    person = opened("snapshots: {enabled: false}")
    _run(person, "rm src/a.py")
    assert person.session.scope.snapshots is None
    with pytest.raises(NothingToUndoError, match="changes by commands are not recorded"):
        person.plan()
    assert not list(Path(os.environ["HOME"]).rglob("snapshots"))


_KILLED = """
import os, signal, sys
from pathlib import Path
from agent.api import assemble
from tests.agent.test_snapshots import ON
from tests.agent.test_undo import Person, configured

folder, when = Path(sys.argv[1]), sys.argv[2]
person = Person(assemble(project_dir=folder, config=configured(f"{ON}sandbox: {{mode: none}}")), folder)
print(person.session.id, flush=True)
person.call("terminal", command="rm -rf src; echo new > .env" + (f"; kill -9 {os.getpid()}" if when == "within" else ""))
print("done", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["after", "within"])
def test_an_undo_after_the_session_was_killed(opened: Opened, forks: Forks, tmp_path: Path, when: str) -> None:
    folder = tmp_path / "project"
    before = picture(folder)
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    ended = forks.run(str(folder), when, code=_KILLED, cwd=tmp_path, env=env)
    assert not (folder / "src").exists(), ended.stderr
    session_id, *reached = ended.stdout.split()
    assert reached == (["done"] if when == "after" else [])
    person = opened()
    undo = person.crib.undo(session_id)
    environment = person.session.scope.environment
    plan = run_async(undo.plan(UndoRequest(), environment))
    assert run_async(undo.carry_out(plan, environment)).refused == []
    assert picture(folder) == before


def test_a_file_that_a_tool_makes_in_a_new_folder_is_undone(opened: Opened) -> None:
    person = opened()
    before = picture(person.folder)
    person.call("write_file", path="new/deep/a", content="a")
    assert _restored(person) == ["new", "new/deep", "new/deep/a"]
    assert picture(person.folder) == before
