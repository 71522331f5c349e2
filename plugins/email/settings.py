"""Settings of the e-mail platform. README.md describes them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from plugins.email.imap import ImapAccount
from plugins.email.smtp import SmtpAccount
from toolcrib import ConfigError
from toolcrib.chat import Host, settings_of
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Trust, is_loopback, number_of

PASSWORD = "EMAIL_PASSWORD"  # noqa: S105 - the name of a variable
_KNOWN = (
    "address", "user", "imap_url", "smtp_url", "ca_file", "mailbox", "sent_mailbox", "authserv_id", "trust_from", "link_url",
    "link_listen", "link_hours", "per_hour", "per_second",
)  # fmt: skip
_ADDRESS = Regex(r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[a-z0-9.-]{1,190}\Z")
_FOLDER = Regex(r'[^"\\\x00-\x1f\x7f-\uffff]{1,200}\Z')


class EmailSettings:
    """The operator's settings. The ConfigError for an invalid value names its setting and the expected value."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._given = settings_of(host, _KNOWN)
        self.address = self._given.get("address", "").strip().lower()
        self.mailbox = self._folder("mailbox", "INBOX")
        self.sent_mailbox = self._folder("sent_mailbox", "")
        self.authserv_id = self._given.get("authserv_id", "").strip()
        self.trusts_from = self._given.get("trust_from", "").strip().lower() in ("true", "yes", "1")
        self.link_url = self._given.get("link_url", "").strip().rstrip("/")
        self.link_hours = number_of(host, "link_hours", 24.0)
        self.per_hour = number_of(host, "per_hour", 60.0)
        self.per_second = number_of(host, "per_second", 2.0)
        listen = self._given.get("link_listen", "127.0.0.1:8791")
        name, _, port = listen.rpartition(":")
        if not name or not (port.isascii() and port.isdecimal() and int(port[:6]) < 65_536):
            raise self.wrong("link_listen", "HOST:PORT")
        self.link_listen = name.strip("[]"), int(port)
        if self.link_url and not self._is_safe(self._parts("link_url"), "https", "http"):
            raise self.wrong("link_url", "https://HOST/PATH (over http, an eavesdropper could use the link)")

    def wrong(self, key: str, expected: str) -> ConfigError:
        return ConfigError(f"{self._host.names_setting(key)}: expected {expected}, got {self._given.get(key, '')[:60]!r}")

    def _folder(self, key: str, default: str) -> str:
        found = self._given.get(key, default)
        if found and not _FOLDER.match(found):
            raise self.wrong(key, "the name of a mailbox, as on the IMAP server (ASCII)")
        return found

    def _parts(self, key: str) -> SplitResult:
        try:
            found = urlsplit(self._given.get(key, ""))
            _ = found.port
        except ValueError:
            raise self.wrong(key, "an address") from None
        if not found.hostname:
            raise self.wrong(key, "an address with a host")
        return found

    @staticmethod
    def _is_safe(parts: SplitResult, encrypted: str, plain: str) -> bool:
        return parts.scheme == encrypted or (parts.scheme == plain and is_loopback(parts.hostname or ""))

    def accounts(self) -> tuple[ImapAccount, SmtpAccount]:
        """Return the accounts that read and send mail. Raises ConfigError for missing or invalid settings."""
        if not _ADDRESS.match(self.address):
            raise self.wrong("address", "the bot's own address, such as bot@example.org")
        if not self.authserv_id and not self.trusts_from:
            raise ConfigError(
                f"{self._host.names_setting('authserv_id')}: expected the name at the beginning of your server's"
                " Authentication-Results headers: without it no sender is authenticated"
            )
        imap, smtp = self._parts("imap_url"), self._parts("smtp_url")
        if not self._is_safe(imap, "imaps", "imap"):
            raise self.wrong("imap_url", "imaps://HOST[:PORT], or imap:// on this machine")
        if smtp.scheme not in ("smtps", "smtp"):
            raise self.wrong("smtp_url", "smtps://HOST[:PORT], or smtp:// with STARTTLS")
        user, password = self._given.get("user", self.address), self._host.secret(PASSWORD)
        is_tls, trust = imap.scheme == "imaps", Trust(self._host, self._given.get("ca_file", "").strip())
        inbox = ImapAccount(str(imap.hostname), imap.port or (993 if is_tls else 143), is_tls, user, password, trust)
        is_tls, is_local = smtp.scheme == "smtps", is_loopback(str(smtp.hostname))
        port = smtp.port or (465 if is_tls else 587)
        return inbox, SmtpAccount(str(smtp.hostname), port, is_tls, is_local, user, password, trust)

    @property
    def link_path(self) -> str:
        """The path in ``link_url``, which leads to the page for decisions."""
        return urlsplit(self.link_url).path
