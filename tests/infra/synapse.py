"""A Synapse (Matrix homeserver) for tests and benchmarks: on loopback, in its own folder, with SQLite.

    python tests/infra/synapse.py [--limits]

prints ``ready URL PID`` and serves until its stdin ends; then it removes everything that it made. Any client may register there.
``--limits`` keeps Synapse's own rate limits, which are off otherwise. It reads these lines, and answers each by ``ok PID``:
``kill`` (SIGKILL), ``stop`` and ``start``; stored data outlives the server.

Synapse has its own environment, because its requirements conflict with toolcrib's: TOOLCRIB_SYNAPSE_VENV, or .venv-synapse, which
scripts/test makes.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_LIMIT = 90.0
_MUCH = {"per_second": 10_000, "burst_count": 10_000}
_NO_LIMITS = {
    "rc_message": _MUCH,
    "rc_login": {"address": _MUCH, "account": _MUCH, "failed_attempts": _MUCH},
    "rc_joins": {"local": _MUCH},
    "rc_invites": {"per_room": _MUCH, "per_user": _MUCH, "per_issuer": _MUCH},
    "rc_room_creation": _MUCH,
}


def python() -> Path:
    """Return the path of the interpreter with Synapse, even if it is missing."""
    beside = Path(__file__).resolve().parents[2] / ".venv-synapse"
    return Path(os.environ.get("TOOLCRIB_SYNAPSE_VENV") or beside) / "bin" / "python"


def missing() -> str:
    """Return why no server can run here, or "" if one can."""
    return "" if python().exists() else f"no Synapse: {python()} is not there; scripts/test makes it (matrix-synapse)"


class Homeserver:
    def __init__(self, *, limits: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tc-synapse-"))
        self._limits = limits
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def prepare(self) -> None:
        listener = {
            "port": self._port,
            "tls": False,
            "type": "http",
            "bind_addresses": ["127.0.0.1"],
            "resources": [{"names": ["client"], "compress": False}],
        }
        (self.folder / "log.yaml").write_text(
            "version: 1\nhandlers: {out: {class: logging.StreamHandler}}\nroot: {level: WARNING, handlers: [out]}\n"
        )
        settings: dict[str, Any] = {
            "server_name": "localhost",
            "pid_file": str(self.folder / "homeserver.pid"),
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": str(self.folder / "homeserver.db")}},
            "log_config": str(self.folder / "log.yaml"),
            "media_store_path": str(self.folder / "media"),
            "signing_key_path": str(self.folder / "signing.key"),
            "registration_shared_secret": secrets.token_hex(16),
            "macaroon_secret_key": secrets.token_hex(16),
            "form_secret": secrets.token_hex(16),
            "report_stats": False,
            "trusted_key_servers": [],
            "presence": {"enabled": False},
            "bcrypt_rounds": 4,  # tests make many accounts
            "enable_registration": True,
            "enable_registration_without_verification": True,
            "rc_registration": _MUCH,
            **({} if self._limits else _NO_LIMITS),
        }
        (self.folder / "hs.yaml").write_text(json.dumps(settings))  # JSON is YAML too
        key = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (self.folder / "signing.key").write_text(f"ed25519 a_made {key}\n")  # as --generate-keys does, which takes two seconds

    def start(self) -> None:
        with (self.folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [python(), "-m", "synapse.app.homeserver", "-c", "hs.yaml"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        give_up = time.monotonic() + _LIMIT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError((self.folder / "out").read_text(errors="replace")[-1500:])
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5) as answer:  # noqa: S310 - our own
            return answer.status == 200
        return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def command(self, name: str) -> None:
        if name == "start":
            self.start()
        else:
            self.stop(signal.SIGKILL if name == "kill" else signal.SIGTERM)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)  # at once: its data is deleted anyway
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    """Return a port below the range of dynamic ports: it stays free while the server is stopped."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.socket() as sock:  # taken
            sock.bind(("127.0.0.1", port))
            return port


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limits", action="store_true")
    given = parser.parse_args()
    if why := missing():
        print("missing", why, flush=True)
        return 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us by closing our stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Homeserver(limits=given.limits)
    try:
        server.prepare()
        server.start()
        print("ready", server.url, server.pid, flush=True)
        for line in sys.stdin:
            server.command(line.strip())
            print("ok", server.pid, flush=True)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print("failed", str(error).replace("\n", " "), flush=True)
        return 1
    finally:
        server.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
