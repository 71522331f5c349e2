"""An ngIRCd (IRC server) for tests and benchmarks: on loopback, in its own folder.

    python -m tests.infra.ngircd [--limits]

prints ``ready PORT TLS_PORT FOLDER`` and serves until its stdin ends; then it removes everything that it made. At TLS_PORT it
speaks TLS, as irc.crib.test, by a certificate that FOLDER/ca.pem signed. ``--limits`` keeps its flood penalties, which are off
otherwise. Another server may link as ``services.test``, with the password ``linkpw``, like services that report logged-in users.
It reads these lines, and answers each by ``ok PID``: ``kill`` (SIGKILL), ``stop`` and ``start``; it stores nothing.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.infra.served import Server, certify, free_port, lacking, listens, serve

_CONFIG = """
[Global]
Name = irc.test
AdminEMail = root@irc.test
Info = tests
Listen = 127.0.0.1
Ports = {port}
MotdPhrase = hello
ServerUID = {uid}
ServerGID = {gid}
[Limits]
MaxConnectionsIP = 0
MaxConnections = 0
MaxJoins = 0
MaxNickLength = 20
PingTimeout = 30
PongTimeout = 20
{penalty}
[Options]
DNS = no
Ident = no
PAM = no
AllowRemoteOper = no
[SSL]
CertFile = {folder}/cert.pem
KeyFile = {folder}/key.pem
Ports = {tls_port}
[Server]
Name = services.test
MyPassword = linkpw
PeerPassword = linkpw
Passive = yes
"""


def missing() -> str:
    """Return why no server can run here, or "" if one can."""
    lacks = lacking("ngircd", "openssl")
    return f"no {' and no '.join(lacks)}: apt-get install ngircd openssl" if lacks else ""


class IrcServer(Server):
    def __init__(self, *, limits: bool) -> None:
        super().__init__("ngircd")
        self._port, self._tls_port = free_port(), free_port()
        self._penalty = "" if limits else "MaxPenaltyTime = 0"

    def ready_values(self) -> tuple[object, ...]:
        return self._port, self._tls_port, self.folder

    def prepare(self) -> None:
        certify(self.folder, "irc.crib.test")
        ports = {"port": self._port, "tls_port": self._tls_port}
        text = _CONFIG.format(folder=self.folder, uid=os.getuid(), gid=os.getgid(), penalty=self._penalty, **ports)
        (self.folder / "ircd.conf").write_text(text)

    def start(self) -> None:
        self.run("ngircd", "-n", "-f", str(self.folder / "ircd.conf"))
        self.wait()

    def is_ready(self) -> bool:
        return listens(self._port) and listens(self._tls_port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--limits", action="store_true")
    given = parser.parse_args()
    sys.exit(serve(missing(), lambda: IrcServer(limits=given.limits)))
