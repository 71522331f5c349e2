"""Messages to a person when the server refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._errors import explained
from agent.store.postgres._pool import ConnectionPool
from agent.store.postgres.address import Address
from agent.store.postgres.store import PostgresStore
from toolcrib import ConfigError, StoreFailed

URL = "postgresql://ann@db.example/crib"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('password authentication failed for user "ann"', "refuses the login"),
        ("fe_sendauth: no password supplied", "refuses the login"),
        ('no pg_hba.conf entry for host "::1"', "refuses the login"),
        ('database "crib" does not exist', "has no such database"),
        ('role "crib" does not exist', "can't be reached"),
        ("sorry, too many clients already", "has no free connection"),
        ("remaining connection slots are reserved", "has no free connection"),
        ("the database system is starting up", "is shutting down or starting"),
        ("the database system is shutting down", "is shutting down or starting"),
        ("connection refused", "can't be reached"),
    ],
)
def test_why_there_is_no_connection(said: str, told: str) -> None:
    """libpq reports no error code for a failed connection."""
    words = str(explained(Address(URL), psycopg.OperationalError(said), connecting=True))
    assert told in words
    assert words.endswith(f"({said})")


def test_a_connection_that_ended_and_a_code_that_is_not_known() -> None:
    assert "closed the connection" in str(explained(Address(URL), psycopg.OperationalError("gone")))
    assert "took too long" in str(explained(Address(URL), psycopg.errors.QueryCanceled("late")))
    assert "is unusable" in str(explained(Address(URL), psycopg.errors.SyntaxError("odd")))


async def test_a_store_that_was_closed_says_so(url: str, open_store: Callable[..., PostgresStore]) -> None:
    store = open_store(url)
    store.close()
    with pytest.raises(StoreFailed, match="is closed"):
        await store.sessions.get("s")


async def test_a_connection_that_could_not_be_prepared_is_closed_and_the_next_is_prepared(url: str) -> None:
    prepared: list[Any] = []

    async def prepare(connection: Any) -> None:
        prepared.append(connection)
        if len(prepared) == 1:
            raise StoreFailed("not now")

    pool = ConnectionPool(Address(url), 2, prepare)
    with pytest.raises(StoreFailed, match="not now"):
        async with pool.connection():
            pytest.fail("it is not prepared")
    assert prepared[0].closed
    async with pool.connection() as one, pool.connection() as other:
        assert one is prepared[1]
        assert other is not one
    assert len(prepared) == 2
    await pool.close()
    assert one.closed


def test_why_a_url_can_not_be_read_is_told_where_that_repeats_no_password() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        Address("postgresql://h/d?nonsense=1").options()
    with pytest.raises(ConfigError, match="libpq can't read it") as error:
        Address("postgresql://me:hunter2-hunter2@h/d?nonsense=1").options()
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(("conflicts", "made"), [(0, True), (3, True), (4, False)])
async def test_what_the_server_undid_is_tried_four_times(url: str, conflicts: int, made: bool) -> None:
    database, tries = PostgresDatabase(Address(url), None, 1), list[int]()

    async def work(connection: Any) -> str:
        tries.append(1)
        if len(tries) <= conflicts:
            raise psycopg.errors.SerializationFailure("could not serialize access")
        return "made"

    try:
        if made:
            assert await database.transact(None, work) == "made"
        else:
            with pytest.raises(StoreFailed, match="could not serialize access"):
                await database.transact(None, work)
        assert len(tries) == min(conflicts + 1, 4)
        assert await database.rows("SELECT 1", {}) == [(1,)]
    finally:
        database.close(nothing)


async def nothing() -> None:
    """Do nothing before the store's loop ends."""
