"""Measured processes of the group "loop": python -m benchmarks._loop_children (turns URL ROUNDS | resume ID)"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from toolcrib import registry

CALLS = 9
"""Number of turns with a call that the server sends for each message; the turn after them is text."""


def turns(base_url: str, rounds: int) -> None:
    """Print {"ended": times when handlers were about to return, "posted": times when bare requests began}."""
    from agent.api import Agent

    ended: list[float] = []
    posted: list[float] = []

    def note_time(args: dict[str, object]) -> dict[str, int]:
        ended.append(time.monotonic())
        return {"noted": len(ended)}

    schema = {"description": "Note the time.", "parameters": {"type": "object", "properties": {}}}
    registry.register("bench_note", "bench", schema, note_time, kind="read")

    async def talk() -> None:
        import httpx

        async with Agent(model="bench", base_url=base_url, toolsets=["toolcrib-api", "bench"]) as agent:
            body = json.dumps({"model": "bench", "stream": True, "tools": agent.session.definitions}).encode()
            async with httpx.AsyncClient(trust_env=False) as client:
                for _ in range(rounds):
                    await agent.aask("Note the time.")
                    for _ in range(CALLS):
                        posted.append(time.monotonic())
                        await client.post(f"{base_url}/bare", content=body)

    asyncio.run(talk())
    print(json.dumps({"ended": ended, "posted": posted}))


def resume(session_id: str) -> None:
    """Print this process's memory in KiB when the session can continue."""
    from agent.api import Agent

    async def load() -> None:
        # No server listens there: the measured state is the conversation that waits to be sent.
        async with Agent(resume=session_id, model="bench", base_url="http://127.0.0.1:9/v1") as agent:
            await agent.session.provider()
            print(resident())

    asyncio.run(load())


def resident() -> int:
    """Return this process's present memory in KiB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


if __name__ == "__main__":
    if sys.argv[1] == "turns":
        turns(sys.argv[2], int(sys.argv[3]))
    else:
        resume(sys.argv[2])
