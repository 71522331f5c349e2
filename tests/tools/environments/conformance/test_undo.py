"""What file tools replace can be had back in every place."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.run import Crib, Session, assemble
from agent.undo import Wanted
from toolcrib import Answer, Environment, RemovesFolders, SuspendTicket, ToolCallContext
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async
from tools.undo.restore import Done


def do(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_an_empty_folder_is_removed_and_nothing_else(env: Environment, folder: Path) -> None:
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "f").write_text("")
    (folder / "link").symlink_to("d")
    assert isinstance(env, RemovesFolders)
    for name, number in (
        ("d", errno.ENOTEMPTY),
        ("nothing", errno.ENOENT),
        ("f", errno.ENOTDIR),
        ("link", errno.ELOOP),
        ("link/e", errno.ELOOP),
    ):
        with pytest.raises(OSError, match=name) as error:
            do(env.delete_folder(f"{folder}/{name}"))
        assert error.value.errno == number
    do(env.delete_folder(f"{folder}/d/e"))
    assert sorted(path.name for path in folder.iterdir()) == ["d", "f", "link"]
    assert list((folder / "d").iterdir()) == []


def agree(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    return Answer(ticket.id, payload={"approved": True, "scope": "once"})


def turn(crib: Crib, environment: Environment, folder: Path, *calls: tuple[str, dict[str, Any]]) -> Session:
    """A session in which a model has made these calls, one after another."""
    session = crib.open_session(asker=agree, cwd=str(folder))
    session.scope.open_environment = lambda: environment
    model = ScriptedSession(*([one] for one in calls), "done")
    session.link.use(model)
    run_async(session.ask("go"))
    results = [executed.result for (executed,) in model.results]
    assert [result.is_success for result in results] == [True] * len(calls), results
    return session


def undo(crib: Crib, session: Session, environment: Environment, what: Any = "turn") -> Done:
    async def both() -> Done:
        taking = crib.undo(session.identity.session_id)
        return await taking.carry_out(await taking.plan(Wanted(what), environment), environment)

    return asyncio.run(both())


def tree(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.stat()
        found[str(path.relative_to(folder))] = (about.st_mode, about.st_uid, path.is_file() and path.read_bytes())
    return found


def test_a_file_of_somebody_else_stays_theirs(
    opened: Callable[..., Environment], folder: Path, request: pytest.FixtureRequest
) -> None:
    """Where root may give files away; a container's root may not, and that is said."""
    if os.geteuid():
        pytest.skip("only root can give files away")
    for name in ("old", "moved"):
        (folder / name).write_text("one\n")
        os.chown(folder / name, 12345, 54321)
        (folder / name).chmod(0o4755)
    with assemble(project_dir=folder) as crib:
        environment = opened()
        deleted = "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
        moved = "diff --git a/moved b/new\nrename from moved\nrename to new\n"
        session = turn(crib, environment, folder, ("patch", {"diff": deleted}), ("patch", {"diff": moved}))
        renamed = (folder / "new").stat()
        done = undo(crib, session, environment)
        found = [(folder / name).stat() for name in ("old", "moved")]
        do(environment.close())
    assert not done.refused
    theirs = request.node.callspec.params["opened"] != "docker"
    for one in (renamed, *found):
        assert (one.st_uid, one.st_gid, one.st_mode & 0o7777) == ((12345, 54321) if theirs else (0, 0)) + (0o4755,)
    assert [note.partition(": ")[2] for note in done.notes] == [
        "its owner was 12345:54321 and is 0:0 now: only root there may change that"
    ] * (0 if theirs else 2)


@pytest.fixture
def own() -> Iterator[str]:
    """A file in /tmp, which some places have for themselves."""
    path = Path(f"/tmp/undo-{secrets.token_hex(8)}")
    yield str(path)
    path.unlink(missing_ok=True)


def test_changes_are_taken_back_and_brought_back(
    opened: Callable[..., Environment], folder: Path, own: str, request: pytest.FixtureRequest
) -> None:
    script = folder / "run me"
    script.write_bytes(b"\0binary \xff" * 10_000)
    script.chmod(0o751)
    (folder / "old").write_text("one\ntwo\n")
    before = tree(folder)
    with assemble(project_dir=folder) as crib:
        environment = opened()
        session = turn(
            crib,
            environment,
            folder,
            ("write_file", {"path": "new/deep/x", "content": "caf\u00e9\n"}),
            ("write_file", {"path": "run me", "content": "text"}),
            ("patch", {"diff": "--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"}),
            ("write_file", {"path": own, "content": "in the place's own /tmp"}),
        )
        after = tree(folder)
        assert not undo(crib, session, environment).refused
        assert tree(folder) == before
        assert not undo(crib, session, environment, "redo").refused
        assert tree(folder) == after
        do(environment.close())
        again = opened()
        mine = request.node.callspec.params["opened"] in ("docker", "bubblewrap")
        refused = undo(crib, session, again).refused
        assert [item.path for item in refused] == [own] * mine
        assert tree(folder) == before
        do(again.close())
