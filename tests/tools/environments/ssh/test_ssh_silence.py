"""The time after which silence means a lost connection. The real duration for a cut link is tested in test_ssh_faults."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tools.environments.ssh.silence import LONGEST, LOST, Silence, SocketKnock


class Asked:
    """A host that answers from a moment on, which the test sets."""

    def __init__(self) -> None:
        self.answers = False
        self.open = self.knocks = 0

    def __call__(self) -> Asked:
        self.open += 1
        self.knocks += 1
        return self

    def is_answered(self) -> bool:
        return self.answers

    def close(self) -> None:
        self.open -= 1


def _until_lost(silence: Silence, asked: Asked, answers_at: float = float("inf")) -> float:
    """Return the seconds until the connection is lost; the host answers from ``answers_at`` on."""
    tenths = 0
    while not silence.is_loss(tenths / 10):
        tenths += 1
        asked.answers = tenths / 10 >= answers_at
    return tenths / 10


def test_a_host_that_answers_nothing_is_lost_in_time() -> None:
    asked = Asked()
    silence = Silence(asked)
    assert LOST < _until_lost(silence, asked) < LOST + 0.2 < 10
    assert asked.knocks > 5
    silence.over()
    assert asked.open == 0


def test_a_host_that_answers_gives_its_old_connection_time() -> None:
    asked = Asked()
    silence = Silence(asked)
    assert _until_lost(silence, asked, answers_at=8.5) > LONGEST
    assert asked.open <= 1


def test_a_sign_of_life_ends_the_questions() -> None:
    asked = Asked()
    silence = Silence(asked)
    assert not any(silence.is_loss(tenths / 10) for tenths in range(80))
    assert asked.open
    assert not silence.is_loss(0.1)
    assert asked.open == 0
    assert LOST < _until_lost(silence, asked) < LOST + 0.2


def test_a_host_that_accepts_or_refuses_is_there(free_port: int, eventually: Callable[[Callable[[], object]], None]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sock,
        _Elsewhere(sock, free_port) as elsewhere,
    ):
        for knock in (SocketKnock(sock), SocketKnock(elsewhere)):
            eventually(knock.is_answered)
            assert knock.is_answered()
            knock.close()


class _Elsewhere(socket.socket):
    """A socket that reports another port of its peer."""

    def __init__(self, like: socket.socket, port: int) -> None:
        super().__init__(like.family, like.type, fileno=socket.dup(like.fileno()))
        self._port = port

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", self._port
