"""The end of a gateway, and platforms that do not start: nothing is lost, and the other platforms continue."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent.gateway.status import STATUS
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import ConfigError
from toolcrib.chat import Chat
from toolcrib.testing import FakePlatform


async def status(house: House, name: str = "fake") -> Any:
    """Return the platform's status that other processes read."""
    found = (await house.store.state.of("profile", f"gateway:{name}")).get(STATUS)
    return {} if found is None else found.value


async def test_what_is_under_way_ends_and_what_comes_meanwhile_is_for_the_next_start(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        serving = asyncio.create_task(gateway.serve())
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        await house.platform.says("behind it")
        gateway.end()
        await house.until(lambda: gateway.lines[0].state == "draining")
        assert (await status(house))["state"] == "draining"
        await house.platform.says("later", user="bob", chat=Chat("bobs"))
        await asyncio.sleep(0.1)
        assert not serving.done()
        house.may.set()
        await serving
    assert (house.asked, house.platform.texts()) == (["wait"], ["re wait"])
    assert (await status(house))["state"] == "stopped"
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: len(house.platform.texts()) == 2 and house.platform.texts(Chat("bobs")))
    assert sorted(house.asked) == ["behind it", "later", "wait"]


async def test_what_does_not_end_in_time_goes_on_at_the_next_start(house: House) -> None:
    house.configure(OWNED + "gateway: {drain_seconds: 0.1}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        gateway.end()
        await gateway.serve()
    assert house.platform.texts() == []
    house.may.set()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: house.platform.texts() == ["re wait"])
        await asyncio.sleep(0.1)
    assert house.platform.texts() == ["re wait"]
    assert house.asked == ["wait", "wait"]


async def test_a_second_end_does_not_wait(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        serving = asyncio.create_task(gateway.serve())
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        gateway.end()
        await house.until(lambda: gateway.lines[0].state == "draining")
        gateway.end(now=True)
        await serving
    house.may.set()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: house.platform.texts() == ["re wait"])


async def test_a_question_that_is_answered_while_it_drains_is_acted_on_at_the_next_start(house: House) -> None:
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        serving = asyncio.create_task(gateway.serve())
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        question = house.platform.shown[-1]
        await house.platform.says("wait", user="bob", chat=Chat("other"))
        await house.until(lambda: "wait" in house.asked)
        gateway.end()
        await house.until(lambda: gateway.lines[0].state == "draining")
        assert await house.platform.presses(question, "y") == ""
        house.may.set()
        await serving
    assert (house.folder / "build").exists()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.until(lambda: house.platform.texts()[-1] == "ran it")
    assert not (house.folder / "build").exists()


class Dead(FakePlatform):
    """A platform whose server is down for the first ``times`` attempts."""

    times = 2
    error: Exception = OSError("connection refused")

    async def connect(self) -> str:
        if self.times:
            type(self).times -= 1
            raise self.error
        return await super().connect()


async def test_a_platform_that_fails_is_tried_again_while_the_others_go_on(house: House) -> None:
    class Sleepy(Dead):
        pass

    house.others["sleepy"] = Sleepy
    house.more["retry_seconds"] = 0.05
    async with house.gateway() as gateway:
        assert [line.name for line in gateway.running] == ["fake"]
        assert gateway.can_run
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        await house.until(lambda: len(gateway.running) == 2)
        assert (await status(house, "sleepy"))["state"] == "running"


async def test_a_clock_that_is_set_back_puts_off_no_try(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleepy(Dead):
        times = 1

    house.others["sleepy"] = Sleepy
    house.more["retry_seconds"] = 0.5
    async with house.gateway() as gateway:
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() - 86_400.0)
        assert len(gateway.running) == 1
        await house.until(lambda: len(gateway.running) == 2)


async def test_other_processes_are_told_why_a_platform_is_not_up(house: House) -> None:
    class Tokenless(Dead):
        times = 1_000
        error = ConfigError("fake needs FAKE_TOKEN")

    house.others["tokenless"] = Tokenless
    async with house.gateway() as gateway:
        assert gateway.can_run
        await asyncio.sleep(0.05)
        told = await status(house, "tokenless")
        assert (told["state"], told["problem"]) == ("failed", "ConfigError: fake needs FAKE_TOKEN")
        assert told["retry_at"] > told["at"]


async def test_without_any_platform_that_could_come_up_nothing_can_run(house: House) -> None:
    class Tokenless(Dead):
        times = 1_000
        error = ConfigError("fake needs FAKE_TOKEN")

    class Sleepy(Dead):
        times = 1_000

    house.others = {"tokenless": Tokenless}
    house.more["names"] = ["tokenless"]
    async with house.gateway() as gateway:
        assert not gateway.can_run
    house.others = {"tokenless": Tokenless, "sleepy": Sleepy}
    house.more["names"] = ["tokenless", "sleepy"]
    async with house.gateway() as gateway:
        assert gateway.can_run
        assert gateway.running == []


async def test_the_second_gateway_of_an_account_waits_for_its_turn_and_says_nothing_of_the_first(house: House) -> None:
    house.more["retry_seconds"] = 0.05
    async with house.gateway() as first:
        line_of(first)
        async with house.gateway() as second:
            assert "another gateway uses the account" in second.lines[0].problem
            assert not second.can_run
            assert (await status(house))["problem"] == ""
            await first.__aexit__()
            await house.until(lambda: second.running)
            await house.platform.says("hello")
            await house.until(lambda: house.platform.texts() == ["re hello"])
