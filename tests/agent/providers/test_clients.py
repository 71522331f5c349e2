"""Clients that sessions share: their number, when they are closed, and that nothing passes between sessions."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from agent.providers.clients import ClientPool
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpClient, HttpLimits
from toolcrib import ConfigError


@dataclass
class Site:
    """A server that gives every conversation its own cookie. ``asked`` are the Cookie headers of its requests."""

    endpoint: Endpoint
    connections: int = 0
    open: int = 0
    asked: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, fits: Callable[[], bool]) -> None:
        while not fits():
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        found.open += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                cookies = [line[8:] for line in head.split("\r\n") if line.lower().startswith("cookie: ")]
                found.asked.append("".join(cookies))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: id=%d\r\n\r\n{}" % len(found.asked))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return
        finally:
            found.open -= 1
            found.changed.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found = Site(Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "m"))
    async with server:
        yield found


def run(main: Callable[[Site], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with site() as here:
            await main(here)

    asyncio.run(inside())


async def ask(client: HttpClient) -> bytes:
    async with client.get("models") as reply:
        return await reply.whole()


def test_sessions_of_a_server_share_clients_few_to_each() -> None:
    async def main(here: Site) -> None:
        pool = ClientPool(per_client=20)
        users = [HttpClient(here.endpoint, {}, pool=pool) for _ in range(50)]
        assert await asyncio.gather(*map(ask, users)) == [b"{}"] * 50
        assert pool.size == 3
        await asyncio.gather(*(user.aclose() for user in users))
        assert pool.size == 0

    run(main)


def test_what_is_not_installed_is_searched_for_once() -> None:
    """Otherwise httpcore would search for the missing module at each connection."""
    looks: list[str] = []

    class Finder:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            looks.append(name)

    async def main(here: Site) -> None:
        pool, finder = ClientPool(per_client=1), Finder()
        users = [HttpClient(here.endpoint, {}, pool=pool) for _ in range(3)]
        await ask(users[0])
        sys.meta_path.insert(0, finder)
        try:
            for user in users:
                await ask(user)
        finally:
            sys.meta_path.remove(finder)
            await asyncio.gather(*(user.aclose() for user in users))

    run(main)
    assert looks.count("sniffio") == 0


def test_a_client_that_is_kept_is_closed_with_its_loop() -> None:
    """Sync code inside of a loop has a new loop for each call: their connections must not pile up."""
    pool = ClientPool()

    async def other_loop(here: Site) -> None:
        client = HttpClient(here.endpoint, {}, pool=pool)
        await ask(client)
        await client.aclose()
        assert pool.size == 1

    async def main(here: Site) -> None:
        pool.hold()
        await asyncio.to_thread(asyncio.run, other_loop(here))
        assert pool.size == 0
        await here.until(lambda: here.open == 0)
        client = HttpClient(here.endpoint, {}, pool=pool)
        assert await ask(client) == b"{}"
        await client.aclose()
        await pool.release()

    run(main)


def test_a_connection_is_used_by_one_session_after_another() -> None:
    async def main(here: Site) -> None:
        pool = ClientPool()
        first, second = (HttpClient(here.endpoint, {}, pool=pool) for _ in range(2))
        await ask(first)
        await ask(second)
        await first.aclose()
        await ask(second)
        assert here.connections == 1
        await second.aclose()
        await here.until(lambda: here.open == 0)

    run(main)


def test_cookies_stay_with_their_session() -> None:
    async def main(here: Site) -> None:
        pool = ClientPool()
        first, second = (HttpClient(here.endpoint, {}, pool=pool) for _ in range(2))
        for user in (first, second, first, second):
            await ask(user)
        assert here.asked == ["", "", "id=1", "id=2"]
        await first.aclose()
        await second.aclose()

    run(main)


def test_other_limits_and_servers_get_clients_of_their_own() -> None:
    async def main(here: Site) -> None:
        async with site() as there:
            pool = ClientPool()
            users = [
                HttpClient(here.endpoint, {}, pool=pool),
                HttpClient(here.endpoint, {}, HttpLimits(connect=1.0), pool=pool),
                HttpClient(there.endpoint, {}, pool=pool),
            ]
            for user in users:
                await ask(user)
            assert pool.size == 3
            for user in users:
                await user.aclose()

    run(main)


def test_while_the_pool_is_held_a_client_waits_for_the_next_user() -> None:
    async def main(here: Site) -> None:
        pool = ClientPool()
        pool.hold()
        for _ in range(3):
            user = HttpClient(here.endpoint, {}, pool=pool)
            await ask(user)
            await user.aclose()
        assert (pool.size, here.connections) == (1, 1)
        await pool.release()
        assert pool.size == 0
        await here.until(lambda: here.open == 0)

    run(main)


def test_a_client_that_nobody_wants_for_a_while_is_closed() -> None:
    async def main(here: Site) -> None:
        pool = ClientPool(keep=0.0)
        pool.hold()
        user = HttpClient(here.endpoint, {}, pool=pool)
        await ask(user)
        await user.aclose()
        await here.until(lambda: here.open == 0)
        assert pool.size == 0
        await ask(user)  # it uses another client
        assert here.connections == 2
        await user.aclose()
        await here.until(lambda: here.open == 0)

    run(main)


def test_one_session_in_two_loops_of_two_threads() -> None:
    """A client belongs to its loop: each loop gets one, and closes it."""
    pool = ClientPool()

    async def main(here: Site) -> None:
        user = HttpClient(here.endpoint, {}, pool=pool)
        await ask(user)
        answers: list[bytes] = []

        async def elsewhere() -> None:
            answers.append(await ask(user))
            await user.aclose()

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        await here.until(lambda: here.open == 0)
        await asyncio.to_thread(thread.join, 30)
        assert answers == [b"{}"]
        assert (pool.size, here.connections) == (0, 2)

    run(main)


def test_clients_of_loops_that_ended_are_forgotten() -> None:
    pool = ClientPool()
    lost: list[HttpClient] = []

    async def once() -> None:
        async with site() as here:
            lost.append(HttpClient(here.endpoint, {}, pool=pool))
            pool.take(lost[-1], here.endpoint, 1.0, 1.0)

    for _ in range(3):
        asyncio.run(once())
        assert pool.size == 0


def test_one_ssl_context_serves_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made, really = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda *args, **more: made.append(1) or really(*args, **more))

    async def main() -> None:
        pool = ClientPool(per_client=1)
        users = [HttpClient(Endpoint(f"https://{name}.example/v1", "m"), {}) for name in "abc"]
        taken = [pool.take(user, user.endpoint, 1.0, 1.0) for user in users]
        assert (pool.size, len(made)) == (3, 1)
        for user, one in zip(users, taken, strict=True):
            await pool.give_back(user, one)

    asyncio.run(main())


def test_settings_that_change_meanwhile_count_from_the_next_session_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        pool, host = ClientPool(), Endpoint("https://a.example/v1", "m")
        first, second = HttpClient(host, {}), HttpClient(host, {})
        taken = pool.take(first, host, 1.0, 1.0)
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")
        with pytest.raises(ConfigError, match=r"SSL_CERT_FILE is '/nowhere/authorities\.pem', which can't be used: No such file"):
            pool.take(second, host, 1.0, 1.0)
        await pool.give_back(first, taken)
        assert pool.size == 0

    asyncio.run(main())


@pytest.mark.parametrize("missing", ["", "httpx"])
def test_the_libraries_are_loaded_while_something_waits_for_the_disk(missing: str) -> None:
    """A caller that needs a missing library gets the error; this step prints nothing. It does not load httpx's command line or
    HTTP/2.
    """
    code = f"""
import asyncio, sys
from agent.providers.clients import load_early
async def begin():
    load_early()
    assert not sys.modules.get("httpx")
    await asyncio.sleep(0)
sys.modules.update({{name: None for name in {[missing]!r} if name}})
asyncio.run(begin())
spared = {{"click", "httpx._main", "h2", "httpcore._async.http2", "httpcore._sync.http2"}}
print(bool(sys.modules.get("httpx")), bool(sys.modules.get("httpcore")), *spared & set(sys.modules))
"""
    assert _printed(code) == ("True True\n" if not missing else "False False\n")


def test_what_was_spared_at_the_start_is_there_for_who_asks_for_it() -> None:
    code = """
import asyncio, importlib.util
from agent.providers.clients import load_early
async def begin():
    load_early()
    await asyncio.sleep(0)
asyncio.run(begin())
import httpx
if importlib.util.find_spec("h2") is not None:
    httpx.AsyncClient(http2=True)
    for name in ("httpcore._async.http2", "httpcore._sync.http2"):
        importlib.import_module(name)
if all(map(importlib.util.find_spec, ("click", "pygments", "rich"))):
    importlib.import_module("httpx._main")
print("there")
"""
    assert _printed(code) == "there\n"


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout
