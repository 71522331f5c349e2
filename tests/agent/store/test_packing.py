"""Stored bodies of messages: small, exact, and readable if an older toolcrib wrote them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from hashlib import shake_128
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store._codec import dump, dump_call, dump_result
from agent.store._packing import load_message, pack
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.store import Fence, Store

Open = Callable[..., SqliteStore]
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6))
def test_a_record_comes_back_as_it_was(record: dict[str, Any]) -> None:
    """Records may contain lone surrogates, which UTF-8 can't encode."""
    assert load_message(pack(dump(record))) == record


def test_what_stands_twice_takes_room_once() -> None:
    """A reply is stored as its server wrote it, beside the parsed form."""
    text = shake_128().hexdigest(2000)
    message = {"role": "assistant", "content": text}
    record = {"role": "assistant", "text": text, "calls": [], "native": {"wire": "chat", "message": message}}
    assert len(pack(dump(record))) < 1.1 * len(pack(dump({"text": text})))


@pytest.mark.parametrize("change", [lambda body: body[:-3], lambda body: body + b"x", lambda body: b"\x09" + body[1:]])
async def test_a_damaged_record_is_named(open_file: Open, file: Path, change: Callable[[bytes], bytes]) -> None:
    store = open_file()
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append("s", {"role": "user", "text": "a long text " * 50})
    store.close()
    with closing(sqlite3.connect(file)) as other, other:
        (body,) = other.execute("SELECT body FROM messages").fetchone()
        other.execute("UPDATE messages SET body = ?", (change(body),))
    with pytest.raises(StoreFailed, match=r"store\.db has an unreadable record \(ValueError: a (packed )?record"):
        await open_file().sessions.messages("s")


async def test_records_of_an_older_toolcrib_are_read(open_file: Open, file: Path) -> None:
    store = open_file()
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append("s", {"role": "user", "text": "new " * 100})
    record = {"role": "user", "text": "old " * 100}
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("INSERT INTO messages (session, seq, body) SELECT row, 1, ? FROM sessions", (dump(record),))
    assert [message["text"][:3] for message in await store.sessions.messages("s")] == ["new", "old"]


RESULT = ToolResult.success("read_file", {"path": "/a", "content": shake_128(b"a").hexdigest(2000)})
LONG = ToolCall("c", "write_file", {"path": "/a", "content": "long \ud800 text " * 50})


async def called(store: Store, session: str = "s") -> ToolResult:
    """Store a call with its result, which holds a text twice; return the result."""
    result = replace(RESULT, views={"model": f"/a: {RESULT.data['content']}"})
    await store.ledger.open(LONG, session, ToolCallStatus.RUNNING, turn="t")
    await store.ledger.finish(session, "c", ToolCallStatus.SUCCEEDED, result, end_run=True, state={"todos": ["x"]})
    return result


async def test_a_call_and_its_result_come_back_and_their_texts_take_room_once(open_file: Open, file: Path) -> None:
    store = open_file()
    result = await called(store)
    known = await store.ledger.get("s", "c")
    assert known is not None
    assert (known.call, known.result, known.turn, known.end_run, known.state) == (LONG, result, "t", True, {"todos": ["x"]})
    assert list(await store.ledger.calls("s")) == [known]
    store.close()
    with closing(sqlite3.connect(file)) as other:
        call, kept = other.execute("SELECT length(call), length(result) FROM calls").fetchone()
    assert call < 100
    assert kept < 0.7 * len(RESULT.data["content"]), "hexadecimal digits take half a byte"


async def test_a_call_that_was_under_way_is_known_by_its_name(open_file: Open) -> None:
    store = open_file()
    await store.sessions.create("s", platform="cli", user="")
    first = await store.leases.take("s", "one", 60)
    assert first is not None
    await store.fenced(Fence(first)).ledger.open(LONG, "s", ToolCallStatus.RUNNING)
    await store.leases.release(first)
    second = await store.leases.take("s", "two", 60)
    assert second is not None
    (ended,) = await store.fenced(Fence(second)).recover("s")
    assert ended.result is not None
    assert (ended.call, ended.result.tool_name, ended.status) == (LONG, "write_file", ToolCallStatus.FAILED)


async def test_a_damaged_result_is_named(open_file: Open, file: Path) -> None:
    store = open_file()
    await called(store)
    store.close()
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE calls SET result = substr(result, 1, 100)")
    with pytest.raises(StoreFailed, match=r"store\.db has an unreadable record \(ValueError: a packed record is damaged"):
        await open_file().ledger.calls("s")


async def test_calls_of_an_older_toolcrib_are_read(open_file: Open, file: Path) -> None:
    store = open_file()
    result = await called(store)
    store.close()
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE calls SET call = ?, result = ?", (dump_call(LONG), dump_result(result)))
    (known,) = await open_file().ledger.calls("s")
    assert (known.call, known.result) == (LONG, result)
