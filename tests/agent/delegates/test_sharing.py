"""The journal that a delegate shares with its parent."""

from __future__ import annotations

import asyncio

from agent.delegates.sharing import SharedFiles
from agent.store.memory import MemoryStore
from tools.approval.origins import SessionFiles
from tools.judge.meaning.value import Taint


def test_what_one_knows_of_files_both_know() -> None:
    async def main() -> None:
        store = MemoryStore()
        parent = SessionFiles(store.origins)
        child = SharedFiles(parent, "parent", SessionFiles(store.origins))
        assert child.known("child") is None
        await child.of("child")
        await child.remember("child", {"/x": Taint.REMOTE}, {"/bin/y": "/bin/z"})
        assert (await parent.of("parent")).taints == {"/x": Taint.REMOTE}
        await parent.remember("parent", {"/w": Taint.WRITTEN})
        known = child.known("child")
        assert known is not None
        assert known.taints == {"/x": Taint.REMOTE, "/w": Taint.WRITTEN}
        assert known.copies == {"/bin/y": "/bin/z"}
        assert await store.origins.of("child") == {}, "kept once, under the parent"
        child.forget("child")
        assert {"/x", "/w"} <= set((await child.of("child")).taints), "the store has it"

    asyncio.run(main())


def test_variables_of_a_shell_are_its_own() -> None:
    """The delegate has its own shell: the variable of the parent's `tmp=$(mktemp -d)` is not set in it."""

    async def main() -> None:
        store = MemoryStore()
        parent = SessionFiles(store.origins)
        child = SharedFiles(parent, "parent", SessionFiles(store.origins))
        await parent.remember("parent", {}, {}, {"tmp": ("/tmp/tmp.XXXX", "")})
        assert (await child.of("child")).made == {}
        await child.remember("child", {}, {}, {"mine": ("/tmp/tmp.XXXX", "")})
        assert set((await child.of("child")).made) == {"mine"}
        assert set((await parent.of("parent")).made) == {"tmp"}

    asyncio.run(main())
