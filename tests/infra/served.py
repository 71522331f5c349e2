"""Shared parts of the servers here: a folder and ports, processes that end with their children, commands on stdin, and
certificates of a private authority.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
"""PATH with /usr/sbin, where servers are: only root's PATH has it."""
LIMIT = 60.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The context of clients that use only ``http:``. It trusts no certificate; a context that trusts the usual ones takes 20 ms to
make, for each client.
"""


def lacking(*names: str) -> list[str]:
    """Return the programs that are missing."""
    return [name for name in names if shutil.which(name, path=PATH) is None]


class Server:
    """A server in a new folder below ``where``. A subclass defines its start, its readiness, and the values that are printed."""

    limit = LIMIT
    gentle = signal.SIGTERM
    """The signal that ends it gracefully."""

    def __init__(self, name: str, where: str | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"tc-{name}-", dir=where))
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def pid(self) -> int:
        """The first process's id, or 0 while the server is stopped."""
        return self.processes[0].pid if self.processes else 0

    def ready_values(self) -> tuple[object, ...]:
        """Return the values that are printed after ``ready``."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare the server once, before the first start."""

    def start(self) -> None:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def run(self, *argv: str, **more: Any) -> None:
        """Start a process in its own group, because it may fork; its output goes to FOLDER/out."""
        given: dict[str, Any] = {"cwd": self.folder, "env": {**os.environ, "PATH": PATH}, **more}
        with (self.folder / "out").open("ab") as out:
            self.processes.append(
                subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, **given
                )
            )

    def wait(self, *logs: str) -> None:
        """Wait until the server is ready. Raises RuntimeError, with its output and ``logs`` in its folder, if it failed."""
        give_up = time.monotonic() + self.limit
        while not self.is_ready():
            if any(one.poll() is not None for one in self.processes) or time.monotonic() > give_up:
                files = [self.folder / name for name in ("out", *logs)]
                raise RuntimeError("".join(file.read_text(errors="replace")[-1500:] for file in files if file.exists()))
            time.sleep(0.02)

    def stop(self, how: signal.Signals | None = None) -> None:
        """End the server: send the signal ``how`` to each process group, wait, and kill the rest of the group."""
        processes, self.processes = self.processes, []
        for process in processes:
            signal_group(process, how or self.gentle)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            signal_group(process, signal.SIGKILL)  # forked processes may outlive it
            process.wait()

    def command(self, line: str) -> None:
        """Run a command: ``start``, ``stop`` or ``kill``."""
        if line == "start":
            self.start()
        else:
            self.stop(signal.SIGKILL if line == "kill" else None)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)  # at once: its data is deleted anyway
        shutil.rmtree(self.folder, ignore_errors=True)


def signal_group(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, what)


def serve(why_not: str, make: Callable[[], Server]) -> int:
    """Run a server until stdin ends, then remove it, and return the program's exit code. Prints ``ready ...`` or why not, and
    ``ok PID`` for each command.
    """
    if why_not:
        print("missing", why_not, flush=True)
        return 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us by closing our stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = make()
    try:
        server.prepare()
        server.start()
        print("ready", *server.ready_values(), flush=True)
        for line in sys.stdin:
            server.command(line.strip())
            print("ok", server.pid, flush=True)
    except (RuntimeError, OSError, LookupError, subprocess.SubprocessError) as error:
        print("failed", str(error).replace("\n", " "), flush=True)
        return 1
    finally:
        server.remove()
    return 0


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def free_port() -> int:
    """Return a port below the range of dynamic ports: it stays free while the server is stopped."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.socket() as sock:  # taken
            sock.bind(("127.0.0.1", port))
            return port


def certify(folder: Path, *names: str) -> None:
    """Make cert.pem and key.pem for host names, signed by the authority of ca.pem, and unknown.pem, the certificate of an
    authority that signed nothing. Raises RuntimeError.
    """
    quick, usual = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], ["-newkey", "rsa:2048"]
    for name in ("ca", "unknown"):
        _openssl(folder, *quick, "-subj", f"/CN=The authority {name}", "-keyout", f"{name}-key.pem", "-out", f"{name}.pem")
    who = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={','.join(f'DNS:{name}' for name in names)}"]
    end = ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca-key.pem"]
    _openssl(folder, *usual, *who, *end, "-keyout", "key.pem", "-out", "cert.pem")


def _openssl(folder: Path, *options: str) -> None:
    done = subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-days", "3650", *options], cwd=folder, capture_output=True, timeout=LIMIT
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace")[-1500:])
