"""Measured processes of the group "gateway": python -m benchmarks._gateway_children WHAT URL NUMBERS FOLDER, or model NUMBERS."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from agent.api import assemble
from agent.config import load_config
from agent.gateway.collecting import collecting
from agent.gateway.gateway import Gateway
from agent.model_choice.models import ModelChoice
from agent.process import Crib
from agent.store.sqlite import SqliteStore
from toolcrib.chat import Attachment, Chat, Host, Inbound, Outbound, Press, Traits

CONFIG = """
platforms:
  bench:
    roles: {{owner: ['*']}}
    allow_local: true
gateway: {{sessions: {sessions}}}
sandbox: {{mode: none}}
snapshots: {{enabled: false}}
"""


async def serve_model(deltas: int, per_second: float) -> None:
    """Answer each request with ``deltas`` deltas, each with the time when it was sent. Print the port first. Runs forever.

    A request that says "echo SECONDS ..." gets its own text back after that many seconds, word by word.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                if not lengths:  # a request for the list of models
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                body = json.loads(await reader.readexactly(lengths[0]))
                said = str(body["messages"][-1].get("content"))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                many, pause = (deltas, 1.0 / per_second) if "stream" in said else (1, 0.0)
                if "rm " in said and body["messages"][-1]["role"] == "user":
                    call = {"name": "terminal", "arguments": json.dumps({"command": said[said.index("rm ") :]})}
                    _event(
                        writer,
                        {"tool_calls": [{"index": 0, "id": f"c{time.monotonic_ns()}", "type": "function", "function": call}]},
                    )
                    many = 0
                if said.startswith("echo "):
                    await asyncio.sleep(float(said.split()[1]))
                    for word in said.split():
                        _event(writer, {"content": f"{word} "})
                    many = 0
                for _ in range(many):
                    if writer.is_closing():  # the client has left
                        return
                    _event(writer, {"content": f"{time.monotonic():.6f} "})
                    await asyncio.sleep(pause)
                writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=2_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _event(writer: asyncio.StreamWriter, delta: dict[str, Any]) -> None:
    data = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode() + b"\n\n"
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


class BenchPlatform:
    """A platform that shows nothing, and records how late each message arrives."""

    traits = Traits(max_chars=8_000, edit_seconds=0.0, max_edits=1_000_000, buttons=True, idempotent=True, per_second=1e9)

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self.host = host
        self.late: list[float] = []
        self.whole = 0
        self.asked: list[tuple[Outbound, float]] = []
        self.seen: dict[str, str] = {}

    async def connect(self) -> str:
        """Return the account's name."""
        return "bench"

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def send(self, out: Outbound) -> str:
        """Record the delay of the newest word when it is first seen."""
        now = time.monotonic()
        last = out.text.rsplit(" ", 1)[-1]
        if self.seen.get(out.chat.id) != last:
            self.seen[out.chat.id] = last
            with suppress(ValueError):
                self.late.append(now - float(last))
        if out.buttons:
            self.asked.append((out, now))
        return out.edits or out.key

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield no content: no files arrive."""
        yield b""

    async def says(self, chat: str, text: str, number: str) -> None:
        """Write a message as a user."""
        await self.host.receive(Inbound(Chat(chat), "me", number, text))


@asynccontextmanager
async def running(folder: Path, url: str, sessions: int = 2_000) -> AsyncIterator[tuple[Gateway, BenchPlatform, Crib]]:
    """Run a gateway with a store in the folder."""
    os.environ["TOOLCRIB_STATE"] = str(folder / "state")
    (folder / "config.yaml").write_text(CONFIG.format(sessions=sessions))
    made: list[BenchPlatform] = []

    def factory(**given: Any) -> BenchPlatform:
        made.append(BenchPlatform(**given))
        return made[-1]

    crib = assemble(config=load_config(folder / "config.yaml"), project_dir=folder, store=SqliteStore(folder / "store.db"))
    crib._add_platform("bench", factory)
    gateway = Gateway(crib, choice=ModelChoice("bench", url, provider="chat"))
    async with crib, collecting(lambda: gateway.is_quiet), gateway:  # as ``toolcrib gateway run`` does
        yield gateway, made[0], crib


async def chats(url: str, many: int, seconds: float, patience: float, folder: Path) -> None:
    """Print how late deltas reached the platform, in ms, once all chats have some, or ``patience`` seconds are over. A chat
    without a delta counts like a chat with as many deltas as the others, each delayed by the time since the start.

    {"p50", "p99", "deltas", "chats", "cpu"}: also the chats that had deltas by then, and the cores in use. Does not return:
    ending many streams takes long, and is not measured.
    """
    async with running(folder, url) as (_, platform, _):
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                for number in range(many):
                    await platform.says(f"c{number}", "stream", f"m{number}")
                await _until(lambda: len(platform.seen) == many)
        await asyncio.sleep(seconds / 4)
        platform.late.clear()
        begun, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        took, spent = time.monotonic() - begun, time.process_time() - cpu
        late, seen = platform.late, len(platform.seen)
        waited = [time.monotonic() - began] * ((many - seen) * max(1, len(late) // max(1, seen)))
        p50, p99 = (at * 1000 for at in _shares([*late, *waited], 0.5, 0.99))
        print(json.dumps({"p50": p50, "p99": p99, "deltas": len(late), "chats": seen, "cpu": spent / took}), flush=True)
        os._exit(0)


def _shares(values: list[float], *shares: float) -> list[float]:
    found = sorted(values)
    return [found[int(len(found) * share)] for share in shares]


async def idle(url: str, many: int, parked: int, patience: float, folder: Path) -> None:
    """Park ``parked`` runs, then print the MiB added by ``many`` chats that sent one message each and are now idle. All are
    stored.

    {"before", "after", "chats", "cpu", "seconds"}: also the chats that were served in ``patience`` seconds, and their cost.
    """
    async with running(folder, url, sessions=500) as (gateway, platform, _):
        for number in range(parked):
            (folder / f"d{number}").mkdir()
            await platform.says(f"p{number}", f"rm -rf {folder / f'd{number}'}", f"p{number}")
        await _until(lambda: len(platform.asked) >= parked)
        for number in range(20):
            await platform.says(f"warm{number}", "hello", f"w{number}")
        await _settled(gateway)
        before, begun, cpu = _resident(), time.monotonic(), time.process_time()
        met = 0
        while met < many and time.monotonic() - begun < patience:
            for number in range(met, min(met + 50, many)):
                await platform.says(f"c{number}", "hello", f"m{number}")
            met = min(met + 50, many)
            await _settled(gateway)
        spent = {"cpu": time.process_time() - cpu, "seconds": time.monotonic() - begun}
        print(json.dumps({"before": before, "after": _resident(), "chats": met, **spent}))


async def approve(url: str, rounds: int, folder: Path) -> None:
    """Print the ms from the message to the question, and from the button press to the effect, for each round."""
    asked, ran = [], []
    async with running(folder, url) as (_, platform, _):
        for number in range(rounds):
            target = folder / f"d{number}"
            target.mkdir()
            begun = time.monotonic()
            await platform.says(f"c{number}", f"rm -rf {target}", f"m{number}")
            while len(platform.asked) <= number:
                await asyncio.sleep(0.001)
            out, at = platform.asked[number]
            asked.append((at - begun) * 1000)
            await asyncio.sleep(0.3)  # the run has parked, and its session was closed
            begun = time.monotonic()
            await platform.host.press(Press(out.chat, "me", out.key, "y", f"p{number}"))
            while target.exists():
                await asyncio.sleep(0.001)
            ran.append((time.monotonic() - begun) * 1000)
    print(json.dumps({"asked": asked, "ran": ran}))


async def start(url: str, folder: Path) -> None:
    """Print the seconds until the gateway listens."""
    begun = time.monotonic()
    async with running(folder, url):
        print(json.dumps({"seconds": time.monotonic() - begun}))


async def _settled(gateway: Gateway) -> None:
    line = gateway.lines[0]
    await _until(lambda: not line.mailbox.waiting)
    await line.manager.wait_until_idle(60)
    await line.replies.flush()
    await _until(lambda: not line.outbox.waiting)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def _resident() -> float:
    import gc

    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Run the measurement of the command line."""
    what, *given = sys.argv[1:]
    if what == "model":
        asyncio.run(serve_model(int(given[0]), float(given[1])))
        return
    url, *numbers, last = given
    folder, values = Path(last), [float(one) for one in numbers]
    if what == "chats":
        asyncio.run(chats(url, int(values[0]), values[1], values[2], folder))
    elif what == "idle":
        asyncio.run(idle(url, int(values[0]), int(values[1]), values[2], folder))
    elif what == "approve":
        asyncio.run(approve(url, int(values[0]), folder))
    else:
        asyncio.run(start(url, folder))


if __name__ == "__main__":
    main()
