"""A PostgreSQL server for tests and benchmarks: on loopback, in its own folder, as a user without rights.

    python tests/infra/postgres.py [--durable]

prints ``ready URL PID`` and serves until its stdin ends; then it removes everything that it made. URL has a password, and its
user may create databases. Only with ``--durable`` data is synced to disk; committed data outlives the server all the same. It
reads these lines, and answers each by ``ok PID``: ``kill`` (SIGKILL), ``stop``, ``start``, ``hang`` (SIGSTOP to all its
processes) and ``go on``.  (quoted)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_LIMIT = 60.0
_PROGRAMS = ("initdb", "postgres")


def missing() -> str:
    """Return why no server can run here, or "" if one can."""
    gone = [name for name in _PROGRAMS if _program(name) is None]
    if gone:
        return f"{', '.join(gone)} not found: apt-get install postgresql"
    return "" if os.geteuid() != 0 or _account() else "a PostgreSQL server does not run as root, and there is no other account"


def _program(name: str) -> str | None:
    """Return the path of a program, or None. Debian keeps these out of PATH, by version."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: (len(folder.parent.name), folder.parent.name))
    return shutil.which(name, path=os.pathsep.join([*map(str, reversed(folders)), os.environ.get("PATH", "")]))


def _account() -> pwd.struct_passwd | None:
    """Return the account that the server uses if we are root."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


class Server:
    def __init__(self, *, durable: bool) -> None:
        # Not in TMPDIR: other accounts must reach it, and a socket's path may have at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="tc-postgres-", dir="/tmp"))
        self._as: dict[str, Any] = {}
        account = _account() if os.geteuid() == 0 else None
        if account is not None:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._durable = durable
        self._port = _free_port()
        self._password = f"p@ss:/{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        from urllib.parse import quote

        return f"postgresql://postgres:{quote(self._password, safe='')}@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def prepare(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self._password)
        secret.chmod(0o644)  # in a private folder
        options = ["-A", "scram-sha-256", "--pwfile", str(secret), "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]
        done = self._run("initdb", "-D", str(self.folder / "data"), *options)
        said, _ = done.communicate(timeout=_LIMIT)
        if done.returncode:
            raise RuntimeError(said.decode(errors="replace"))
        secret.unlink()

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "max_connections": 100,
            "log_min_messages": "warning",
            **({} if self._durable else {"fsync": "off", "full_page_writes": "off"}),
        }
        given = [f"--{key}={value}" for key, value in settings.items()]
        self._process = self._run("postgres", "-D", str(self.folder / "data"), *given, log=self.folder / "log")
        give_up = time.monotonic() + _LIMIT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-1500:])
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        """Return whether the server is ready, from the file that it writes: the eighth line is its state."""
        with contextlib.suppress(OSError, IndexError):
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
            return int(lines[0]) == self.pid and lines[7].strip() == "ready"
        return False

    def _run(self, name: str, *argv: str, log: Path | None = None) -> subprocess.Popen[bytes]:
        program = _program(name)
        assert program is not None
        with contextlib.ExitStack() as stack:
            out: Any = subprocess.PIPE if log is None else stack.enter_context(log.open("ab"))
            env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.folder)}
            return subprocess.Popen(
                [program, *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=self.folder,
                start_new_session=True,
                **self._as,
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends the server with all connections; after SIGKILL its children exit."""
        process, self._process = self._process, None
        if process is None:
            return
        children = _children(process.pid)
        process.send_signal(how)
        try:
            process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        give_up = time.monotonic() + _LIMIT
        while any(_is_alive(child) for child in children) and time.monotonic() < give_up:
            time.sleep(0.01)

    def signal_all(self, what: signal.Signals) -> None:
        if self._process is not None:
            for pid in (self._process.pid, *_children(self._process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, what)

    def command(self, name: str) -> None:
        if name == "start":
            self.start()
        elif name in ("stop", "kill"):
            self.stop(signal.SIGKILL if name == "kill" else signal.SIGINT)
        else:
            self.signal_all(signal.SIGSTOP if name == "hang" else signal.SIGCONT)

    def remove(self) -> None:
        self.signal_all(signal.SIGCONT)
        self.stop(signal.SIGQUIT)  # at once: its data is deleted anyway
        shutil.rmtree(self.folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(folder.name))
    return found


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _free_port() -> int:
    """Return a port below the range of dynamic ports: it stays free while the server is stopped."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.socket() as sock:  # taken
            sock.bind(("127.0.0.1", port))
            return port


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--durable", action="store_true")
    given = parser.parse_args()
    if why := missing():
        print("missing", why, flush=True)
        return 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us by closing our stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(durable=given.durable)
    try:
        server.prepare()
        server.start()
        print("ready", server.url, server.pid, flush=True)
        for line in sys.stdin:
            server.command(line.strip())
            print("ok", server.pid, flush=True)
    except (RuntimeError, OSError) as error:
        print("failed", str(error).replace("\n", " "), flush=True)
        return 1
    finally:
        server.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
