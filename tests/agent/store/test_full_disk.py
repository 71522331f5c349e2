"""A full or read-only disk, for the store and the files beside it: a clear error, and stored data stays."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.store._artifact_repair import examine_artifacts
from agent.store.repair import examine
from agent.store.sqlite import SqliteStore

Open = Callable[..., SqliteStore]
_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))"
_WRITES = """
import asyncio, hashlib, sys
from pathlib import Path
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed
from toolcrib.contract.state import StateWrite
{limit}
def noise(number, size):
    return hashlib.shake_256(str(number).encode()).hexdigest(size // 2)
async def state(store, number):
    mine = StateWrite("principal", "p", f"n{{number}}", noise(number, 3000))
    await store.state.write([mine, StateWrite("session", "s", "n", number)])
async def artifacts(store, number):
    await store.artifacts.put("s", noise(number, 30_000).encode())
async def search(store, number):
    words = noise(number, 30_000)
    await store.sessions.append("s", {{"role": "user", "text": " ".join(words[at : at + 12] for at in range(0, 9000, 12))}})
    await store.search.find("nothing")
async def write(store):
    await store.sessions.create("s", platform="cli", user="me")
    try:
        for number in range(1000):
            await {what}(store, number)
            print(number, flush=True)
    except StoreFailed as error:
        print(error)
    print(await store.sessions.latest())
try:
    asyncio.run(write(SqliteStore(Path(sys.argv[1]))))
except StoreFailed as error:
    print(error)
"""


def run(file: Path, root: Path, what: str, *, limit: str = _LIMIT, command: tuple[str, ...] = ()) -> list[str]:
    done = subprocess.run(
        [*command, sys.executable, "-c", _WRITES.format(what=what, limit=limit), str(file)],
        cwd=root, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _told_full(told: str, file: Path) -> bool:
    """Return whether the error names the file and a full disk: SQLite reports a limit on the size of files as either error."""
    full, failing = "can't grow: the disk is full; free space", "can't be read or written; check for a full"
    return told.startswith((f"{file} {full}", f"{file} {failing}")) and "Earlier data is kept" in told


def names(written: list[str]) -> set[str]:
    return {f"n{number}" for number in written}


async def test_state_that_was_kept_stays(open_file: Open, file: Path, root: Path) -> None:
    *written, told, _ = run(file, root, "state")
    assert _told_full(told, file)
    examine(file)
    store = open_file()
    kept = await store.state.of("principal", "p")
    assert len(written) > 10
    assert kept.keys() == names(written)
    assert (await store.state.of("session", "s"))["n"].value == int(written[-1])


async def test_artifacts_that_were_kept_stay_and_the_store_goes_on(open_file: Open, file: Path, root: Path) -> None:
    *written, told, still = run(file, root, "artifacts")
    assert _told_full(told, file.with_name("store.db-artifacts"))
    assert still.startswith("None") or "SessionInfo" in still, "the store itself can be read"
    assert examine_artifacts(file.with_name("store.db-artifacts"), file) == 0
    with closing(open_file()) as store:
        digests = await store.artifacts.of("s")
        assert len(digests) == len(written) > 10
        assert all([len(await store.artifacts.get("s", digest) or b"") == 30_000 for digest in digests])
        await store.artifacts.put("s", b"again")


async def test_an_index_without_room_costs_the_search_alone(open_file: Open, file: Path, root: Path) -> None:
    *written, told, _ = run(file, root, "search")
    assert _told_full(told, file) or _told_full(told, file.with_name("store.db-search"))
    assert len(written) > 5
    examine(file)
    with closing(open_file()) as store:
        records = await store.sessions.messages("s")
        assert len(records) >= len(written)
        last = str(records[-1]["text"]).split()[-1]
        assert [hit.seq for hit in await store.search.find(last)] == [len(records) - 1]


@pytest.mark.full
@pytest.mark.parametrize(("what", "name"), [("artifacts", "store.db-artifacts"), ("search", "store.db-search")])
async def test_a_file_that_may_not_be_written_is_named(file: Path, root: Path, what: str, name: str) -> None:
    command: tuple[str, ...] = ()
    if os.geteuid() == 0:  # file modes do not stop root
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to drop root's rights")
        none = "-dac_override,-dac_read_search"
        command = ("setpriv", "--bounding-set", none, "--inh-caps", none)
    with closing(SqliteStore(file)) as store:
        await store.sessions.create("s", platform="cli", user="me")
        await store.sessions.append("s", {"role": "user", "text": "hello"})
        await store.artifacts.put("s", b"before")
        await store.search.find("hello")
    beside = file.with_name(name)
    beside.chmod(0o400)
    told, still = run(file, root, what, limit="", command=command)
    assert f"{beside} can't be written; make it and its folder writable" in told
    assert "SessionInfo" in still
    beside.chmod(0o600)
    with closing(SqliteStore(file)) as store:
        assert len(await store.artifacts.of("s")) == 1
        assert [hit.seq for hit in await store.search.find("hello")] == [0]


async def test_what_is_on_disk_after_kill_9_is_whole(open_file: Open, file: Path, root: Path) -> None:
    """An artifact that a session refers to has its content, or the session was never stored."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITES.format(what="artifacts", limit=""), str(file)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(20)]
    process.kill()
    seen += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    await asyncio.sleep(0)
    assert examine_artifacts(file.with_name("store.db-artifacts"), file) <= 1, "one was under way"
    with closing(open_file()) as store:
        found = [await store.artifacts.get("s", digest) for digest in await store.artifacts.of("s")]
        assert len([one for one in found if one is not None]) >= len(seen)
