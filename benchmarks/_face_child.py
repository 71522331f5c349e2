"""The chat's screen in its own process, fed with text at a steady rate: python -m benchmarks._face_child TOKENS FILE

Four calls run at the same time. When Ctrl-D ends it, the time of each token is written to FILE, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RATE = 200.0
"""Tokens a second."""


def tokens(count: int) -> Iterator[str]:
    """Yield Markdown whose words are all different and in lower case."""
    for number in range(count):
        word = f"t{number:06d} "
        if number % 400 == 0:
            word = f"\n\n## {word}\n\n"
        elif number % 400 in (150, 160, 170):
            word = f"\n- {word}"
        elif number % 400 == 200:
            word = f"\n\n```python\ndef f():\n    {word}"
        elif 200 < number % 400 < 240:
            word = f"{word}" if number % 4 else f"\n    x = {word}"
        elif number % 400 == 240:
            word = f"\n```\n\n{word}"
        elif number % 50 == 7:
            word = f"**{word.strip()}** "
        yield word


async def _feed(chat: Any, count: int, times: list[float]) -> None:
    from agent.events import TextDelta, ToolStarted
    from toolcrib import ToolCall

    if not count:
        return
    for number in range(4):
        chat.view(ToolStarted(ToolCall(f"c{number}", "terminal", {"command": f"sleep {number}"}), "💻"))
    begin = time.monotonic()
    for number, token in enumerate(tokens(count)):
        delay = begin + number / RATE - time.monotonic()
        await asyncio.sleep(max(delay, 0))
        times.append(time.monotonic())
        chat.view(TextDelta(token))


def main() -> None:
    from prompt_toolkit.history import InMemoryHistory

    from agent.cli.interactive import InteractiveChat
    from agent.config._model import DisplayConfig

    count, file = int(sys.argv[1]), Path(sys.argv[2])
    times: list[float] = []
    backend, mode, delegates = SimpleNamespace(name="local"), SimpleNamespace(now="default"), SimpleNamespace(at_work=())
    session = SimpleNamespace(id="bench", backend=backend, mode=mode, delegates=delegates, running_processes=())
    nothing: dict[str, Any] = {"cost": None, "reader": None, "beside": [], "images": []}
    conversation: Any = SimpleNamespace(session=session, model="m", interrupt=lambda: None, **nothing)

    async def chat() -> None:
        screen = InteractiveChat(DisplayConfig(), InMemoryHistory())
        await screen.run(conversation, lambda: _feed(screen, count, times))

    asyncio.run(chat())
    file.write_text(json.dumps({"times": times, "cpu": time.process_time()}))


if __name__ == "__main__":
    main()
