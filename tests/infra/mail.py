"""Mail servers for tests: Dovecot (IMAP, LMTP, submission) and OpenSMTPD (SMTP), on loopback, in a folder of their own.

    python -m tests.infra.mail

prints ``ready IMAP SMTP LMTP IMAPS SMTPS STARTTLS FOLDER`` (six ports; mail is in FOLDER/mail/NAME as a Maildir) and serves until
its stdin ends; then it removes everything that it made. The last three ports speak TLS, as mx.crib.test, by a certificate that
FOLDER/ca.pem signed, and take mail only from logged-in users. Dovecot serves them and passes the mail to OpenSMTPD, because
Debian's can't speak TLS with OpenSSL 3. Accounts are ``bot1`` to ``bot400`` and the like of NAMES, at ``crib.test``; all have the
same password, PASSWORD. Port SMTP takes mail from any client without checks: a test acts as the server that checks the author. It
reads these lines, and answers each by ``ok PID``: ``kill`` (SIGKILL to all processes of both), ``stop`` and ``start``; accepted
mail outlives the servers.

It must run as root: the servers change to their own accounts, and OpenSMTPD, whose folders are fixed, gets them in its own mount
namespace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.infra.served import LIMIT, PATH, Server, certify, free_port, lacking, serve

NAMES = ("bot", "ann", "bob", "eve")
PASSWORD = "the-password-of-all"
DOMAIN = "crib.test"
_MANY = 400
_HOST = f"mx.{DOMAIN}"

_DOVECOT = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap lmtp submission
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%n
mail_max_userip_connections = 500
first_valid_uid = 1
auth_username_format = %Ln
auth_failure_delay = 0
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%n allow_all_users=yes
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = yes
  }}
}}
submission_relay_host = 127.0.0.1
submission_relay_port = {smtp}
hostname = {host}
service submission-login {{
  chroot =
  inet_listener submission {{
    port = {starttls}
  }}
  inet_listener submissions {{
    port = {smtps}
    ssl = yes
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
"""
_SMTPD = """
table known file:{folder}/known
queue ttl 1h
smtp max-message-size 60M
listen on 127.0.0.1 port {smtp} hostname {domain}
action deliver lmtp "127.0.0.1:{lmtp}" rcpt-to virtual <known>
match from any for domain "{domain}" action deliver
"""


def missing() -> str:
    """Return why no servers can run here, or "" if they can."""
    lacks = lacking("dovecot", "/usr/lib/dovecot/lmtp", "/usr/lib/dovecot/submission", "smtpd", "unshare", "openssl")
    if lacks:
        return f"no {' and no '.join(lacks)}; scripts/test installs dovecot-imapd, -lmtpd, -submissiond and opensmtpd"
    if os.geteuid() != 0:
        return "mail servers need root"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, env={"PATH": PATH}).returncode:
        return "mail servers need a mount namespace, which can't be made here"
    return ""


class MailServers(Server):
    def __init__(self) -> None:
        super().__init__("mail", "/tmp")  # a folder below TMPDIR may be closed to other accounts
        self._ports = {name: free_port() for name in ("imap", "smtp", "lmtp", "imaps", "smtps", "starttls")}

    def ready_values(self) -> tuple[object, ...]:
        return *self._ports.values(), self.folder

    def prepare(self) -> None:
        self.folder.chmod(0o755)
        for name, mode in {"run": 0o755, "state": 0o755, "mail": 0o755, "spool": 0o711, "vrun": 0o755}.items():
            (self.folder / name).mkdir()
            (self.folder / name).chmod(mode)  # regardless of the umask
        shutil.chown(self.folder / "mail", "mail", "mail")
        os.umask(0o022)
        certify(self.folder, _HOST)
        known = [f"{name}{number}" for name in NAMES for number in range(1, _MANY + 1)]
        (self.folder / "known").write_text("".join(f"{one} mail\n" for one in known))
        given = {"folder": self.folder, "domain": DOMAIN, "host": _HOST, "password": PASSWORD, **self._ports}
        (self.folder / "dovecot.conf").write_text(_DOVECOT.format(**given))
        (self.folder / "smtpd.conf").write_text(_SMTPD.format(**given))

    def start(self) -> None:
        mounts = "mount --bind {0}/spool /var/spool/smtpd && mount --bind {0}/vrun /run && exec smtpd -d -f {0}/smtpd.conf"
        Path("/var/spool/smtpd").mkdir(parents=True, exist_ok=True)
        self.run("dovecot", "-F", "-c", str(self.folder / "dovecot.conf"))
        give_up = time.monotonic() + LIMIT
        while not _answers(self._ports["lmtp"]) and time.monotonic() < give_up:  # else smtpd would keep queued mail for minutes
            time.sleep(0.01)
        self.run("unshare", "-m", "--propagation", "private", "sh", "-c", mounts.format(self.folder))
        self.wait("dovecot.log")

    def _answering(self) -> list[bool]:
        """Return for each of four ports without TLS whether it answers: there the server sends the first line. The other
        ports open at the same time.
        """
        return [_answers(self._ports[name]) for name in ("imap", "smtp", "lmtp", "starttls")]

    def is_ready(self) -> bool:
        return all(self._answering())

    def stop(self, how: signal.Signals | None = None) -> None:
        super().stop(how)
        give_up = time.monotonic() + LIMIT
        while any(self._answering()) and time.monotonic() < give_up:
            time.sleep(0.01)
        for name in ("run/master.pid", "vrun/smtpd.sock"):  # left behind if the servers had no time to remove them
            (self.folder / name).unlink(missing_ok=True)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.settimeout(5)
        return bool(sock.recv(1))
    return False


if __name__ == "__main__":
    sys.exit(serve(missing(), MailServers))
