"""URLs with passwords: no message for a person or a log repeats the password."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.postgres.address import Address, has_password
from agent.store.postgres.store import PostgresStore
from toolcrib import ConfigError, StoreFailed

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{SECRET}@db.example.org:5433/crib", "db.example.org:5433/crib"),
        (f"postgres://me:{SECRET}@h1:1,h2:2/crib?sslmode=require", "h1:1,h2:2/crib"),
        (f"postgresql://me@%2Frun%2Fpg/crib?password={SECRET}", "/run/pg/crib"),
        (f"postgresql:///crib?host=/run/pg&sslpassword={SECRET}", "the local server/crib"),
        ("postgresql://db", "db"),
    ],
)
def test_a_url_is_named_without_its_secrets(url: str, shown: str) -> None:
    address = Address(url)
    assert (str(address), repr(address)) == (shown, f"Address({shown!r})")
    assert has_password(url) == (SECRET in url)
    store = PostgresStore(url, late=True)
    assert repr(store) == f"PostgresStore({shown!r})"
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@h/d", f"postgresql://me:{SECRET}/x@h/d", f"postgresql://me:{SECRET}?@h/d", f"postgresql://me:{SECRET}@@h",
        f"host=h password={SECRET}", f"postgresql:/me:{SECRET}@h", "", f"postgresql://me:{SECRET}@h/d\n",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="its form is postgresql://USER@HOST:PORT/DATABASE") as refused:
        PostgresStore(url, late=True)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    assert has_password(url)


@pytest.mark.parametrize("more", ["?port=x", "?nonsense=1", "?connect_timeout=soon", "?sslmode=maybe"])
async def test_what_libpq_refuses_is_not_repeated(more: str) -> None:
    store = PostgresStore(f"postgresql://me:{SECRET}@127.0.0.1:9/d{more}", late=True)
    with pytest.raises((ConfigError, StoreFailed), match=r"127\.0\.0\.1:9/d") as refused:
        await store.sessions.list()
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    store.close()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_no_password_is_in_a_message(password: str) -> None:
    """No message contains the password, in any spelling."""
    password = f"<{password}>"
    address = Address(f"postgresql://me:{quote(password, safe='')}@h/d")
    assert address.options()["password"] == password
    said = f"no: {password} {quote(password, safe='')}"
    assert address.without_secrets(said) == "no: *** ***"
    assert password not in str(address) + repr(address)


async def test_a_server_that_refuses_is_named_without_the_password(
    postgres: Any, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    base, _, place = postgres.url.rpartition("@")
    for wrong, words in (
        (f"postgresql://postgres:{SECRET}@{place}", "refuses the login; check the user, and the password in TOOLCRIB_STORE_URL"),
        (f"{base}@{place}nowhere", "postgresnowhere has no such database; create it with encoding UTF8"),
        (f"postgresql://me:{SECRET}@127.0.0.1:9/d", "127.0.0.1:9/d can't be reached; check that it runs, and store.url"),
    ):
        with caplog.at_level(logging.DEBUG), pytest.raises(StoreFailed) as refused:
            PostgresStore(wrong)
        assert words in str(refused.value)
        told = "".join(traceback.format_exception(refused.value)) + caplog.text
        assert SECRET not in told
        assert base.rpartition(":")[2] not in told
    store = PostgresStore(f"postgresql://me:{SECRET}@127.0.0.1:9/d", late=True)
    end = store.signals.listen(print)
    with caplog.at_level(logging.DEBUG):
        await store.signals.send("nobody hears")
        await asyncio.sleep(0)
    end()
    await asyncio.to_thread(store.close)
    assert SECRET not in caplog.text
