"""Ctrl-C at any moment while calls run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from agent.cli import main
from agent.cli.signals import Ended, interrupting


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Ended)])
def test_a_second_signal_ends_the_run_and_no_task_raises_it_again(number: int, raised: type[BaseException]) -> None:
    first = []

    async def inner() -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)

    async def outer() -> None:
        await asyncio.create_task(inner())

    with asyncio.Runner() as runner:
        with pytest.raises(raised), interrupting(lambda: first.append(1)):
            runner.run(outer())
        runner.run(asyncio.sleep(0.01))  # like the closing of open resources
    assert first == [1]


def test_without_a_loop_or_in_one_that_does_not_go_on_it_is_raised_where_it_falls() -> None:
    async def stuck() -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it was not interrupted")

    with pytest.raises(KeyboardInterrupt), interrupting(lambda: None):
        asyncio.run(stuck())
    with pytest.raises(KeyboardInterrupt), interrupting(lambda: None):
        stuck().send(None)


class _Interrupts:
    """An import finder that raises Ctrl-C when the module is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "agent.cli.app":
            raise KeyboardInterrupt


def test_ctrl_c_while_modules_are_loaded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agent.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupts(), *sys.meta_path])
    assert main(["tools"]) == 130
    assert capsys.readouterr() == ("", "toolcrib: interrupted\n")
