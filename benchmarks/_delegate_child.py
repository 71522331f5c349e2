"""Measured process of the group "delegate": python -m benchmarks._delegate_child URL ROUNDS"""

from __future__ import annotations

import asyncio
import json
import sys
import time


def delegates(base_url: str, rounds: int) -> None:
    """Print {"called": times when calls of delegate_task began, "posted": times when bare requests began}."""
    from agent.api import Agent
    from agent.events import Event, ToolStarted

    called: list[float] = []
    posted: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, ToolStarted):
            called.append(time.monotonic())

    async def talk() -> None:
        import httpx

        async with Agent(model="bench", base_url=base_url, on_event=watch) as agent:
            body = json.dumps({"model": "bench", "stream": True, "tools": agent.session.definitions}).encode()
            async with httpx.AsyncClient(trust_env=False) as client:
                for _ in range(rounds):
                    await agent.aask("Delegate a check.")
                    posted.append(time.monotonic())
                    await client.post(f"{base_url}/bare", content=body)

    asyncio.run(talk())
    print(json.dumps({"called": called, "posted": posted}))


if __name__ == "__main__":
    delegates(sys.argv[1], int(sys.argv[2]))
