"""Base of all stands of the group "platforms": a server, and a user on it."""

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
    """A server of tests/infra in its own process; ``said`` is what it printed. A context manager."""

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
        """Send the server a command; its module's docstring lists them."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._answer()

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


class Stand:
    """A platform. An async context manager that runs its server and connects a user."""

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
        """Start the server, and connect the user."""
        raise NotImplementedError

    @property
    def platform(self) -> Mapping[str, Any]:
        """Configuration of the gateway's platform, the content of platforms.NAME."""
        raise NotImplementedError

    @property
    def secrets(self) -> Mapping[str, str]:
        """Variables of the gateway's environment."""
        return {}

    @property
    def bare(self) -> Sequence[str]:
        """Arguments of the bare bot."""
        raise NotImplementedError

    async def say(self, bot: str, text: str) -> None:
        """Write to the bot BARE or OURS as the user."""
        raise NotImplementedError

    def heard(self, text: str) -> None:
        """Record the text that a bot shows, in its present form."""
        waiting = self._waiting.get(text.replace("\\", "").strip())
        if waiting is not None and not waiting.done():
            waiting.set_result(time.monotonic())

    def _words(self, seconds: float) -> str:
        return f"echo {seconds:g} m{next(self._numbers)}"

    async def asks(self, bot: str, seconds: float, patience: float) -> float | None:
        """Return the seconds from a message until its whole answer has arrived, or None if that took too long."""
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
