"""Bodies of messages in the file: small, exact, and readable where an older toolcrib wrote them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import shake_128
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store._codec import dump
from agent.store._packing import load_message, pack
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed

Open = Callable[..., SqliteStore]
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6))
def test_a_record_comes_back_as_it_was(record: dict[str, Any]) -> None:
    """Lone surrogates too, which no UTF-8 has."""
    assert load_message(pack(dump(record))) == record


def test_what_stands_twice_takes_room_once() -> None:
    """A reply is kept as its server wrote it, beside what was read of it."""
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
    with pytest.raises(StoreFailed, match=r"store\.db holds a record that cannot be read \(ValueError: a (packed )?record"):
        await open_file().sessions.messages("s")


async def test_records_of_an_older_toolcrib_are_read(open_file: Open, file: Path) -> None:
    store = open_file()
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append("s", {"role": "user", "text": "new " * 100})
    record = {"role": "user", "text": "old " * 100}
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("INSERT INTO messages (session, seq, body) SELECT row, 1, ? FROM sessions", (dump(record),))
    assert [message["text"][:3] for message in await store.sessions.messages("s")] == ["new", "old"]
