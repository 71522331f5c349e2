"""Programs for these tests: each runs the jobs of a store, with a model that records its requests."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from agent.api import assemble, open_store
from agent.config import load_config
from agent.cron.runner import CronRunner
from toolcrib import ProviderTurn, ToolCall
from toolcrib.contract.session import OnEvent
from toolcrib.testing import ScriptedSession


class Counter(ScriptedSession):
    """A model that records each requested run. ``hangs``: it records the request in a file, and never answers; ``acts``: it runs
    a command that records itself.
    """

    def __init__(self, folder: Path, how: str) -> None:
        super().__init__()
        self._folder = folder
        self._how = how
        self._acted = False

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        said = self.said[-1] if self.said else "(goes on)"  # the conversation contains what the dead process left
        with (self._folder / "asked").open("a") as file:
            file.write(f"{os.getpid()} {said.splitlines()[-1]}\n")
        if self._how == "hangs":
            await asyncio.sleep(600)
        if self._how == "acts" and not self._acted:
            self._acted = True
            waits = f"while [ ! -e {self._folder}/stop ]; do sleep 0.1; done"
            command = f"echo ran >> {self._folder}/ran; touch {self._folder}/begun; {waits}"
            return ProviderTurn("", (ToolCall(ToolCall.new_id(), "terminal", {"command": command}),), "x")
        return ProviderTurn("done", assistant_turn="x")


async def main(folder: Path, how: str) -> None:
    config = load_config(folder / "config.yaml")
    crib = assemble(config=config, project_dir=folder, store=open_store(config, late=True))

    def prepare(session: Any) -> None:
        session.link.use(Counter(folder, how))

    runner = CronRunner(crib, prepare=prepare, look_seconds=0.5)
    await runner.start()
    print("up", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.stop()
    await crib.aclose()


def run() -> None:
    """Run the jobs with the arguments of the command line."""
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
