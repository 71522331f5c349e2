"""The journal of file changes, in every store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.store.sqlite import SqliteStore
from toolcrib.contract.store import Store
from toolcrib.contract.undo import ChangeStep, FileChange, FileState

ODD = "/p/caf\u00e9 \udcff\n"


def change(path: str = "/p/a", **more: Any) -> FileChange:
    return FileChange(path, "local", None, FileState("0" * 64, 3, None), **more)


def step(session_id: str = "s", turn: int = 1, *changes: FileChange, **more: Any) -> ChangeStep:
    return ChangeStep(session_id, turn, "c", "patch", 5.0, changes or (change(),), **more)


async def test_a_step_comes_back_as_it_was_written(store: Store) -> None:
    before = FileState("1" * 64, 2**40, 0o755)
    first = await store.changes.begin(step("s", 3, FileChange(ODD, "ssh:me@x", before, None, "too \udcff big", (ODD, "/q"))))
    second = await store.changes.begin(step("s", 4, change("/p/b"), change("/p/c"), kind="undo"))
    await store.changes.begin(step("other"))
    assert list(await store.changes.steps("s")) == [first, second]
    assert first.changes[0].path == ODD
    assert len({first.id, second.id} | {one.id for one in second.changes}) >= 2
    assert first.id > 0


async def test_owner_and_time_of_a_file_are_kept(store: Store) -> None:
    about = [(owner, at) for owner in (None, (1000, 0)) for at in (None, 1_500_000_000_123_456_789)]
    states = [FileState("1" * 64, 3, 0o644, owner, at) for owner, at in about]
    await store.changes.begin(step("s", 1, *(FileChange(f"/p/{n}", "local", state, None) for n, state in enumerate(states))))
    found = [change.before for change in (await store.changes.steps("s"))[0].changes]
    assert [(state.owner, state.mtime_ns) for state in found if state is not None] == about


async def test_the_attributes_of_a_deleted_file_are_kept(store: Store) -> None:
    about = [None, {}, {"user.note": b"kept \0\xff", "user.caf\u00e9 \udcff": b""}]
    states = [FileState("1" * 64, 3, 0o644, attributes=each) for each in about]
    await store.changes.begin(step("s", 1, *(FileChange(f"/p/{n}", "local", state, None) for n, state in enumerate(states))))
    found = [change.before for change in (await store.changes.steps("s"))[0].changes]
    assert [state.attributes for state in found if state is not None] == about


async def test_what_became_of_changes_is_kept(store: Store) -> None:
    made = await store.changes.begin(step("s", 1, change("/p/a"), change("/p/b")))
    undo = await store.changes.begin(step("s", 1, change(), kind="undo"))
    one, other = made.changes
    await store.changes.mark_changes(undo.id, undone=[one.id], passed=[other.id])
    await store.changes.mark_changes(undo.id + 1000, undone=[one.id])
    found = (await store.changes.steps("s"))[0].changes
    assert [(each.undone_by, each.passed_by, each.in_effect) for each in found] == [(undo.id, 0, False), (0, undo.id, True)]
    await store.changes.mark_changes(undo.id + 1, undone=[undo.changes[0].id], revived=[one.id, other.id])
    found = (await store.changes.steps("s"))[0].changes
    assert [(each.undone_by, each.passed_by) for each in found] == [(0, 0), (0, 0)]
    assert (await store.changes.steps("s"))[1].changes[0].undone_by == undo.id + 1


async def test_what_was_not_done_is_forgotten(store: Store) -> None:
    made = await store.changes.begin(step("s", 1, change("/p/a"), change("/p/b")))
    undo = await store.changes.begin(step("s", 1, change("/p/c"), kind="undo"))
    await store.changes.forget([made.changes[0].id, undo.changes[0].id])
    assert [[one.path for one in each.changes] for each in await store.changes.steps("s")] == [["/p/b"], []]
    await store.changes.forget([made.changes[1].id])
    assert [each.kind for each in await store.changes.steps("s")] == ["undo"]
    await store.changes.forget([])


async def test_undos_are_told_once(store: Store) -> None:
    await store.changes.begin(step("s"))
    undo, redo = [await store.changes.begin(step("s", kind=kind)) for kind in ("undo", "redo")]
    await store.changes.begin(step("other", kind="undo"))
    assert [one.id for one in await store.changes.unreported("s")] == [undo.id, redo.id]
    await store.changes.mark_reported([undo.id])
    assert [one.id for one in await store.changes.unreported("s")] == [redo.id]


async def test_sessions_are_listed_by_their_last_change(store: Store) -> None:
    for name in ("a", "b", "a", "c"):
        await store.changes.begin(step(name))
    await store.changes.begin(step("b", kind="undo"))
    assert list(await store.changes.sessions()) == ["c", "a", "b"]
    assert list(await store.changes.sessions(1)) == ["c"]


async def test_what_is_too_old_is_forgotten_but_for_what_is_still_to_be_told(store: Store) -> None:
    """One row for each change would grow without limit."""
    for at in (1.0, 2.0, 9.0):
        await store.changes.begin(replace(step(), at=at))
    told, untold = [await store.changes.begin(replace(step(kind="undo"), at=3.0)) for _ in range(2)]
    await store.changes.mark_reported([told.id])
    last = await store.changes.begin(replace(step(), at=9.5))
    await store.changes.prune(9.0)
    assert [one.at for one in await store.changes.steps("s")] == [9.0, 3.0, 9.5]
    assert await store.changes.unreported("s") == [untold]
    await store.changes.prune(100.0)
    assert (await store.changes.begin(step())).id > last.id


async def test_a_number_never_means_another_step(tmp_path: Path) -> None:
    """A change refers to the undo that reverted it by a number, which outlives deleted steps."""
    store = SqliteStore(tmp_path / "store.db")
    made = await store.changes.begin(step())
    await store.changes.forget([made.changes[0].id])
    assert (await store.changes.begin(step())).id > made.id
    store.close()
