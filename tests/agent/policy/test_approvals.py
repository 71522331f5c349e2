"""Grants and waiting requests: listed, narrowed, revoked, denied. A grant that one process revokes is revoked everywhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import config_path, load_config, state_dir
from agent.policy.allowlist import PermanentGrants
from agent.policy.approvals import Approvals
from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from toolcrib import NotFound, ToolcribError
from toolcrib.contract.store import AuditEntry, Grant, Store
from tools.approval.grants import covers, new_grant
from tools.judge.findings import Finding

DELETE = "fs.recursive-delete"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    yield made
    made.close()


@pytest.fixture
def approvals(store: Store) -> Approvals:
    for session, user in (("s1", "ann"), ("s2", "ben")):
        asyncio.run(store.sessions.create(session, platform="cli", user=user))
    return Approvals(store, PermanentGrants(store.grants))


async def session_grant(store: Store, session: str = "s1", **more: Any) -> Grant:
    grant = new_grant("session", DELETE, "/p", session_id=session, by="terminal", at=1.0)
    fields = {name: more.get(name, getattr(grant, name)) for name in Grant.__slots__}
    kept = Grant(**fields)
    await store.grants.add(kept)
    return kept


def finding(*paths: str) -> Finding:
    return Finding(DELETE, "ask", "w", "rm -rf build", paths=paths)


# -- grants --------------------------------------------------------------------------------------------------------------


async def test_grants_that_still_count_are_listed(store: Store, approvals: Approvals) -> None:
    here, there = await session_grant(store), await session_grant(store, "s2")
    left = await session_grant(store, scope="uses", uses_left=1)
    await session_grant(store, scope="uses", uses_left=0)
    await session_grant(store, scope="until", until=time.time() - 1)
    later = await session_grant(store, scope="until", until=time.time() + 600)
    assert await approvals.grants() == [here, there, left, later]
    assert await approvals.grants("s2") == [there]


async def test_a_grant_is_found_by_the_beginning_of_its_id(store: Store, approvals: Approvals) -> None:
    one, other = await session_grant(store, id="aa11"), await session_grant(store, id="aa22")
    assert await approvals.grant("aa1") == one
    assert await approvals.grant("aa22") == other
    with pytest.raises(ToolcribError, match=r"2 grants begin with 'aa' \(aa11, aa22\)"):
        await approvals.grant("aa")
    for prefix in ("", "bb"):
        with pytest.raises(NotFound, match="List grants: toolcrib approvals"):
            await approvals.grant(prefix)


async def test_a_revoked_grant_covers_nothing(store: Store, approvals: Approvals) -> None:
    """003-26"""
    grant = await session_grant(store)
    assert covers(grant, finding("/p/build"), session_id="s1", cwd="/p")
    assert await approvals.revoke(grant.id[:6]) == grant
    assert await store.grants.all("s1") == []
    with pytest.raises(NotFound):
        await approvals.revoke(grant.id)


async def test_a_grant_is_narrowed_to_a_folder_below_its_own(store: Store, approvals: Approvals) -> None:
    """003-26"""
    grant = await session_grant(store)
    narrower = await approvals.narrow(grant.id, "build")
    assert (narrower.id, narrower.root) == (grant.id, "/p/build")
    assert await store.grants.all("s1") == [narrower]
    assert covers(narrower, finding("/p/build/x"), session_id="s1", cwd="/p")
    assert not covers(narrower, finding("/p/src"), session_id="s1", cwd="/p")
    assert (await approvals.narrow(grant.id, "/p/build/deep")).root == "/p/build/deep"


@pytest.mark.parametrize("root", ["/p", ".", "", "..", "/", "/pq", "build/../..", "build/../../p", "/etc"])
async def test_nothing_is_widened(store: Store, approvals: Approvals, root: str) -> None:
    grant = await session_grant(store)
    with pytest.raises(ToolcribError, match="is not below /p"):
        await approvals.narrow(grant.id, root)
    assert await store.grants.all("s1") == [grant]


async def test_what_was_revoked_meanwhile_does_not_come_back_narrower(store: Store) -> None:
    grant = await session_grant(store)

    class Meanwhile(PermanentGrants):
        async def all(self, session_id: str | None = None, principal: str = "") -> Any:
            found = await super().all(session_id, principal)
            await store.grants.revoke(grant.id)
            return found

    with pytest.raises(ToolcribError, match="just revoked"):
        await Approvals(store, Meanwhile(store.grants)).narrow(grant.id, "build")
    assert await store.grants.all() == []


# -- permanent ones ------------------------------------------------------------------------------------------------------


def always(*argv: str) -> Grant:
    return new_grant("always", "", "/p", argv=argv, by="terminal", at=1.0)


async def test_a_permanent_grant_has_the_same_id_everywhere(store: Store) -> None:
    """003-27: another process revokes a permanent grant of the chat, in the file and in the chat."""
    chat = PermanentGrants(store.grants)
    given = always("rm", "-rf", "build")
    await chat.add(given)
    await chat.add(always("make", "clean"))
    elsewhere = MemoryStore()
    other = Approvals(elsewhere, PermanentGrants(elsewhere.grants))
    assert given.id in [one.id for one in await other.grants()]
    assert len(await chat.all("s1")) == 2
    revoked = await other.revoke(given.id[:8])
    assert (revoked.argv, revoked.root) == (given.argv, "/p")
    assert [one.argv for one in await chat.all("s1")] == [("make", "clean")]
    assert [entry.argv for entry in load_config().command_allowlist] == [("make", "clean")]


async def test_what_another_process_grants_for_good_counts_in_new_sessions_only(store: Store) -> None:
    """003-27: a process uses the grants that it read at its start, except revoked ones."""
    chat, other = PermanentGrants(store.grants), PermanentGrants(MemoryStore().grants)
    await other.add(always("make", "clean"))
    assert await chat.all("s1") == []
    assert [one.argv for one in await PermanentGrants(store.grants).all("s1")] == [("make", "clean")]


async def test_where_the_confirmations_are_gone_nothing_counts(store: Store) -> None:
    chat = PermanentGrants(store.grants)
    await chat.add(always("make", "clean"))
    assert len(await chat.all("s1")) == 1
    (state_dir() / "allowlist.json").unlink()
    assert await chat.all("s1") == []


async def test_a_permanent_grant_can_not_be_narrowed(approvals: Approvals, store: Store) -> None:
    permanent = PermanentGrants(store.grants)
    await permanent.add(given := always("rm", "-rf", "build"))
    with pytest.raises(ToolcribError, match="can't be narrowed; revoke it"):
        await Approvals(store, permanent).narrow(given.id, "build")
    assert "rm" in config_path().read_text()


# -- history -------------------------------------------------------------------------------------------------------------


async def test_the_last_decisions(store: Store, approvals: Approvals) -> None:
    for number in range(5):
        await store.audit.record(AuditEntry(float(number), f"s{number % 2}", f"c{number}", "terminal", "allowed", "rule"))
    assert [entry.at for entry in await approvals.history()] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [entry.at for entry in await approvals.history(limit=2)] == [3.0, 4.0]
    assert [entry.at for entry in await approvals.history("s1")] == [1.0, 3.0]
