"""Process in which the group "delegate" measures: python -m benchmarks._delegate_child URL ROUNDS"""

from __future__ import annotations

import asyncio
import json
import sys
import time


def delegates(base_url: str, rounds: int) -> None:
    """Print {"called": when each call of delegate_task began, "posted": when each bare request was begun}."""
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
                    await agent.aask("Have it looked at.")
                    posted.append(time.monotonic())
                    await client.post(f"{base_url}/bare", content=body)

    asyncio.run(talk())
    print(json.dumps({"called": called, "posted": posted}))


if __name__ == "__main__":
    delegates(sys.argv[1], int(sys.argv[2]))
