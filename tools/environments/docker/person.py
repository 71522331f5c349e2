"""A shell in a container for the user, connected to their terminal."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from tools.environments.docker.admin import client_of

_CHUNK = 1 << 16


def person_shell(host: str, container: str, argv: Sequence[str], cwd: str) -> int:
    """Run ``argv`` in a running container, on this process's terminal, and return its exit code. Raises EnvironmentFailed."""
    with client_of(host) as client:
        made = client.api.exec_create(
            container,
            list(argv),
            stdin=True,
            tty=True,
            workdir=cwd,
            environment={"TERM": os.environ.get("TERM", "xterm")},
        )["Id"]
        held = client.api.exec_start(made, tty=True, socket=True)
        sock = getattr(held, "_sock", held)

        def fit(*_: object) -> None:
            size = shutil.get_terminal_size()
            with contextlib.suppress(Exception):  # the engine's client may raise anything; a wrong width does no harm
                client.api.exec_resize(made, height=size.lines, width=size.columns)

        with contextlib.closing(held), _raw(sys.stdin.fileno()), _on_resize(fit):
            fit()
            _pump(sock, sys.stdin.fileno(), sys.stdout.fileno())
        return int(client.api.exec_inspect(made)["ExitCode"] or 0)


def _pump(sock: Any, source: int, target: int) -> None:
    """Copy data both ways until the shell in the container ends."""
    poll = select.poll()
    for fd in (sock.fileno(), source):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            data = sock.recv(_CHUNK) if fd == sock.fileno() else os.read(source, _CHUNK)
            if fd == source:
                if not data:
                    poll.unregister(source)
                    sock.sendall(b"\x04")
                else:
                    sock.sendall(data)
            elif not data:
                return
            else:
                view = memoryview(data)
                while view:
                    view = view[os.write(target, view) :]


@contextlib.contextmanager
def _raw(fd: int) -> Iterator[None]:
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)  # keep what was typed ahead
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _on_resize(fit: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, fit)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
