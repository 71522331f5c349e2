"""Stands of the group "platforms": for each platform a server, a user on it, and accounts for two bots."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from benchmarks._platform_stand import BARE, OURS, Infra, Stand
from benchmarks.core import CannotMeasureError

_START_SECONDS = 30.0
_FREE = {"per_second": "1000"}
"""Settings without a limit for the bot's messages."""


class XmppStand(Stand):
    """A stand with a real Prosody."""

    name = "xmpp"

    async def open(self) -> None:
        """See Stand."""
        from slixmpp import ClientXMPP

        server = self._stack.enter_context(Infra("prosody.py"))
        self._port, self._certificate, *_ = server.said
        for name in ("asker", BARE, OURS):
            server.control(f"register {name}")
        client: Any = ClientXMPP("asker@localhost", "askerpw")
        client.ssl_context = ssl.create_default_context(cafile=self._certificate)
        client.enable_direct_tls = client.enable_plaintext = False
        client.add_event_handler("message", lambda message: self.heard(message["body"]))
        client.connect("127.0.0.1", int(self._port))
        self._client = client
        self._stack.push_async_callback(self._leave)
        await client.wait_until("session_start", _START_SECONDS)
        client.send_presence()

    async def _leave(self) -> None:
        await self._client.disconnect(wait=1.0)
        self._client.abort()
        filters = self._client._run_out_filters  # the library leaves it running
        filters.cancel()
        await asyncio.gather(filters, return_exceptions=True)

    @property
    def platform(self) -> Mapping[str, Any]:
        """See Stand."""
        where = {"server": f"127.0.0.1:{self._port}", "ca_file": self._certificate, "user": f"{OURS}@localhost"}
        return {"roles": {"owner": ["asker@localhost"]}, "allow_local": True, "settings": {**where, **_FREE}}

    @property
    def secrets(self) -> Mapping[str, str]:
        """See Stand."""
        return {"XMPP_PASSWORD": f"{OURS}pw"}

    @property
    def bare(self) -> Sequence[str]:
        """See Stand."""
        return ["127.0.0.1", self._port, self._certificate, f"{BARE}@localhost", f"{BARE}pw"]

    async def say(self, bot: str, text: str) -> None:
        """See Stand."""
        self._client.send_message(mto=f"{bot}@localhost", mbody=text, mtype="chat")


class IrcStand(Stand):
    """A stand with a real ngircd, and services that report logged-in accounts."""

    name = "irc"

    async def open(self) -> None:
        """See Stand."""
        self._port = self._stack.enter_context(Infra("ngircd.py")).said[0]
        services = ["PASS linkpw 0210-IRC+ bench|0:CHLMSXo P", "SERVER services.test :services"]
        reads, services_say = await self._line(*services)
        await self._until(reads, " 376 ")
        services_say(":services.test 376 irc.test :End of MOTD command")
        reads_ours, self._send = await self._line("NICK asker", "USER u 0 * :x")
        await self._until(reads_ours, " 001 ")
        await self._until(reads, " NICK ")
        services_say(":services.test METADATA asker accountname :asker")
        for reader, send in ((reads, services_say), (reads_ours, self._send)):
            task = asyncio.create_task(self._listen(reader, send))
            self._stack.callback(task.cancel)

    async def _line(self, *first: str) -> tuple[asyncio.StreamReader, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self._port))
        self._stack.callback(writer.close)

        def send(line: str) -> None:
            writer.write(f"{line}\r\n".encode())

        for line in first:
            send(line)
        return reader, send

    async def _until(self, reader: asyncio.StreamReader, mark: str) -> None:
        async with asyncio.timeout(_START_SECONDS):
            while mark not in (line := (await reader.readline()).decode(errors="replace")):
                if not line:
                    raise CannotMeasureError("ngircd ended the connection")

    async def _listen(self, reader: asyncio.StreamReader, send: Any) -> None:
        while line := (await reader.readline()).decode(errors="replace").rstrip("\r\n"):
            head, _, said = line.partition(" :")
            if "PING" in head.split()[:2]:
                send(f"PONG :{said or head.split()[-1]}")
            elif " PRIVMSG asker" in head:
                self.heard(said)

    @property
    def platform(self) -> Mapping[str, Any]:
        """See Stand."""
        where = {"server": f"127.0.0.1:{self._port}", "tls": "false", "nick": OURS, "login": "none", "accounts": "whois"}
        return {"roles": {"owner": ["asker"]}, "allow_local": True, "settings": {**where, **_FREE, "burst": "100"}}

    @property
    def bare(self) -> Sequence[str]:
        """See Stand."""
        return [self._port, BARE]

    async def say(self, bot: str, text: str) -> None:
        """See Stand."""
        self._send(f"PRIVMSG {bot} :{text}")


class DiscordStand(Stand):
    """A stand with two fakes of Discord, one for each bot, because both bots use the same account."""

    name = "discord"

    async def open(self) -> None:
        """See Stand."""
        from tests.plugins.discord import fake

        stand = self

        class Heard(fake.FakeDiscord):
            def emit(self, kind: str, data: Any) -> None:
                super().emit(kind, data)
                if kind in ("MESSAGE_CREATE", "MESSAGE_UPDATE") and data["author"]["id"] == fake.ME:
                    stand.heard(data["content"])

        self._token = fake.TOKEN
        self._fakes = {bot: Heard() for bot in (BARE, OURS)}
        for one in self._fakes.values():
            one.channel("300", "direct")
            await one.revive()
            self._stack.push_async_callback(one.kill)
        self.ours_first = f"from benchmarks._platform_bots import use_fake_discord\nuse_fake_discord(*{self._place(OURS)!r})"

    def _place(self, bot: str) -> tuple[str, str]:
        one = self._fakes[bot]
        return one.url, f"ws://127.0.0.1:{one.port}/gateway/"

    @property
    def platform(self) -> Mapping[str, Any]:
        """See Stand."""
        return {"roles": {"owner": ["11"]}, "allow_local": True, "settings": _FREE}

    @property
    def secrets(self) -> Mapping[str, str]:
        """See Stand."""
        return {"DISCORD_TOKEN": self._token}

    @property
    def bare(self) -> Sequence[str]:
        """See Stand."""
        return [*self._place(BARE), self._token]

    async def say(self, bot: str, text: str) -> None:
        """See Stand."""
        self._fakes[bot].write("300", "11", text)


class SlackStand(Stand):
    """A stand with two fakes of Slack, one for each bot, because both bots use the same account."""

    name = "slack"

    async def open(self) -> None:
        """See Stand."""
        from tests.plugins.slack import fake

        stand = self

        class Heard(fake.FakeSlack):
            def _chat_post_message(self, asked: dict[str, Any]) -> dict[str, Any]:
                found = super()._chat_post_message(asked)
                stand.heard(self.text_of(found["message"]))
                return found

            def _chat_update(self, asked: dict[str, Any]) -> dict[str, Any]:
                found = super()._chat_update(asked)
                stand.heard(self.text_of(self.messages[found["channel"], found["ts"]]))
                return found

        self._tokens = fake.BOT_TOKEN, fake.APP_TOKEN
        self._fakes = {bot: Heard() for bot in (BARE, OURS)}
        for one in self._fakes.values():
            one.channel("D300", is_im=True)
            await one.revive()
            self._stack.push_async_callback(one.kill)

    @property
    def platform(self) -> Mapping[str, Any]:
        """See Stand."""
        settings = {"base_url": self._fakes[OURS].url, **_FREE}
        return {"roles": {"owner": ["U11"]}, "allow_local": True, "settings": settings}

    @property
    def secrets(self) -> Mapping[str, str]:
        """See Stand."""
        return dict(zip(("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"), self._tokens, strict=True))

    @property
    def bare(self) -> Sequence[str]:
        """See Stand."""
        return [self._fakes[BARE].url, *self._tokens]

    async def say(self, bot: str, text: str) -> None:
        """See Stand."""
        self._fakes[bot].write("D300", "U11", text)


class EmailStand(Stand):
    """A stand with a real Dovecot and OpenSMTPD. Times are those of a mail's delivery to its mailbox."""

    name = "email"
    _domain, _password, _asker = "crib.test", "the-password-of-all", "ann1"

    async def open(self) -> None:
        """See Stand."""
        self._imap, self._smtp, *_, folder = self._stack.enter_context(Infra("mail.py")).said
        self._mail = Path(folder) / "mail"
        self._names = {BARE: "bot1", OURS: "bot2"}

    def _address(self, name: str) -> str:
        return f"{name}@{self._domain}"

    @property
    def platform(self) -> Mapping[str, Any]:
        """See Stand."""
        urls = {"imap_url": f"imap://127.0.0.1:{self._imap}", "smtp_url": f"smtp://127.0.0.1:{self._smtp}"}
        us = {"address": self._address(self._names[OURS]), "authserv_id": self._domain, "per_hour": "1000"}
        return {"roles": {"owner": [self._address(self._asker)]}, "allow_local": True, "settings": {**urls, **us, **_FREE}}

    @property
    def secrets(self) -> Mapping[str, str]:
        """See Stand."""
        return {"EMAIL_PASSWORD": self._password}

    @property
    def bare(self) -> Sequence[str]:
        """See Stand."""
        return [self._imap, self._smtp, self._address(self._names[BARE]), self._password]

    async def say(self, bot: str, text: str) -> None:
        """Submit a mail, with the header that confirms its author, as the user's own server would add it."""
        mail = EmailMessage()
        mail["From"], mail["To"] = self._address(self._asker), self._address(self._names[bot])
        mail["Message-ID"] = f"<{time.time_ns()}@{self._domain}>"
        mail.set_content(text)
        vouched = f"Authentication-Results: {self._domain}; dmarc=pass header.from={self._domain}\r\n"

        def hand_in() -> None:
            with smtplib.SMTP("127.0.0.1", int(self._smtp), timeout=_START_SECONDS) as client:
                client.sendmail(mail["From"], [mail["To"]], vouched.encode() + mail.as_bytes())

        await asyncio.to_thread(hand_in)

    async def asks(self, bot: str, seconds: float, patience: float) -> float | None:
        """Return the seconds from the question's delivery to the bot's mailbox until the answer's delivery to the user's."""
        text, name = self._words(seconds), self._names[bot]
        await self.say(bot, text)
        gives_up = time.monotonic() + patience
        while time.monotonic() < gives_up:
            delivered, answered = self._at(name, text, self._asker), self._at(self._asker, text, name)
            if delivered is not None and answered is not None:
                return answered - delivered
            await asyncio.sleep(0.02)
        return None

    def _at(self, name: str, text: str, sender: str) -> float | None:
        """Return when a mail from ``sender`` with this line reached a mailbox, in Unix seconds. Copies of the owner's own mail
        are ignored.
        """
        for path in self._files(name):
            with contextlib.suppress(FileNotFoundError):  # it is moved from new to cur when it is read
                lines = path.read_text(errors="replace").splitlines()
                if text in lines and f"From: {self._address(sender)}" in lines:
                    return path.stat().st_mtime
        return None

    def _files(self, name: str) -> Iterator[Path]:
        for folder in ("new", "cur"):
            yield from (self._mail / name / folder).glob("*")


STANDS: Mapping[str, type[Stand]] = {one.name: one for one in (XmppStand, IrcStand, DiscordStand, SlackStand, EmailStand)}
