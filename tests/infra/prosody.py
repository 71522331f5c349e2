"""A Prosody (XMPP server) for tests and benchmarks: on loopback, in its own folder.

    python tests/infra/prosody.py

prints ``ready XMPP_PORT CA_FILE PID COMPONENT_PORT`` and serves until its stdin ends; then it removes everything that it made.
TLS is required, by a certificate of its own. Rooms are at rooms.localhost, archived, and show their occupants' addresses; files
are uploaded to up.localhost. A client at COMPONENT_PORT may be foreign.localhost, a foreign server, by the secret foreignpw. It
reads these lines, and answers each by ``ok PID``: ``register NAME`` (an account NAME@localhost with the password NAMEpw),
``kill`` (SIGKILL), ``stop`` and ``start``; stored data outlives the server.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LIMIT = 60.0
_CONFIG = """
run_as_root = true
data_path = "{folder}/data"
pidfile = "{folder}/prosody.pid"
log = {{ warn = "{folder}/prosody.log" }}
interfaces = {{ "127.0.0.1" }}
component_ports = {{ {component} }}; component_interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}; s2s_ports = {{}}; http_ports = {{ {http} }}; https_ports = {{}}; http_interfaces = {{ "127.0.0.1" }}
modules_enabled = {{ "roster", "saslauth", "tls", "disco", "carbons", "pep", "ping", "posix", "mam", "smacks", "blocklist" }}
modules_disabled = {{ "s2s" }}
authentication = "internal_hashed"
default_iteration_count = 64 -- tests log in often, and slixmpp counts in Python
storage = "internal"
archive_expires_after = "never"
default_archive_policy = true
smacks_hibernation_time = 60
c2s_require_encryption = true
ssl = {{ key = "{folder}/key.pem"; certificate = "{folder}/ca.pem" }}
VirtualHost "localhost"
Component "rooms.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_log_by_default = true
  muc_room_default_public_jids = true
  restrict_room_creation = false
  muc_room_default_persistent = true
Component "foreign.localhost"
  component_secret = "foreignpw"
  modules_disabled = {{ "s2s" }}
Component "up.localhost" "http_file_share"
  http_file_share_size_limit = 50 * 1024 * 1024
  http_external_url = "http://127.0.0.1:{http}/"
  http_host = "127.0.0.1"
"""


def missing() -> str:
    """Return why no server can run here, or "" if one can."""
    found = [name for name in ("prosody", "prosodyctl", "openssl") if shutil.which(name) is None]
    return f"no {', '.join(found)}: apt-get install prosody openssl" if found else ""


class XmppServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tc-prosody-"))
        self.port, self._http, self.component = _free_port(), _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        (self.folder / "p.cfg.lua").write_text(
            _CONFIG.format(folder=self.folder, port=self.port, http=self._http, component=self.component)
        )
        names = "subjectAltName=DNS:localhost,DNS:rooms.localhost,DNS:up.localhost"
        asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=localhost"]
        self._run([*asked, "-addext", names, "-keyout", "key.pem", "-out", "ca.pem"])

    def register(self, name: str) -> None:
        """Write an account in the server's own format: its tool takes a second for each."""
        folder = self.folder / "data" / "localhost" / "accounts"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.dat").write_text(f'return {{ ["password"] = "{name}pw"; }};\n')

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=_LIMIT)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-1500:])

    def start(self) -> None:
        with (self.folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                ["prosody", "-F", "--config", str(self.folder / "p.cfg.lua")],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it may fork: its whole group is ended
            )
        give_up = time.monotonic() + _LIMIT
        while not (_listens(self.port) and _listens(self._http)):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError((self.folder / "out").read_text(errors="replace")[-1500:])
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        if name == "register":
            self.register(rest)
        elif name == "start":
            self.start()
        else:
            self.stop(signal.SIGKILL if name == "kill" else signal.SIGTERM)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)  # at once: its data is deleted anyway
        shutil.rmtree(self.folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def _free_port() -> int:
    """Return a port below the range of dynamic ports: it stays free while the server is stopped."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.socket() as sock:  # taken
            sock.bind(("127.0.0.1", port))
            return port


def main() -> int:
    if why := missing():
        print("missing", why, flush=True)
        return 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us by closing our stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = XmppServer()
    try:
        server.prepare()
        server.start()
        print("ready", server.port, server.certificate, server.pid, server.component, flush=True)
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
