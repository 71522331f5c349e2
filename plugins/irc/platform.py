"""The platform: one nick on one network. Nicks prove nothing: users are identified by their accounts at the network's
services.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from plugins.irc.link import AWAY, IrcLink, IrcLost
from plugins.irc.writing import fold, id_of, lines_of, quiet, text_of
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Traits, settings_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Recent, Trust, is_loopback, keep_receiving

_log = logging.getLogger(__name__)
_DEFAULTS = {
    "server": "", "tls": "true", "ca_file": "", "nick": "", "account": "", "login": "sasl", "accounts": "tags", "channels": "",
    "per_second": "0.5", "burst": "4",
}  # fmt: skip
_SERVER = Regex(r"(?:[^\s:]+|\[[0-9a-fA-F:]+\]):\d{1,5}\Z")
_NICK = Regex(r"[A-Za-z\[\]\\`_^{|}][\w\[\]\\`^{|}-]{0,29}\Z", 256)  # re.ASCII
_CHANNEL = Regex(r"[#&+!][^\s,\x00-\x1f\x7f]{1,60}\Z")
_ACCOUNT = Regex(r"[^\s,:#&*\x00-\x1f\x7f][^\s,\x00-\x1f\x7f]{0,60}\Z")
_ANSWER = Regex(r"(?:\d{1,3}|yes|no|y|n)\.?\Z", 2)  # re.IGNORECASE
_NOT_IN = ("bannedfromchan", "inviteonlychan", "channelisfull", "badchannelkey", "toomanychannels", "470")
_STEADY_SECONDS = 60.0
_NO_ACCOUNT_SECONDS = 5.0
_EACH, _ALL = 20, 1_000
"""Limits of waiting messages: for one user, and in total."""


@dataclass(slots=True)
class _Saying:
    """A message that is being sent: how many of its lines the server accepted, and the task that sends the remaining lines."""

    taken: int = 0
    task: asyncio.Task[None] | None = None


class IrcPlatform:
    """The IRC platform. README.md describes the ``settings``. Direct chats and users are identified by
    accounts, groups by channels.
    """

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self.traits = Traits(max_chars=2_000, per_second=1_000.0)  # the connection limits the rate of lines
        self._host = host
        self._link: IrcLink | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: asyncio.Queue[tuple[str, str, Any]] = asyncio.Queue()
        self._waiting: Counter[str] = Counter()
        self._without_account: Recent[str, float] = Recent(1_000)
        self._people: dict[str, dict[str, str]] = {}
        """For each channel that we are in: the nicks of its users, by their folded form."""
        self._nicks: dict[str, str] = {}
        """The last nick of each account whose messages the gateway keeps."""
        self._asked: dict[str, list[str]] = {}
        self._saying: Recent[str, _Saying] = Recent(1_000)
        self._followed: list[str] = []
        self._numbers, self._start = itertools.count(1), secrets.token_hex(6)
        self.latest = ""
        """The id of the last message received: our own number, because not every server gives messages an id."""

    # -- connection ----------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Log in, and return ACCOUNT@SERVER. Raises ConfigError, IrcLost, OSError."""
        try:
            import irc.client_aio  # noqa: F401 - to report a missing library
        except ImportError as error:
            raise ConfigError("the irc platform needs the extra: pip install 'toolcrib[irc]'") from error
        self._given = self._checked(_DEFAULTS | settings_of(self._host, tuple(_DEFAULTS)))
        self._secret = "" if self._given["login"] == "none" else self._host.secret("IRC_PASSWORD").strip()
        if any(char in self._secret for char in "\r\n\0"):
            raise ConfigError("IRC_PASSWORD has several lines")
        self._link = await self._opened()
        return f"{fold(self._given['account'])}@{self._given['server']}"

    def _checked(self, given: dict[str, str]) -> dict[str, str]:
        def wrong(key: str, expected: str) -> ConfigError:
            return ConfigError(f"{self._host.names_setting(key)}: expected {expected}, got {given[key]!r}")

        choices = {"tls": ("true", "false"), "login": ("sasl", "password", "none"), "accounts": ("tags", "whois")}
        given["tls"] = given["tls"].lower()
        for key, among in choices.items():
            if given[key] not in among:
                raise wrong(key, " or ".join(among))
        for key, form, what in (("server", _SERVER, "HOST:PORT"), ("nick", _NICK, "a nick")):
            if not form.match(given[key]):
                raise wrong(key, what)
        given["account"] = given["account"] or given["nick"]
        for key, form, what in (
            ("account", _ACCOUNT, "the name of an account"),
            *[("channels", _CHANNEL, "names such as #room")] * 1,
        ):
            if any(not form.match(one) for one in given[key].replace(",", " ").split() or [""][: key == "account"]):
                raise wrong(key, what)
        for key in ("per_second", "burst"):
            if not given[key].replace(".", "", 1).isdecimal() or not 0 < float(given[key]) < 10_000:
                raise wrong(key, "a number above 0")
        if given["tls"] == "false" and given["login"] != "none" and not is_loopback(_host(given["server"])):
            raise ConfigError(f"{self._host.names_setting('tls')}: without TLS the password would be sent unencrypted")
        return given

    async def _opened(self) -> IrcLink:
        self._people = {}
        return await IrcLink.open(self._given, self._secret, Trust(self._host, self._given["ca_file"]), self._took)

    async def start(self) -> None:
        """Join the channels, and begin to receive."""
        self._nicks = dict(await self._host.recall("nicks") or {})
        self._asked = dict(await self._host.recall("asked") or {})
        self._followed = list(await self._host.recall("channels") or ())
        await self._enter()
        loop = asyncio.get_running_loop()
        receiving = keep_receiving(self._stay, self.name, (IrcLost, OSError, ConfigError), lambda _: None)
        self._tasks = [loop.create_task(receiving), loop.create_task(self._take_all())]

    async def stop(self) -> None:
        """Stop receiving, cancel messages that are being sent, and close the connection."""
        saying = [one.task for one in self._saying.values() if one.task is not None]
        tasks, self._tasks = [*self._tasks, *saying], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _enter(self) -> None:
        link = self._up
        for channel in dict.fromkeys([*self._given["channels"].replace(",", " ").split(), *self._followed]):
            await link.send(f"JOIN {channel}")
        await link.confirmed()

    async def _stay(self) -> None:
        """Receive until the connection ends. Raises IrcLost if it ended soon: the caller then waits before it tries again."""
        begun = time.monotonic()
        if self._link is None or not self._link.is_up:
            self._link = await self._opened()
            await self._enter()
        watching = asyncio.ensure_future(self._link.watch())
        try:
            ends: list[asyncio.Future[Any]] = [watching, self._link.lost]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._link.close()
        if time.monotonic() - begun < _STEADY_SECONDS:
            raise IrcLost("the connection was lost")

    @property
    def _up(self) -> IrcLink:
        if self._link is None or not self._link.is_up:
            raise NotSent("it is not connected")
        return self._link

    def _folded(self, channel: str) -> str:
        """Return a channel's name as this server compares it: with other rules, answers could go to another channel."""
        return channel.lower() if self._link is not None and self._link.is_ascii else fold(channel)

    # -- receiving -----------------------------------------------------------------------------------------------

    def _took(self, event: Any) -> None:
        """Queue a message or an invitation, or record or log another event of the server. Never waits."""
        kind, source = str(event.type), event.source
        if kind in ("pubmsg", "privmsg", "invite") and source and "!" in source:
            mask = str(source)
            if self._waiting[mask] >= _EACH or self._queue.qsize() >= _ALL:
                _log.warning("%s: too many messages at once: one is skipped", self.name)
                return
            self._waiting[mask] += 1
            self.latest = f"{self._start}-{next(self._numbers)}"
            self._queue.put_nowait((mask, self.latest, event))
        elif kind in _NOT_IN:
            _log.warning("%s: a channel could not be joined: %s", self.name, kind)
        elif kind in ("join", "part", "kick", "quit", "nick", "namreply"):
            self._membership(kind, getattr(source, "nick", ""), str(event.target or ""), list(event.arguments))

    def _membership(self, kind: str, nick: str, target: str, arguments: list[str]) -> None:
        """Record which users are in our channels, because an answer that names them must not notify them."""
        ours, channel = self._link is not None and fold(nick) == fold(self._link.nick), self._folded(target)
        if kind == "namreply" and len(arguments) > 1:
            there = self._people.setdefault(self._folded(arguments[1]), {})
            there.update({fold(one): one for one in (each.lstrip("~&@%+!") for each in arguments[-1].split())})
        elif kind == "join":
            self._people.setdefault(channel, {})[fold(nick)] = nick
        elif kind in ("part", "kick"):
            gone = nick if kind == "part" else arguments[0] if arguments else ""
            if ours if kind == "part" else self._link is not None and fold(gone) == fold(self._link.nick):
                self._people.pop(channel, None)
            else:
                self._people.get(channel, {}).pop(fold(gone), None)
        else:
            for there in self._people.values():
                if there.pop(fold(nick), None) is not None and kind == "nick":
                    there[fold(target)] = target

    async def _take_all(self) -> None:
        """Take queued messages, one after another. A message that could not be stored is offered again."""
        while True:
            mask, number, event = await self._queue.get()
            while True:
                try:
                    await self._take(mask, number, event)
                    break
                except StoreFailed:
                    await asyncio.sleep(0.5)
                except IrcLost:
                    break  # the author of the message can't be determined any more
                except Exception:  # noqa: BLE001 - one message must not block the others
                    _log.exception("%s: a message could not be handled and is skipped", self.name)
                    break
            self._waiting[mask] -= 1
            if not self._waiting[mask]:
                del self._waiting[mask]

    async def _account(self, mask: str, event: Any) -> str:
        """Return the author's account at the network's services, or "" if none is known. The setting ``accounts`` decides whether
        it is read from the server's tag on this message or from a WHOIS answer for the same nick, user and host. After an answer
        without an account, the server is not asked again for a few seconds. Raises IrcLost.
        """
        if self._given["accounts"] == "tags":
            found = [str(one["value"] or "") for one in event.tags or () if one["key"] == "account"]
            account = found[0] if len(found) == 1 else ""
        else:
            checked_at = self._without_account.get(mask, -_NO_ACCOUNT_SECONDS)
            if time.monotonic() - checked_at < _NO_ACCOUNT_SECONDS or self._link is None:
                return ""
            account, now = await self._link.whois(mask.partition("!")[0])
            account = account if now == mask else ""
        if not _ACCOUNT.match(account) or account == "0":
            self._without_account[mask] = time.monotonic()
            return ""
        return account

    async def _take(self, mask: str, number: str, event: Any) -> None:
        link, nick, kind, target = self._link, mask.partition("!")[0], str(event.type), str(event.target)
        if link is None:
            return
        tags = {one["key"]: str(one["value"] or "") for one in event.tags or ()}
        if kind == "invite":
            await self._invited(self._folded(str(event.arguments[-1] if event.arguments else "")), mask, event)
            return
        is_group = kind == "pubmsg"
        if self._folded(target) not in self._people if is_group else fold(target) != fold(link.nick):
            return
        text, is_addressed = (
            _addressed(text_of(str(event.arguments[0])), link.nick) if is_group else (text_of(str(event.arguments[0])), True)
        )
        if is_group and not is_addressed and self._given["accounts"] == "whois":
            return  # asking for the author of every message would flood the server
        if not text or not (account := await self._account(mask, event)) or account == self._given["account"]:
            return
        if is_addressed and text.startswith("!") and text[1:2].isalpha():  # users' IRC clients interpret /commands themselves
            text = f"/{text[1:]}"
        chat = Chat(self._folded(target), is_group=True, title=target) if is_group else Chat(account)
        asked = self._asked.get(chat.id, [])
        reply_to = asked[0] if is_group and is_addressed and len(asked) == 1 and _ANSWER.match(text) else ""
        number = tags.get("msgid") or number
        message = Inbound(chat, account, number, text, nick, reply_to=reply_to, is_addressed=is_addressed, is_bot="bot" in tags)
        if await self._host.receive(message) == "kept" and self._nicks.get(account) != nick:
            self._nicks = dict([*((one, had) for one, had in self._nicks.items() if one != account), (account, nick)][-1_000:])
            await self._host.keep("nicks", self._nicks)

    async def _invited(self, channel: str, mask: str, event: Any) -> None:
        account = await self._account(mask, event) if _CHANNEL.match(channel) else ""
        if account and await self._host.follows(Chat(channel, is_group=True), account):
            await self._up.send(f"JOIN {channel}")
            self._followed = list(dict.fromkeys([*self._followed, channel]))[-100:]
            await self._host.keep("channels", self._followed)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Raise ToolcribError: IRC has no files."""
        pieces: tuple[bytes, ...] = ()
        for piece in pieces:
            yield piece
        raise ToolcribError("IRC has no files")

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Send a message, line by line, and return its id. If the caller stops waiting, sending continues. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        ours, before = id_of(out.key), self._saying.get(out.key)
        await self._note_asked(out, ours)
        if before is None or not out.is_again:
            before = self._saying[out.key] = _Saying()
        if before.task is None or (before.task.done() and (before.task.cancelled() or before.task.exception() is not None)):
            before.task = asyncio.get_running_loop().create_task(self._say(out, before))
        try:
            await asyncio.shield(before.task)
        except IrcLost as error:
            raise NotSent(str(error), perhaps_sent=True) from error
        return ours

    async def _say(self, out: Outbound, saying: _Saying) -> None:
        link, account = self._up, "" if out.chat.is_group else out.chat.id
        target = self._nick_of(account) if account else out.chat.id
        if out.chat.is_group and self._folded(target) not in self._people:
            wanted = [*map(self._folded, self._given["channels"].replace(",", " ").split()), *self._followed]
            raise NotSent("the bot is not in the channel", for_good=self._folded(target) not in wanted)
        # Room for any host (63 bytes) and any nick: if a nick changes, the lines stay the same, so sending can continue.
        room = 510 - len(f":{link.nick:30}!~toolcrib@ PRIVMSG {target:30} :".encode()) - 64
        there = self._people.get(self._folded(target), {})
        lines = lines_of(out, room, [one for folded, one in there.items() if folded != fold(link.nick)])

        def taken(many: int) -> None:
            saying.taken += many

        try:
            await link.say(target, lines[saying.taken :], taken, account)
        except NotSent as error:
            if error.code == AWAY and account not in self._nicks:
                raise NotSent("the recipient was never seen on this network", for_good=True) from error
            if saying.taken and not error.for_good and not error.perhaps_sent:
                raise NotSent(str(error), perhaps_sent=True, retry_after=error.retry_after, code=error.code) from error
            raise

    def _nick_of(self, account: str) -> str:
        """Return the last known nick of an account, or the account's name. Raises NotSent if that is not a valid nick."""
        nick = self._nicks.get(account, account)
        if not _NICK.match(nick):
            raise NotSent("the recipient was never seen on this network", for_good=True)
        return nick

    async def _note_asked(self, out: Outbound, ours: str) -> None:
        """Store the ids of a channel's open questions: if exactly one is open, a bare ``1`` or ``yes`` answers it."""
        known = self._asked.get(out.chat.id, [])
        if out.chat.is_group and bool(out.buttons) != (ours in known):
            now = [*known, ours][-50:] if out.buttons else [one for one in known if one != ours]
            self._asked = {chat: asked for chat, asked in {**self._asked, out.chat.id: now}.items() if asked}
            await self._host.keep("asked", self._asked)


def _host(server: str) -> str:
    return server.rpartition(":")[0].strip("[]")


def _addressed(text: str, nick: str) -> tuple[str, bool]:
    """Return a channel message without our leading nick, and whether it contains our nick."""
    if fold(text).startswith(fold(nick)) and text[len(nick) : len(nick) + 1] in (":", ",", " "):
        return text[len(nick) + 1 :].strip(), True
    return text, quiet(text, [nick]) != text
