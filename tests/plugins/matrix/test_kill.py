"""The real program on a real Synapse, killed while people write: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.kill_town import Town, model_of, serving
from tests.plugins.matrix.conftest import Person, Synapse

KILLS = 6


class Program:
    """`toolcrib gateway run matrix`, over a store on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"
        argv = [sys.executable, "-c", code, "gateway", "run", "matrix"]
        self._process = subprocess.Popen(
            argv, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def close(self) -> None:
        self.end(signal.SIGTERM)
        self._log.close()


@pytest.fixture
def town() -> Iterator[tuple[Town, int]]:
    town = Town()
    with serving(model_of(town)) as port:
        yield town, port


async def test_a_gateway_that_is_killed_loses_nothing(
    synapse: Synapse, town: tuple[Town, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot, token = synapse.register("bot")
    model, port = town
    chance = random.Random(5)  # noqa: S311 - dice of a test
    async with Person(synapse, "alice") as alice:
        settings = {"homeserver": synapse.url, "per_second": "1000", "edit_seconds": "0.05"}
        config = {
            "model": {"provider": "chat", "base_url": f"http://127.0.0.1:{port}/v1", "name": "toy"},
            "plugins": {"enabled": ["matrix"]},
            "platforms": {"matrix": {"roles": {"owner": [alice.id]}, "settings": settings}},
        }
        (tmp_path / "config.yaml").write_text(json.dumps(config))  # which is YAML too
        monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "config.yaml"))
        monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
        monkeypatch.setenv("MATRIX_TOKEN", token)
        program = Program(tmp_path)
        try:
            program.start()
            room = await alice.room(bot)
            (tmp_path / "kept").mkdir()
            await alice.says(room, f"<park> run: rm -rf {tmp_path}/kept")
            await alice.until(lambda: alice.messages(room) and "👎" in alice.reactions(alice.messages(room)[0]["id"]))
            question = alice.messages(room)[0]["id"]
            rooms = [await alice.room(bot) for _ in range(3)]
            marks: list[tuple[str, str]] = []
            for kill in range(KILLS):
                replied = model.happened["replied"]
                for number, where in enumerate(rooms):
                    marks.append((where, f"k{kill}n{number}"))
                    await alice.says(where, f"<{marks[-1][1]}> hello")
                await alice.until(lambda replied=replied: model.happened["replied"] > replied)
                await asyncio.sleep(chance.uniform(0, 0.15))
                program.end(signal.SIGKILL)
                if kill % 2:
                    marks.append((rooms[0], f"k{kill}away"))
                    await alice.says(rooms[0], f"<{marks[-1][1]}> while it is down")
                program.start()
            await alice.until(lambda: all(any(f"[{mark}]" in text for text in alice.texts(where)) for where, mark in marks))
            await alice.reacts(room, question, "👍")
            await alice.until(lambda: "[park]" in alice.texts(room)[-1])
            assert not (tmp_path / "kept").exists()
            await asyncio.sleep(1)
        finally:
            program.close()
        for where, mark in marks:
            assert sum(f"[{mark}]" in text for text in alice.texts(where)) == 1, mark
        shown = sum(len(alice.messages(where)) for where in rooms)
        assert shown == len(marks), [alice.texts(where) for where in rooms]
        assert token not in (tmp_path / "log").read_text()
