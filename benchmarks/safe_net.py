"""The network of a sandbox: a connection and 100 MB through its proxy, against a direct connection over loopback."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.core import CannotMeasureError, Figure, best_of_each, median_of_each
from tools.environments.local.network import NetworkGuard

_SIZE = 100_000_000
_SERVER = f"""
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
data = bytes(1 << 20)
while True:
    client, _ = listener.accept()
    with client:
        wanted = {_SIZE} if client.recv(1) == b"b" else 1
        while wanted:
            wanted -= client.send(data[:wanted])
"""
_CLIENT = """
import socket, sys, time
port = int(sys.argv[1])
def fetch(what, proxied):
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", 3128 if proxied else port)) as made:
        if proxied:
            made.sendall(b"CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\n" % port)
            assert made.recv(4096).startswith(b"HTTP/1.1 200"), "refused"
        made.sendall(what)
        buffer = bytearray(1 << 18)
        while made.recv_into(buffer):
            pass
    return time.perf_counter() - begin
print("ready", flush=True)
for line in sys.stdin:
    what, proxied, times = line.split()
    print(min(fetch(what.encode(), proxied == "proxy") for _ in range(int(times))), flush=True)
"""


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms."""
    rounds = 2 if quick else 15
    with _client_and_proxy() as (direct, proxied):
        connects = median_of_each({"proxy": lambda: proxied("c", 20), "direct": lambda: direct("c", 20)}, rounds)
        bulk = best_of_each({"proxy": lambda: proxied("b", 1), "direct": lambda: direct("b", 1)}, rounds)
    against = "a direct connection over loopback"
    return [
        Figure("safe.proxy_connect", connects["proxy"] * 1e3, "ms", connects["direct"] * 1e3, 4.0, "ratio", against),
        Figure("safe.proxy_bulk", bulk["proxy"] * 1e3, "ms", bulk["direct"] * 1e3, 2.0, "ratio", f"{against}, 100 MB"),
    ]


@contextlib.contextmanager
def _client_and_proxy() -> Iterator[tuple[Fetch, Fetch]]:
    """Start a server, a client in a sandbox's namespace, and a client outside of it; yield the two clients."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_ended(subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)))
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        guard = NetworkGuard([f"localhost:{port}"])
        stack.callback(guard.close)
        client = [sys.executable, "-c", _CLIENT, port]
        direct = stack.enter_context(_fetching(client, "direct"))
        with _fetching(["unshare", "-Urn", *client], "proxy") as proxied:
            guard.join(proxied.pid)
            yield direct, proxied


class Fetch:
    """A client that fetches."""

    def __init__(self, process: subprocess.Popen[str], way: str) -> None:
        self.pid, self._way = process.pid, way
        assert process.stdin is not None
        assert process.stdout is not None
        self._wanted, self._given = process.stdin, process.stdout
        if self._given.readline() != "ready\n":
            raise CannotMeasureError("no network namespace can be made here: allow user namespaces, or run as root")

    def __call__(self, what: str, times: int) -> float:
        """Return the least time in seconds."""
        print(what, self._way, times, file=self._wanted, flush=True)
        return float(self._given.readline())


@contextlib.contextmanager
def _fetching(argv: list[str], way: str) -> Iterator[Fetch]:
    with _ended(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as process:
        yield Fetch(process, way)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            process.kill()
