"""Connection to a server: login, paced and confirmed lines, account queries, and detection of a lost connection."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any

from plugins.irc.writing import fold
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import NotSent
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Trust

_log = logging.getLogger(__name__)
_SECONDS = 30.0
_ALIVE_SECONDS = 30.0
_AWAY_SECONDS = 30.0
_AGAIN_SECONDS = 4.0
AWAY = "away"
_AT_ONCE = 4
"""Number of lines that are confirmed together."""
_CAPABILITIES = ("account-tag", "message-tags", "sasl")
_ENDS = Regex("[\r\n\0]")
_NO_NICK = {"nicknameinuse", "nickcollision", "unavailresource", "erroneusnickname"}
_LOGIN = (
    "saslsuccess", "saslfail", "sasltoolong", "saslaborted", "saslalready", "saslmechs", "nicklocked",
    "passwdmismatch", "welcome",
)  # fmt: skip
_WHOIS = ("whoisuser", "whoisaccount", "endofwhois")
_REFUSED = {
    "nosuchnick",
    "nosuchchannel",
    "cannotsendtochan",
    "notonchannel",
    "nochanmodes",
    "chanoprivsneeded",
    "531",
    "716",
    "toomanytargets",
    "408",
    "415",
    "439",
    "486",
    "489",
    "492",
    "707",
}
_FOR_NOW = {"nosuchnick", "toomanytargets", "439", "707"}
"""Temporary refusals. All but ``nosuchnick`` are for senders that write to many targets within a short time."""


class IrcLost(ToolcribError):
    """The connection was lost, or the server did not answer in time."""


class IrcLink:
    """A connection, made by ``open``. ``took`` is called with each event of the library that the connection does not handle
    itself.
    """

    def __init__(self, given: dict[str, str], secret: str, took: Callable[[Any], None]) -> None:
        self._given = given
        self._secret = secret
        self._took = took
        self.nick = given["nick"]
        some = secrets.randbelow(700) + 100
        self._nicks = [f"{self.nick}_", f"{self.nick}__", *(f"{self.nick[:6]}{some + number}" for number in range(3))]
        """Nicks to try if the configured one is taken; the last three also fit servers with a limit of nine characters."""
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = loop.create_future()
        self._began: asyncio.Future[None] = loop.create_future()
        self.capabilities: set[str] = set()
        self.is_ascii = False
        """True if ``#a[`` and ``#a{`` are two channels on this server."""
        self._offered: set[str] = set()
        self._pongs: dict[str, asyncio.Future[None]] = {}
        self._whois: dict[str, tuple[dict[str, str], asyncio.Future[None]]] = {}
        self._refusals: list[tuple[str, Sequence[str]]] = []
        self._numbers = itertools.count(1)
        self._saying = asyncio.Lock()
        self._told, self._has_left = "", False
        """The nick that the current message is sent to, "" for a channel; and whether a user left or took it since sending began.
        """
        self._rate, self._burst, self._next = float(given["per_second"]), float(given["burst"]), 0.0
        self._connection: Any = None

    @classmethod
    async def open(cls, given: dict[str, str], secret: str, trust: Trust, took: Callable[[Any], None]) -> IrcLink:
        """Connect and log in as the settings say. With TLS, nothing is sent before it is active. Raises ConfigError, IrcLost,
        OSError.
        """
        from irc.client_aio import AioReactor
        from irc.connection import AioFactory

        from plugins.irc.wire import IrcConnection

        logging.getLogger("irc").setLevel(logging.CRITICAL + 1)  # it would log messages, and the password
        link = cls(given, secret, took)
        host, _, port = given["server"].rpartition(":")
        context = await trust.context() if given["tls"] == "true" else None
        reactor = AioReactor(
            on_connect=lambda protocol, _: protocol.connection.send_raw("CAP LS 302"), loop=asyncio.get_running_loop()
        )
        link._connection = IrcConnection(reactor, link._event)
        password = secret if given["login"] == "password" else None
        try:
            async with asyncio.timeout(_SECONDS):
                factory = AioFactory(ssl=context) if context else AioFactory()
                name = given["nick"]
                await link._connection.connect(host.strip("[]"), int(port), name, password, "toolcrib", "toolcrib", factory)
                await link._began
        except (ssl.SSLError, ConnectionResetError) as error:
            await link.close()
            if said := trust.problem(error, "server"):
                raise ConfigError(said) from error
            raise IrcLost(f"TLS with the server failed: {getattr(error, 'reason', 'it closed the connection')}") from error
        except TimeoutError as error:
            await link.close()
            raise IrcLost("the server did not accept the login in time") from error
        except BaseException:
            await link.close()
            raise
        return link

    @property
    def is_up(self) -> bool:
        """True from the login until the connection is lost."""
        return not self.lost.done() and self._began.done()

    async def close(self) -> None:
        """End the connection."""
        if self._connection is not None and self._connection.connected:
            self._connection.disconnect("")
        self._end("it was closed")
        await asyncio.sleep(0)

    async def watch(self) -> None:
        """Ping the server at intervals, and request the configured nick if we have another. Runs until it raises IrcLost."""
        while True:
            await asyncio.sleep(_ALIVE_SECONDS)
            await self.confirmed()
            if fold(self.nick) != fold(self._given["nick"]):
                await self.send(f"NICK {self._given['nick']}")

    def _end(self, why: str) -> None:
        error = IrcLost(why)
        if not self.lost.done():
            self.lost.set_result(why)
        for one in (self._began, *self._pongs.values(), *(future for _, future in self._whois.values())):
            if not one.done():
                one.set_exception(error)
                one.exception()  # prevents a warning if no task waits for it

    # -- events --------------------------------------------------------------------------------------------------

    def _event(self, event: Any) -> None:
        kind, arguments = str(event.type), list(event.arguments)
        if kind in _REFUSED:
            self._refusals.append((kind, arguments))
            del self._refusals[:-100]
        if kind in ("nick", "quit") and self._told and event.source is not None:
            self._has_left |= self._told in (fold(event.source.nick), fold(str(event.target or "")))
        if kind == "disconnect":
            self._end("the connection was lost")
        elif kind == "pong":
            if (waiting := self._pongs.pop(arguments[-1] if arguments else "", None)) is not None and not waiting.done():
                waiting.set_result(None)
        elif kind == "featurelist":
            given = [one.partition("=")[2] for one in arguments if one.upper().startswith("CASEMAPPING=")]
            self.is_ascii = "rfc1459" not in given[-1].lower() if given else self.is_ascii
        elif kind == "tryagain" and arguments[:1] == ["WHOIS"]:
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._ask_again)
        elif kind in _WHOIS:
            self._whois_line(kind, arguments)
        elif kind in ("cap", "authenticate", "error", *_LOGIN) or (kind in _NO_NICK and not self._began.done()):
            self._logging_in(kind, event, arguments)
        elif kind == "nick" and event.source is not None and fold(event.source.nick) == fold(self.nick):
            self.nick = str(event.target)
            self._took(event)
        else:
            self._took(event)

    def _logging_in(self, kind: str, event: Any, arguments: list[str]) -> None:
        match kind:
            case "error" if not self._began.done():
                self._fail(IrcLost(f"the server closed the connection: {str(event.target)[:200]}"))
            case "cap":
                self._capability(arguments)
            case "authenticate" if event.target == "+":
                self._authenticate()
            case "saslsuccess":
                self._raw("CAP END")
            case "saslfail" | "sasltoolong" | "saslaborted" | "saslalready" | "saslmechs" | "nicklocked":
                self._fail(ConfigError("the server rejects IRC_PASSWORD for the configured account"))
            case "passwdmismatch":
                self._fail(ConfigError("the server rejects IRC_PASSWORD"))
            case "welcome":
                self.nick = str(event.target)
                if not self._began.done():
                    self._began.set_result(None)
            case _ if kind in _NO_NICK and self._nicks:
                self.nick = self._nicks.pop(0)
                self._raw(f"NICK {self.nick}")
            case "erroneusnickname":
                self._fail(ConfigError(f"the server rejects the nick {self._given['nick']} and variants of it"))
            case _ if kind in _NO_NICK:
                self._fail(IrcLost("the nick and its variants are in use"))

    def _fail(self, error: Exception) -> None:
        if not self._began.done():
            self._began.set_exception(error)
        self._connection.disconnect("")

    def _capability(self, arguments: list[str]) -> None:
        kind = arguments[0] if arguments else ""
        if kind == "LS" and not self._began.done():
            self._offered |= {one.partition("=")[0] for one in arguments[-1].split()}
            if len(arguments) > 2 and arguments[1] == "*":  # more lines follow
                return
            wanted = [one for one in _CAPABILITIES if one in self._offered and (one != "sasl" or self._given["login"] == "sasl")]
            if self._given["login"] == "sasl" and "sasl" not in wanted:
                self._fail(ConfigError("the server has no SASL: set login to password or none"))
            elif self._given["accounts"] == "tags" and "account-tag" not in wanted:
                self._fail(
                    ConfigError(
                        "the server does not mark messages with their author's account (account-tag): set"
                        " accounts to whois, after you have read in plugins/irc/README.md what that means"
                    )
                )
            else:
                self._raw(f"CAP REQ :{' '.join(wanted)}" if wanted else "CAP END")
        elif kind == "ACK":
            self.capabilities |= set(arguments[-1].split())
            self._raw("AUTHENTICATE PLAIN" if "sasl" in self.capabilities else "CAP END")
        elif kind == "NAK":
            self._fail(IrcLost("the server refuses a capability that it offered"))
        elif kind == "DEL" and self._given["accounts"] == "tags" and "account-tag" in arguments[-1].split():
            self._connection.disconnect("")

    def _authenticate(self) -> None:
        account = self._given["account"]
        data = base64.b64encode(f"\0{account}\0{self._secret}".encode()).decode()
        pieces = [data[at : at + 400] for at in range(0, len(data), 400)]
        for piece in [*pieces, *(["+"] if len(pieces[-1]) == 400 else [])]:
            self._raw(f"AUTHENTICATE {piece}")

    def _whois_line(self, kind: str, arguments: list[str]) -> None:
        known = self._whois.get(fold(arguments[0])) if arguments else None
        if known is None:
            return
        found, waiting = known
        if kind == "whoisuser" and len(arguments) > 2:
            found["mask"] = f"{arguments[0]}!{arguments[1]}@{arguments[2]}"
        elif kind == "whoisaccount" and len(arguments) > 1:
            found["account"] = "" if "account" in found else arguments[1]  # two accounts count as none
        elif kind == "endofwhois" and not waiting.done():
            waiting.set_result(None)

    def _ask_again(self) -> None:
        """Repeat pending WHOIS queries after the server refused one because there were too many."""
        for found, waiting in self._whois.values():
            if not waiting.done():
                self._raw(f"WHOIS {found['nick']}")

    # -- sending -------------------------------------------------------------------------------------------------

    def _raw(self, line: str) -> None:
        with contextlib.suppress(Exception):  # a lost connection is reported elsewhere
            self._connection.send_raw(line)

    async def send(self, line: str) -> None:
        """Send a line when the rate limit allows it. Raises IrcLost, and ValueError for a text that the server would read as
        several lines.
        """
        if _ENDS.search(line):
            raise ValueError("a text with line breaks is not sent as a line")
        now = time.monotonic()
        self._next = max(self._next, now - (self._burst - 1) / self._rate) + 1.0 / self._rate
        if (wait := self._next - 1.0 / self._rate - now) > 0:
            await asyncio.sleep(wait)
        if not self.is_up:
            raise IrcLost("the connection was lost")
        self._connection.send_raw(line)

    async def confirmed(self) -> None:
        """Wait until the server has processed all earlier lines. Raises IrcLost."""
        token = f"toolcrib{next(self._numbers)}"
        waiting = self._pongs[token] = asyncio.get_running_loop().create_future()
        await self.send(f"PING {token}")
        await self._within(waiting)

    async def _within(self, waiting: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await asyncio.shield(waiting)
        except TimeoutError as error:
            self._connection.disconnect("")
            raise IrcLost("the server did not answer in time") from error

    async def say(self, target: str, lines: Sequence[str], done: Callable[[int], None], account: str = "") -> None:
        """Send lines in groups, and call ``done`` with the size of each group that the server accepted. With an ``account``, send
        only while the nick is logged in with it: the server is asked before the first group and after each one, because many
        lines take minutes and a nick can change hands at any time. If it changes hands, ``done`` is not called for that group.

        Raises IrcLost. Raises NotSent if the server refuses a line, and with the code AWAY if the nick is not, or no longer,
        logged in with the account.
        """
        async with self._saying:  # one message at a time, so that a refusal belongs to this message
            self._told, self._has_left, self._refusals = fold(target) if account else "", False, []
            whose = await self.whois(target, anew=True) if account and lines else (account, "")
            if whose[0] != account:
                raise NotSent("the recipient is not logged in", retry_after=_AWAY_SECONDS, code=AWAY)
            for at in range(0, len(lines), _AT_ONCE):
                some = lines[at : at + _AT_ONCE]
                self._refusals.clear()
                for line in some:
                    if self._has_left:
                        break
                    await self.send(f"PRIVMSG {target} :{line}")
                now = whose
                if account:  # the answer also confirms the lines
                    now = await self.whois(target, anew=True)
                else:
                    await self.confirmed()
                if refused := [kind for kind, arguments in self._refusals if arguments and fold(arguments[0]) == fold(target)]:
                    for_good = refused[0] not in _FOR_NOW
                    why = f"the server does not deliver it: {refused[0]}"
                    raise NotSent(why, for_good=for_good, perhaps_sent=bool(account) and not for_good, code=refused[0])
                if self._has_left or now != whose:
                    raise NotSent("the recipient has left", retry_after=_AWAY_SECONDS, perhaps_sent=True, code=AWAY)
                done(len(some))

    async def whois(self, nick: str, *, anew: bool = False) -> tuple[str, str]:
        """Return (account, nick!user@host) of the nick's current user. The account is "" for a user who is not logged in; both
        are "" for an unused nick. ``anew``: don't share the answer to a pending query. Raises IrcLost.
        """
        while anew and fold(nick) in self._whois:
            await self._within(self._whois[fold(nick)][1])
            await asyncio.sleep(0)
        if fold(nick) not in self._whois:
            self._whois[fold(nick)] = {"nick": nick}, asyncio.get_running_loop().create_future()
            try:
                await self.send(f"WHOIS {nick}")
            except BaseException as error:
                failed = self._whois.pop(fold(nick))[1]
                failed.set_exception(IrcLost("the server was not asked"))
                failed.exception()  # prevents a warning if no task waits for it
                raise error
        found, waiting = asked = self._whois[fold(nick)]
        try:
            await self._within(waiting)
        finally:
            if self._whois.get(fold(nick)) is asked:
                del self._whois[fold(nick)]
        return found.get("account", ""), found.get("mask", "")
