"""Undo restores the files that file tools replaced, in every backend."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import struct
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, Session, assemble
from agent.undo import UndoRequest
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
    """Return a session whose model has made these calls, one after another."""
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
        return await taking.carry_out(await taking.plan(UndoRequest(what), environment), environment)

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
    """This needs root, which may change owners. Root in a container may not, and a note reports that."""
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
    theirs = request.node.callspec.params["backend"] != "docker"
    for one in (renamed, *found):
        assert (one.st_uid, one.st_gid, one.st_mode & 0o7777) == ((12345, 54321) if theirs else (0, 0)) + (0o4755,)
    assert [note.partition(": ")[2] for note in done.notes] == [
        "its owner changed from 12345:54321 to 0:0, as only root can keep it"
    ] * (0 if theirs else 2)


LONG_AGO = 1_500_000_000_123_456_789
"""A time in nanoseconds that no file system's clock sets."""


def acl(path: Path, user: int) -> bytes:
    """Allow one more user to read and write the file. Return the list as the kernel stores it."""
    entries = ((1, 6, -1), (2, 6, user), (4, 4, -1), (16, 6, -1), (32, 4, -1))
    os.setxattr(path, ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries))
    return os.getxattr(path, ACL)


ACL = "system.posix_acl_access"


def beside_content(path: Path) -> tuple[int, int, dict[str, bytes]]:
    return path.stat().st_nlink, path.stat().st_mode, {name: os.getxattr(path, name) for name in os.listxattr(path)}


def test_an_edit_keeps_what_a_file_has_beside_its_content(opened: Callable[..., Environment], folder: Path) -> None:
    """Other names, extended attributes and an ACL are kept, and an undo also restores the time of the last change."""
    names = ("linked", "alone", "whole")
    for name in names:
        (folder / name).write_text("one\ntwo\n")
        (folder / name).chmod(0o640)
        os.setxattr(folder / name, "user.note", b"kept")
        acl(folder / name, 12345)
    (folder / "other name").hardlink_to(folder / "linked")
    for name in names:
        os.utime(folder / name, ns=(LONG_AGO, LONG_AGO))
    before = {name: beside_content(folder / name) for name in names}
    assert before["linked"][0] == 2
    with assemble(project_dir=folder) as crib:
        environment = opened()
        edits = [("patch", {"path": name, "old": "two", "new": "three, and more"}) for name in names[:2]]
        session = turn(crib, environment, folder, *edits, ("write_file", {"path": "whole", "content": "short"}))
        assert (folder / "other name").read_text() == (folder / "linked").read_text() == "one\nthree, and more\n"
        assert {name: beside_content(folder / name) for name in names} == before
        after = {name: (folder / name).stat().st_mtime_ns for name in names}
        assert LONG_AGO not in after.values()
        assert not undo(crib, session, environment).notes
        assert [(folder / name).read_text() for name in (*names, "other name")] == ["one\ntwo\n"] * 4
        assert {name: (folder / name).stat().st_mtime_ns for name in names} == dict.fromkeys(names, LONG_AGO)
        assert {name: beside_content(folder / name) for name in names} == before
        assert not undo(crib, session, environment, "redo").notes
        assert {name: (folder / name).stat().st_mtime_ns for name in names} == after
        do(environment.close())
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "other name"])


@pytest.mark.parametrize("half", [b"two\ntwo\none\none\n\0\0\0\0", b"two\ntwo\n", b"one\ntwo\none\none\n\0\0\0\0"])
def test_an_edit_in_place_that_was_cut_off_is_taken_back(opened: Callable[..., Environment], folder: Path, half: bytes) -> None:
    """The edit is cut off during the write, after the file was emptied, or while the old content is restored."""
    old, new = b"one\n" * 4, b"two\n" * 5
    (folder / "a").write_bytes(old)
    (folder / "b").hardlink_to(folder / "a")
    with assemble(project_dir=folder) as crib:
        environment = opened()
        session = turn(crib, environment, folder, ("write_file", {"path": "a", "content": new.decode()}))
        assert len(list(folder.iterdir())) == 2
        (folder / "a").write_bytes(half)
        (folder / ".a.0123456789ab.tmp").write_bytes(new)
        (folder / ".a.0123456789ab.tmp.old").write_bytes(old)
        assert [item.action for item in undo(crib, session, environment).changed] == ["restore"]
        assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == [("a", old), ("b", old)]
        assert [item.action for item in undo(crib, session, environment, "redo").changed] == ["restore"]
        assert (folder / "b").read_bytes() == new
        do(environment.close())


def test_a_rename_and_an_undone_deletion_keep_attributes_or_say_that_they_do_not(
    opened: Callable[..., Environment], folder: Path, request: pytest.FixtureRequest
) -> None:
    for name in ("old", "gone"):
        (folder / name).write_text("one\n")
        (folder / name).chmod(0o640)
        os.setxattr(folder / name, "user.note", b"kept \0")
        acl(folder / name, 12345)
    had = beside_content(folder / "old")
    moved = "diff --git a/old b/new\nrename from old\nrename to new\n--- a/old\n+++ b/new\n@@ -1 +1 @@\n-one\n+two\n"
    deleted = "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    kept = request.node.callspec.params["backend"] in ("local", "bubblewrap")
    with assemble(project_dir=folder) as crib:
        environment = opened()
        session = turn(crib, environment, folder, ("patch", {"diff": moved}), ("patch", {"diff": deleted}))
        said = [str(record) for record in run_async(crib.store.sessions.messages(session.identity.session_id))]
        assert sum("could not be kept" in each for each in said) == (0 if kept else 2)
        renamed = beside_content(folder / "new")
        assert not undo(crib, session, environment).notes
        found = [beside_content(folder / name) for name in ("old", "gone")]
        assert not undo(crib, session, environment, "redo").notes
        again = beside_content(folder / "new")
        do(environment.close())
    if kept:
        assert [renamed, *found, again] == [had] * 4
    assert (folder / "new").read_text() == "two\n"


def test_a_file_in_a_folder_that_gives_acls_gets_none_by_an_edit(env: Environment, folder: Path) -> None:
    (folder / "old").write_text("one")
    os.setxattr(folder, "system.posix_acl_default", acl(folder / "old", 12345))
    os.removexattr(folder / "old", ACL)
    (folder / "old").chmod(0o600)
    do(env.write_file(f"{folder}/old", b"two"))
    assert beside_content(folder / "old") == (1, 0o100600, {})


def test_a_file_with_other_names_is_not_lost_where_the_disk_is_full(opened: Callable[..., Environment], folder: Path) -> None:
    """The disk needs room for all of it before the file is overwritten, or the old content is restored."""
    if os.geteuid():
        pytest.skip("only root mounts a disk")
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tc-small", str(small)], check=True)
    try:
        env = opened()
        (small / "one").write_bytes(b"x" * 50_000)
        (small / "two").hardlink_to(small / "one")
        with pytest.raises(OSError, match="No space left"):
            do(env.write_file(f"{small}/one", b"y" * 250_000))
        assert (small / "two").read_bytes() == b"x" * 50_000
        assert len(list(small.iterdir())) == 2
        do(env.close())
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


@pytest.fixture
def own() -> Iterator[str]:
    """Yield a path in /tmp, which some backends replace."""
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
        mine = request.node.callspec.params["backend"] in ("docker", "bubblewrap")
        refused = undo(crib, session, again).refused
        assert [item.path for item in refused] == [own] * mine
        assert tree(folder) == before
        do(again.close())
