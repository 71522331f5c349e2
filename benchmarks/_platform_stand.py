"""The base of all stands of the group "platforms": a server, and somebody there who asks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError

_INFRA = Path(__file__).parents[1] / "tests" / "infra"
BARE, OURS = "bare", "ours"


class Infra:
    """A server of tests/infra in a process of its own; ``said`` is what it printed. A context manager."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.said: list[str] = []

    def __enter__(self) -> Infra:
        self._process = subprocess.Popen(
            [sys.executable, str(_INFRA / self._script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, *self.said = self._answer()
        if word != "ready":
            self.__exit__()
            raise CannotMeasureError(f"{self._script}: {' '.join(self.said) or 'it did not start'}")
        return self

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split() or [""]

    def control(self, line: str) -> None:
        """Have it do something, as its docstring says."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._answer()

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


class Stand:
    """A platform. An async context manager, in which its server runs and somebody is there."""

    name = ""
    ours_first = ""
    """Python that the gateway's process runs first."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[float]] = {}

    async def __aenter__(self) -> Stand:
        async with contextlib.AsyncExitStack() as stack:
            self._stack = stack
            await self.open()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self) -> None:
        """Start the server, and be there."""
        raise NotImplementedError

    @property
    def platform(self) -> Mapping[str, Any]:
        """The part of the gateway's configuration below platforms.NAME."""
        raise NotImplementedError

    @property
    def secrets(self) -> Mapping[str, str]:
        """Variables of the gateway's environment."""
        return {}

    @property
    def bare(self) -> Sequence[str]:
        """The arguments of the bare bot."""
        raise NotImplementedError

    async def say(self, bot: str, text: str) -> None:
        """Say something to BARE or OURS."""
        raise NotImplementedError

    def heard(self, text: str) -> None:
        """Take what a bot shows, as far as it has come."""
        waiting = self._waiting.get(text.replace("\\", "").strip())
        if waiting is not None and not waiting.done():
            waiting.set_result(time.monotonic())

    def _words(self, seconds: float) -> str:
        return f"echo {seconds:g} m{next(self._numbers)}"

    async def asks(self, bot: str, seconds: float, patience: float) -> float | None:
        """Return the seconds from saying something until the whole answer was seen, None where that took too long."""
        text = self._words(seconds)
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[text] = answer
        begun = time.monotonic()
        await self.say(bot, text)
        try:
            return await asyncio.wait_for(answer, patience) - begun
        except TimeoutError:
            return None
        finally:
            del self._waiting[text]
