"""Plugins that are started and stopped, each isolated from the others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.plugin_host import lifecycle
from agent.plugin_host.lifecycle import Lifecycle
from toolcrib import hookimpl
from tools.dispatch.hooks import HookManager, new_manager

Log = list[str]


class Plugin:
    """Records when it is started and stopped, and the loop."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log
        self.loops: set[int] = set()

    @hookimpl
    async def on_start(self) -> None:
        await asyncio.sleep(0)
        self.loops.add(id(asyncio.get_running_loop()))
        self.log.append(f"{self.name} starts")

    @hookimpl
    async def on_stop(self) -> None:
        self.loops.add(id(asyncio.get_running_loop()))
        self.log.append(f"{self.name} stops")


class Plain:
    """A plugin with sync hooks, and with only one of the two."""

    def __init__(self, log: Log) -> None:
        self.log = log

    @hookimpl
    def on_stop(self) -> None:
        self.log.append("plain stops")


def faulty(does: Callable[[], Any], hook: str = "on_start") -> object:
    class Faulty:
        pass

    function = lambda self: does()  # noqa: E731 - one for whichever hook
    function.__name__ = hook
    setattr(Faulty, hook, hookimpl(function))
    return Faulty()


def managed(*plugins: tuple[str, object]) -> HookManager:
    manager = new_manager()
    for name, plugin in plugins:
        manager.register(plugin, name)
    return manager


def test_plugins_start_in_order_once_and_stop_in_reverse() -> None:
    log: Log = []
    life = Lifecycle(managed(("a", Plugin("a", log)), ("p", Plain(log)), ("b", Plugin("b", log))))

    async def main() -> None:
        await asyncio.gather(*(life.start() for _ in range(10)))
        log.append("in use")
        await life.start()
        await life.stop()
        await life.stop()

    asyncio.run(main())
    assert log == ["a starts", "b starts", "in use", "b stops", "plain stops", "a stops"]


def test_nothing_is_stopped_that_was_not_started() -> None:
    log: Log = []
    life = Lifecycle(managed(("a", Plugin("a", log))))
    asyncio.run(life.stop())
    assert log == []


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _exit() -> None:
    raise SystemExit(3)


def _raise() -> None:
    raise OSError("no network: password hunter2")


@pytest.mark.parametrize(
    ("does", "why"),
    [(_raise, "OSError: no network: password [secret]"), (_exit, "SystemExit: 3"), (_for_ever, "it took longer than 0.5 s")],
)
def test_one_that_fails_is_reported_and_the_others_go_on(
    does: Callable[[], Any], why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lifecycle, "START_SECONDS", 0.5)
    log: Log = []
    manager = managed(("a", Plugin("a", log)), ("bad", faulty(does)), ("b", Plugin("b", log)))
    life = Lifecycle(manager, lambda text: text.replace("hunter2", "[secret]"))

    async def main() -> None:
        await life.start()
        await life.stop()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    assert life.failed == {"bad": why}
    assert log == ["a starts", "b starts", "b stops", "a stops"]
    assert f"on_start of the plugin 'bad' failed: {why}" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("does", [_raise, _for_ever])
def test_one_that_fails_to_stop_holds_up_no_other(does: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "STOP_SECONDS", 0.5)
    log: Log = []
    life = Lifecycle(managed(("a", Plugin("a", log)), ("bad", faulty(does, "on_stop"))))

    async def main() -> None:
        await life.start()
        await life.stop()

    asyncio.run(main())
    assert log == ["a starts", "a stops"]


def test_whoever_comes_from_another_loop_waits_for_the_start() -> None:
    log: Log = []
    begun, go_on = threading.Event(), threading.Event()

    async def slow() -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait, 30)
        log.append("started")

    life = Lifecycle(managed(("slow", faulty(slow))))
    first = threading.Thread(target=lambda: asyncio.run(life.start()))
    first.start()
    assert begun.wait(30)

    async def second() -> None:
        waits = asyncio.ensure_future(life.start())
        await asyncio.sleep(0)
        assert not waits.done()
        go_on.set()
        await waits
        log.append("second")

    asyncio.run(second())
    first.join()
    assert log == ["started", "second"]


def test_a_start_whose_asker_is_interrupted_goes_on() -> None:
    log: Log = []

    async def main() -> None:
        ready = asyncio.Event()

        async def slow() -> None:
            await ready.wait()
            log.append("started")

        life = Lifecycle(managed(("slow", faulty(slow))))
        first = asyncio.ensure_future(life.start())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        ready.set()
        await life.start()

    asyncio.run(main())
    assert log == ["started"]


def test_a_plugin_that_uses_sessions_as_it_starts_does_not_wait_for_itself() -> None:
    log: Log = []
    lives: list[Lifecycle] = []

    async def uses_a_session() -> None:
        await lives[0].start()
        log.append("used")

    lives.append(Lifecycle(managed(("self", faulty(uses_a_session)))))
    asyncio.run(lives[0].start())
    assert log == ["used"]


async def test_plugins_that_came_later_are_started_once_and_stopped_with_the_others() -> None:
    log: Log = []
    hooks = new_manager()
    hooks.register(Plugin("first", log), "first")
    lives = Lifecycle(hooks)
    await lives.start()
    hooks.register(Plugin("second", log), "second")
    await lives.start()
    assert log == ["first starts"]
    await lives.start_new()
    await lives.start_new()
    assert log == ["first starts", "second starts"]
    await lives.stop()
    assert log[2:] == ["second stops", "first stops"]
