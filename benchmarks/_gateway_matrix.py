"""Measurements of the group "gateway" on a real Synapse: the gateway, and a bare bot that echoes after the same time.

``python -m benchmarks._gateway_matrix bot URL TOKEN`` is the bare bot.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from benchmarks._gateway_process import child, gateway_of
from benchmarks.core import CannotMeasureError, Figure, clean_environment

_ROOT = Path(__file__).parents[1]
_SECONDS = 2.0
"""Seconds that the model, or the bare bot, takes for an answer."""
_CHATS, _ROUNDS, _SINGLE = 50, 3, 5
_MOST_SECONDS = 60.0
"""Seconds after which a message counts as not answered."""
_START_SECONDS = 120.0


def measure(model: str, *, quick: bool) -> list[Figure]:
    """Return the figures; none if Synapse or matrix-nio is missing, which _needs.py reported before.

    ``model`` is the address of ``_gateway_children.serve_model``.
    """
    chats, rounds, single, seconds = (3, 1, 1, 0.2) if quick else (_CHATS, _ROUNDS, _SINGLE, _SECONDS)
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(_synapse())
        except _Missing:
            return []
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tc-bench-")))
        names = {"asker": _register(url, "asker"), "bare": _register(url, "bare"), "ours": _register(url, "ours")}
        stack.enter_context(_bare_bot(folder, url, names["bare"][1]))
        stack.enter_context(_gateway(folder, url, model, names["asker"][0], names["ours"][1]))
        bots = {"bare": names["bare"][0], "ours": names["ours"][0]}
        took = asyncio.run(_asked(url, names["asker"], bots, chats, rounds, single, seconds))
    many = {name: statistics.median(one) for name, (one, _) in took.items()}
    alone = {name: statistics.median(one) for name, (_, one) in took.items()}
    lost = {name: sum(second >= _MOST_SECONDS for second in one) for name, (one, _) in took.items()}
    if lost["ours"]:
        print(f"gateway.chats_matrix: {lost['ours']} of {chats * rounds} messages were not answered", file=sys.stderr)
        many["ours"] = float("inf")
    bare = "a bare matrix-nio bot that echoes after the same time"
    return [
        Figure(
            "gateway.chats_matrix",
            many["ours"],
            "s",
            many["bare"],
            1.5,
            "ratio",
            f"{bare}; {chats} chats at once, a model of {seconds:g} s, p50",
        ),
        Figure(
            "gateway.overhead",
            (alone["ours"] - alone["bare"]) * 1000,
            "ms",
            alone["bare"] * 1000,
            200.0,
            "value",
            f"{bare}; measured: how much longer ours takes, in one chat",
        ),
    ]


# -- measured processes ------------------------------------------------------------------------------------------


class _Missing(Exception):
    """A requirement of the figures is missing on this machine."""


@contextlib.contextmanager
def _synapse() -> Iterator[str]:
    """Run a homeserver without limits, and yield its address. Raises _Missing."""
    if importlib.util.find_spec("nio") is None:
        raise _Missing("matrix-nio is not installed: pip install 'toolcrib[matrix]'")
    argv = [sys.executable, str(_ROOT / "tests" / "infra" / "synapse.py")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        word, _, rest = server.stdout.readline().strip().partition(" ")
        if word == "missing":
            raise _Missing(rest)
        if word != "ready":
            raise CannotMeasureError(f"Synapse did not start: {rest or word}")
        try:
            yield rest.partition(" ")[0]
        finally:
            server.stdin.close()
            server.wait(60)


def _register(url: str, name: str) -> tuple[str, str]:
    """Register an account, and return (its id, its token)."""
    given = {"username": name, "password": "of no account", "auth": {"type": "m.login.dummy"}}
    answer = httpx.post(f"{url}/_matrix/client/v3/register", json=given, timeout=60)
    answer.raise_for_status()
    return answer.json()["user_id"], answer.json()["access_token"]


@contextlib.contextmanager
def _bare_bot(folder: Path, url: str, token: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "benchmarks._gateway_matrix", "bot", url, token]
    with child(argv, _ROOT, clean_environment(), folder / "bot.log"):
        yield


@contextlib.contextmanager
def _gateway(folder: Path, url: str, model: str, owner: str, token: str) -> Iterator[None]:
    """Run `toolcrib gateway run matrix` like an operator who sets no limit for the bot's messages."""
    matrix = {"roles": {"owner": [owner]}, "settings": {"homeserver": url, "per_second": "1000"}}
    with gateway_of(folder, model, "matrix", matrix, {"MATRIX_TOKEN": token}):
        yield


async def _echo(url: str, token: str) -> None:
    """Join every room on invitation, and answer "echo SECONDS MARK" with the same text after that many seconds. Runs forever."""
    from nio import AsyncClient, InviteMemberEvent, RoomMessageText

    client = AsyncClient(url)
    client.access_token = token
    client.user_id = (await client.whoami()).user_id
    tasks: set[asyncio.Task[None]] = set()

    async def joins(room: Any, event: Any) -> None:
        await client.join(room.room_id)

    async def answers(room: Any, event: Any) -> None:
        if event.sender != client.user_id:
            task = asyncio.create_task(later(room.room_id, event.body))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def later(room: str, text: str) -> None:
        await asyncio.sleep(float(text.split()[1]))
        await client.room_send(room, "m.room.message", {"msgtype": "m.text", "body": text})

    client.add_event_callback(joins, InviteMemberEvent)
    client.add_event_callback(answers, RoomMessageText)
    await client.sync_forever(timeout=30_000)


# -- the user -----------------------------------------------------------------------------------------------------


class _Asker:
    """A user who writes in many rooms and records when the whole answer has arrived."""

    def __init__(self, url: str, user: str, token: str) -> None:
        self._url = f"{url}/_matrix/client/v3"
        self.user = user
        limits = httpx.Limits(max_connections=200)
        self._http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, limits=limits)
        self._joined: set[tuple[str, str]] = set()
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self._numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._http.aclose()

    async def _look(self) -> None:
        since: dict[str, str] = {}
        while True:
            answer = await self._http.get(f"{self._url}/sync", params={"timeout": "30000", **since})
            found, now = answer.json(), time.monotonic()
            for room, info in found.get("rooms", {}).get("join", {}).items():
                for event in info["timeline"]["events"]:
                    self._saw(room, event, now)
            since = {"since": found["next_batch"]}

    def _saw(self, room: str, event: dict[str, Any], now: float) -> None:
        content = event["content"]
        if event["type"] == "m.room.member" and content.get("membership") == "join":
            self._joined.add((room, event["state_key"]))
        elif event["type"] == "m.room.message" and event["sender"] != self.user:
            text = str(content.get("m.new_content", content).get("body", "")).strip()
            waiting = self._waiting.get(text)
            if waiting is not None and not waiting.done():
                waiting.set_result(now)

    async def room(self, bot: str) -> str:
        """Create a direct chat with a bot, and return it when the bot has joined."""
        body = {"invite": [bot], "is_direct": True, "preset": "private_chat"}
        room = str((await self._ask("POST", "createRoom", body))["room_id"])
        ends = time.monotonic() + _START_SECONDS
        while (room, bot) not in self._joined:
            if time.monotonic() > ends:
                raise CannotMeasureError(f"{bot} did not join its room")
            await asyncio.sleep(0.02)
        return room

    async def asks(self, room: str, seconds: float) -> float:
        """Return the seconds from a message until its whole answer has arrived."""
        number = next(self._numbers)
        text = f"echo {seconds:g} m{number}"
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[text] = answer
        begun = time.monotonic()
        await self._ask("PUT", f"rooms/{quote(room)}/send/m.room.message/{number}", {"msgtype": "m.text", "body": text})
        try:
            return await asyncio.wait_for(answer, _MOST_SECONDS) - begun
        except TimeoutError:
            return _MOST_SECONDS

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        answer = await self._http.request(method, f"{self._url}/{path}", json=body)
        answer.raise_for_status()
        return answer.json()


Took = dict[str, tuple[list[float], list[float]]]
"""Seconds of each answer by bot: of many chats at once, and of single ones."""


async def _asked(
    url: str, asker: tuple[str, str], bots: dict[str, str], chats: int, rounds: int, single: int, seconds: float
) -> Took:
    """Write to all bots in turns: in many chats at once, then in one."""
    person = _Asker(url, *asker)
    took: Took = {name: ([], []) for name in bots}
    async with person.looking():
        rooms: dict[str, list[str]] = {name: [] for name in bots}
        for name, bot in bots.items():
            for _ in range(chats):
                rooms[name].append(await person.room(bot))
            await person.asks(rooms[name][0], 0)  # a bot loads more for its first answer
        for _ in range(rounds):
            for name, (many, _) in took.items():
                many += await asyncio.gather(*(person.asks(room, seconds) for room in rooms[name]))
        for _ in range(single):
            for name, (_, alone) in took.items():
                alone.append(await person.asks(rooms[name][-1], seconds))
    return took


if __name__ == "__main__":
    asyncio.run(_echo(*sys.argv[2:]))
