"""No container outlives its environment, whatever the engine does when it is closed (003-29)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from toolcrib import Environment, EnvironmentFailed, ExecRequest
from tools.environments import open_environment

pytestmark = pytest.mark.xdist_group("docker")

Eventually = Callable[[Callable[[], object]], None]


def _names(client: docker.DockerClient) -> set[str]:
    return {each["Names"][0].lstrip("/") for each in client.api.containers(all=True)}


def _name(env: Environment) -> str:
    return env.identity.removeprefix("docker:")


class Between:
    """A socket in front of the engine's.

    ``fault`` happens at the first request whose line has ``words``: ``lost`` drops the answer and closes the connection,
    ``refused`` answers that the engine failed.
    """

    def __init__(self, path: Path, engine: str, words: bytes, fault: str) -> None:
        self.host = f"unix://{path}"
        self.met = threading.Event()
        self._engine = engine.removeprefix("unix://")
        self._words, self._fault = words, fault
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the socket was closed
            while True:
                threading.Thread(target=self._serve, args=[self._server.accept()[0]], daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        lost = threading.Event()
        with near, socket.socket(socket.AF_UNIX) as far:
            back = threading.Thread(target=self._answer, args=(far, near, lost), daemon=True)
            with contextlib.suppress(OSError):  # one side has closed
                far.connect(self._engine)
                back.start()
                while data := near.recv(1 << 16):
                    if self._words in data.partition(b"\r\n")[0] and not self.met.is_set():
                        self.met.set()
                        if self._fault == "refused":
                            near.sendall(_REFUSED)
                            break
                        lost.set()
                    far.sendall(data)
                far.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answer(self, far: socket.socket, near: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):  # one side has closed
            while (data := far.recv(1 << 16)) and not lost.is_set():
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


_TEXT = b'{"message": "it failed"}'
_REFUSED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_TEXT),
    _TEXT,
)


@pytest.fixture
def between(engine: Any, tmp_path: Path) -> Iterator[Callable[[bytes, str], Between]]:
    with contextlib.ExitStack() as stack:

        def between(words: bytes, fault: str) -> Between:
            made = Between(tmp_path / "s", engine.host, words, fault)
            stack.callback(made.close)
            return made

        yield between


def _open(folder: Path, engine: Any, **options: Any) -> Environment:
    return open_environment("docker", cwd=str(folder), **{**engine.options, **options})


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # from docker-py, if an engine dies during a connection
def test_an_engine_that_is_away_at_the_end_removes_it_when_it_is_back(
    engine: Any, client: docker.DockerClient, folder: Path, eventually: Eventually
) -> None:
    """The process lives, so no watchdog removes the container."""
    env = _open(folder, engine)
    asyncio.run(env.execute(ExecRequest("true", timeout=120)))
    name = _name(env)
    assert name in _names(client)
    engine.control("kill")
    try:
        asyncio.run(env.close())
    finally:
        engine.control("start")
    eventually(lambda: name not in _names(client))
    gc.collect()  # as long as the filter above applies


def test_an_engine_that_fails_to_remove_it_is_asked_again(
    engine: Any, client: docker.DockerClient, folder: Path, between: Callable[..., Between], eventually: Eventually
) -> None:
    way = between(b"DELETE ", "refused")
    env = _open(folder, engine, host=way.host)
    asyncio.run(env.execute(ExecRequest("true", timeout=120)))
    name = _name(env)
    assert name in _names(client)
    asyncio.run(env.close())
    assert way.met.is_set()
    eventually(lambda: name not in _names(client))


def test_a_container_whose_making_was_not_answered_is_removed(
    engine: Any, client: docker.DockerClient, folder: Path, between: Callable[..., Between], eventually: Eventually
) -> None:
    """The engine has made it, but its answer was lost."""
    before = _names(client)
    way = between(b"/containers/create", "lost")
    env = _open(folder, engine, host=way.host, session="unanswered")
    with pytest.raises(EnvironmentFailed, match="does not answer"):
        asyncio.run(env.execute(ExecRequest("touch ran", timeout=120)))
    assert way.met.is_set()
    assert not (folder / "ran").exists()
    eventually(lambda: not any("unanswered" in each for each in _names(client) - before))
    assert asyncio.run(env.execute(ExecRequest("echo well", timeout=120))).stdout.head == b"well\n"
    asyncio.run(env.close())
    assert not any("unanswered" in each for each in _names(client) - before)


@pytest.mark.parametrize("turns", [1, 3, 10])
def test_a_close_that_is_cancelled_removes_it(
    engine: Any, client: docker.DockerClient, folder: Path, eventually: Eventually, turns: int
) -> None:
    env = _open(folder, engine)

    async def main() -> None:
        await env.execute(ExecRequest("true", timeout=120))
        closing = asyncio.create_task(env.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})

    asyncio.run(main())
    eventually(lambda: _name(env) not in _names(client))
