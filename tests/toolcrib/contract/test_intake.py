"""Shared parts of adapters: taking messages in order, reading missed ones, and remembering sent ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib import StoreFailed
from toolcrib.chat import Chat, Inbound
from toolcrib.platforms import Intake, SentKeys
from toolcrib.testing import FakeHost


def message(number: str, channel: str = "1", user: str = "ann") -> Inbound:
    return Inbound(Chat(channel), user, number, f"text {number}")


class Server:
    """A server's channels with their messages, and an intake for them."""

    def __init__(self, host: FakeHost | None = None) -> None:
        self.written: dict[str, list[str]] = {}
        self.host = host or FakeHost()
        self.failures: list[Exception] = []
        self.asked: list[tuple[str, str]] = []
        self.intake = Intake(self.host, self.read, (OSError,), lambda error: 0.01)

    async def read(self, channel: str, after: str) -> list[tuple[str, Inbound | None]]:
        self.asked.append((channel, after))
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        found = [one for one in self.written.get(channel, []) if int(one) > int(after)][:100]
        return [(one, message(one, channel)) for one in found]

    def deliver(self, number: str, channel: str = "1") -> asyncio.Future[None]:
        self.written.setdefault(channel, []).append(number)
        return self.intake.take(channel, number, message(number, channel))

    def again(self) -> Server:
        """Return the server as the next process finds it."""
        other = Server(self.host)
        other.written = self.written
        return other

    @property
    def taken(self) -> list[str]:
        return [one.message_id for one in self.host.received]


async def holds(what: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.01)


async def test_what_is_missed_comes_before_what_is_new() -> None:
    server = Server()
    await server.intake.load("0")
    server.intake.hold()
    server.written["1"] = ["1", "2"]
    last = server.deliver("3")
    await asyncio.sleep(0.02)
    assert server.taken == []
    server.intake.resume(["1"])
    await last
    assert server.taken == ["1", "2", "3"]
    await server.intake.close()


async def test_the_next_process_reads_on_where_the_last_one_was() -> None:
    server = Server()
    await server.intake.load("0")
    await server.deliver("5")
    await server.deliver("6")
    await server.intake.close()
    server.written["1"] += ["7", "8"]
    server.written["2"] = ["3", "9"]
    other = server.again()
    await other.intake.load("100")
    assert other.intake.channels == ["1"]
    assert (other.intake.is_behind("9"), other.intake.is_behind("6")) == (True, False)
    other.intake.resume(["1", "2"])
    await holds(lambda: len(server.taken) == 5)
    assert sorted(other.asked) == [("1", "6"), ("2", "6")]
    assert sorted(server.taken) == ["5", "6", "7", "8", "9"]
    await other.intake.close()


async def test_a_store_that_fails_keeps_the_order_and_loses_nothing() -> None:
    server = Server()
    await server.intake.load("0")
    server.host.failing = StoreFailed("full")
    told = [server.deliver(number) for number in ("1", "2")]
    await asyncio.sleep(0.05)
    assert not any(one.done() for one in told)
    server.host.failing = None
    await asyncio.gather(*told)
    assert server.taken == ["1", "2"]
    await server.intake.close()


async def test_what_was_not_taken_before_the_end_is_read_at_the_next_start() -> None:
    server = Server()
    await server.intake.load("0")
    server.host.failing = StoreFailed("full")
    told = server.deliver("1")
    await asyncio.sleep(0.05)
    await server.intake.close()
    assert told.cancelled()
    server.host.failing = None
    other = server.again()
    await other.intake.load("100")
    other.intake.resume(other.intake.channels)
    await holds(lambda: server.taken == ["1"])
    await other.intake.close()


async def test_of_a_stranger_no_channel_is_kept() -> None:
    host = FakeHost(allowed=frozenset())
    server = Server(host)
    await server.intake.load("0")
    await server.deliver("1")
    await server.intake.close()
    assert (host.kept["places"]["places"], server.intake.channels) == ([], [])


async def test_more_than_wait_in_memory_are_read_again() -> None:
    server = Server()
    await server.intake.load("0")
    await server.deliver("1")
    server.host.failing = StoreFailed("full")
    told = [server.deliver(str(number)) for number in range(2, 900)]
    await asyncio.sleep(0.02)
    server.host.failing = None
    await asyncio.gather(*told)
    assert server.taken == [str(number) for number in range(1, 900)]
    await server.intake.close()


async def test_a_reading_that_fails_is_tried_again_and_one_that_is_broken_passed_over() -> None:
    server = Server()
    await server.intake.load("0")
    server.written["1"] = ["1"]
    server.failures = [OSError("gone"), OSError("gone")]
    server.intake.resume(["1"])
    await holds(lambda: server.taken == ["1"])
    server.failures = [RuntimeError("a fault of ours")]
    server.intake.resume(["1"])
    await server.deliver("2")
    assert server.taken == ["1", "2"]
    await server.intake.close()


async def test_ids_are_numbers_with_dots_or_without() -> None:
    server = Server()
    await server.intake.load("9.5")
    assert [server.intake.is_behind(one) for one in ("10.1", "9.10", "9.5", "none")] == [True, True, False, False]
    await server.intake.close()


async def test_what_was_sent_is_remembered_over_restarts() -> None:
    host = FakeHost()
    sent = SentKeys(host, most=2)
    await sent.load()
    assert await sent.begin("a", "7") == "7"
    other = SentKeys(host)  # a killed process: nothing was closed
    await other.load()
    assert (await other.begin("a", "9"), other.note_of("a"), other.known("a")) == ("7", "7", "")
    await other.done("a", "id")
    await other.close()
    last = SentKeys(host)
    await last.load()
    assert (last.known("a"), last.note_of("a"), last.ids) == ("id", None, {"id"})


async def test_a_process_that_only_looked_leaves_what_was_sent() -> None:
    host = FakeHost()
    sent = SentKeys(host)
    await sent.load()
    await sent.begin("a", "7")
    await SentKeys(host).close()  # like a process that connected and found that another gateway has the account
    other = SentKeys(host)
    await other.load()
    assert other.note_of("a") == "7"


async def test_of_what_is_known_the_newest_are_kept() -> None:
    sent = SentKeys(FakeHost(), most=2)
    for key in "abc":
        await sent.begin(key, "")
        await sent.done(key, f"id-{key}")
    assert [sent.known(key) for key in "abc"] == ["", "id-b", "id-c"]
    await sent.begin("d", "note")
    sent.forget("d")
    assert sent.note_of("d") is None
    with pytest.warns(DeprecationWarning, match="SentKeys.note is an old name: call note_of"):
        assert sent.note("d") is None
