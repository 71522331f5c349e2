"""The real program with a chat server: killed while users write, and started again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forks import Forks
from tests.fuzz.kill_town import Town, model_of, serving
from tests.plugins.houses import OWNED, ChatHouse, holds

_RUN = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"


class Program:
    """`toolcrib gateway run PLATFORM` in its own process, with a store on disk. ``model`` has its model's messages: the model
    answers ``<mark>`` with ``[mark]``, and runs the text after ``run: ``.
    """

    def __init__(self, folder: Path, port: int, model: Town, forks: Forks) -> None:
        self._forks = forks
        self.folder = folder
        self.model = model
        self._port = port
        self._chance = random.Random(5)  # noqa: S311 - dice of a test
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, name: str, platform: Mapping[str, Any], *, before: str = "", **secrets: str) -> None:
        """Configure a platform and its secrets; ``before`` is code that runs first."""
        model = {"provider": "chat", "base_url": f"http://127.0.0.1:{self._port}/v1", "name": "toy"}
        plain = {"sandbox": {"mode": "none"}, "snapshots": {"enabled": False}}  # an undo would cover their effects
        config = {"model": model, "plugins": {"enabled": [name]}, "platforms": {name: platform}, **plain}
        path = self.folder / "config.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML too
        self._environ = {"TOOLCRIB_CONFIG": str(path), "TOOLCRIB_STATE": str(self.folder / "state"), **secrets}
        self._code = f"{before}\n{_RUN}"
        self._words = ("gateway", "run", name)

    def start(self) -> None:
        self._known = len(self.log)
        with (self.folder / "log").open("ab") as log:
            more: dict[str, Any] = {"cwd": self.folder, "env": {**os.environ, **self._environ}, "stdin": subprocess.DEVNULL}
            self._process = self._forks.popen(*self._words, code=self._code, stdout=log, stderr=log, **more)

    async def listens(self) -> None:
        """Wait until it reports that it listens, since its last start."""
        await holds(lambda: "listening" in self.log[self._known :], 60)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    @asynccontextmanager
    async def killed_amid(self, replies: int = 1) -> AsyncIterator[None]:
        """Kill it some moments after the model has answered ``replies`` of the messages that are written in the block."""
        before = self.model.happened["replied"]
        yield
        await holds(lambda: self.model.happened["replied"] >= before + replies)
        await asyncio.sleep(self._chance.uniform(0, 0.15))
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def dooms(self) -> str:
        """Return a message that asks to delete a folder, ``kept``; it is answered with ``[park]``."""
        self.kept.mkdir()
        return f"<park> run: rm -rf {self.kept}"

    @property
    def kept(self) -> Path:
        return self.folder / "kept"


@pytest.fixture
def program(tmp_path: Path, forks: Forks) -> Iterator[Program]:
    model = Town()
    with serving(model_of(model)) as port:
        made = Program(tmp_path, port, model, forks)
        yield made
        made.close()


class Kills:
    """Kills of a gateway for a fake; ``house`` and ``program`` are fixtures of the module that inherits them."""

    async def test_a_gateway_that_is_killed_loses_and_doubles_nothing(self, house: ChatHouse, program: Program) -> None:
        """003-25: kill it once while it answers, and once when a message was shown but not yet acknowledged.

        A call that waits for an approval continues to wait, and runs once.
        """
        async with _begun(house, program):
            house.say(house.direct, house.ann, program.dooms())
            asked = await house.question()
            marks: list[tuple[str, str]] = []

            def said(kind: str) -> None:
                for chat, user in ((house.another, house.bob), (house.room, house.ann)):
                    marks.append((chat, f"{kind}{len(marks)}"))
                    house.say(chat, user, f"<{marks[-1][1]}> hello", is_addressed=chat == house.room)

            async with program.killed_amid():
                said("amid")
            said("away")
            program.start()
            await _answered(house, marks)
            house.loses_acknowledgement(program.kill)
            said("unheard")
            await holds(lambda: not program.is_running)
            house.fake.minutes_later()
            said("later")
            program.start()
            await _answered(house, marks)
            house.press(asked, house.bob, house.button(asked, "y"))
            await holds(lambda: "may not decide" in "".join(house.lines()))
            assert program.kept.is_dir()
            house.press(asked, house.ann, house.button(asked, "y"))
            await holds(lambda: _copies(house, house.direct, "park"))
            assert not program.kept.exists()
            program.close()
        assert [mark for chat, mark in marks if _copies(house, chat, mark) != 1] == []
        assert len([*house.said(house.another), *house.said(house.room)]) == len(marks)
        assert len(house.said()) == 2  # the question and the answer
        for secret in ("hello", *house.secrets.values()):
            assert secret not in program.log


@asynccontextmanager
async def _begun(house: ChatHouse, program: Program) -> AsyncIterator[None]:
    """Open the fake, and the program for it."""
    house.fake = house.open_fake()
    await house.fake.revive()
    owned = OWNED.format(name=house.name, ann=house.ann, bob=house.bob, settings=house.settings())
    program.configure(house.name, yaml.safe_load(owned)["platforms"][house.name], before=house.before(), **house.secrets)
    program.start()
    try:
        await program.listens()
        yield
    finally:
        program.close()
        await house.fake.kill()


async def _answered(house: ChatHouse, marks: Sequence[tuple[str, str]]) -> None:
    await holds(lambda: all(_copies(house, chat, mark) for chat, mark in marks), 60)


def _copies(house: ChatHouse, chat: str, mark: str) -> int:
    """Return the number of messages with the answer to a mark."""
    return sum(f"[{mark}]" in text.replace("\\", "") for text in house.said(chat))  # brackets may be escaped
