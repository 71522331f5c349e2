"""A fake of an IRC server whose services know accounts, written from IRCv3, without code of a real server.

It has what ngircd lacks: capabilities, SASL PLAIN, account-tag, and accounts that change while a user is connected. ``accounts``
are passwords by account; ``log`` has each received line, ``holds`` is a text after which PONGs are held back, ``instead`` are
answers by command that replace its work, each sent once.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field


@dataclass
class Client:
    writer: asyncio.StreamWriter
    nick: str = "*"
    user: str = ""
    account: str = ""
    capabilities: set[str] = field(default_factory=set)
    is_negotiating: bool = False
    is_in: bool = False

    @property
    def mask(self) -> str:
        return f"{self.nick}!{self.user}@host.test"

    def send_line(self, line: str) -> None:
        self.writer.write(f"{line}\r\n".encode())


class FakeIrc:
    def __init__(self, *, offers: str = "account-tag message-tags sasl=PLAIN,EXTERNAL") -> None:
        self.offers = offers
        self.accounts: dict[str, str] = {}
        self.clients: list[Client] = []
        self.channels: dict[str, list[Client]] = {}
        self.log: list[tuple[str, str]] = []
        self.holds = ""
        self.instead: dict[str, list[str]] = {}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut all connections."""
        if self._server is not None:
            self._server.close()
        for one in self.clients:
            one.writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.clients.clear()
        self.channels.clear()

    def client(self, nick: str) -> Client:
        return next(one for one in self.clients if one.nick.lower() == nick.lower())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        client = Client(writer)
        self.clients.append(client)
        try:
            while line := await reader.readline():
                self._take(client, line.decode().rstrip("\r\n"))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)
            if client in self.clients:
                self.clients.remove(client)
            for there in self.channels.values():
                if client in there:
                    there.remove(client)

    def _take(self, client: Client, line: str) -> None:
        self.log.append((client.nick, line))
        head, _, trailing = line.partition(" :")
        command, *given = head.split(" ")
        arguments = given + ([trailing] if " :" in line else [])
        handler = getattr(self, f"_{command.lower()}", None)
        if answers := self.instead.get(command):
            client.send_line(f":fake.test {answers.pop(0)}")
        elif handler is not None:
            handler(client, arguments)
        if not client.is_in and client.user and client.nick != "*" and not client.is_negotiating:
            client.is_in = True
            client.send_line(f":fake.test 001 {client.nick} :Welcome")

    def _cap(self, client: Client, arguments: list[str]) -> None:
        match arguments[0]:
            case "LS":
                client.is_negotiating = True
                first, *rest = self.offers.split(" ") if self.offers else [""]
                if rest:
                    client.send_line(f":fake.test CAP * LS * :{first}")
                client.send_line(f":fake.test CAP * LS :{' '.join(rest) if rest else first}")
            case "REQ":
                client.capabilities |= set(arguments[1].split())
                client.send_line(f":fake.test CAP * ACK :{arguments[1]}")
            case "END":
                client.is_negotiating = False

    def _authenticate(self, client: Client, arguments: list[str]) -> None:
        if arguments[0] == "PLAIN":
            client.send_line("AUTHENTICATE +")
            return
        _, account, password = base64.b64decode(arguments[0]).decode().split("\0")
        if self.accounts.get(account) == password:
            client.account = account
            client.send_line(f":fake.test 900 * {client.mask} {account} :You are now logged in")
            client.send_line(":fake.test 903 * :SASL authentication successful")
        else:
            client.send_line(":fake.test 904 * :SASL authentication failed")

    def _nick(self, client: Client, arguments: list[str]) -> None:
        nick = arguments[0]
        if any(one.nick.lower() == nick.lower() for one in self.clients if one is not client):
            client.send_line(f":fake.test 433 {client.nick} {nick} :Nickname is already in use")
            return
        for one in self.clients if client.is_in else ():
            one.send_line(f":{client.mask} NICK :{nick}")
        client.nick = nick

    def _user(self, client: Client, arguments: list[str]) -> None:
        client.user = arguments[0]

    def _ping(self, client: Client, arguments: list[str]) -> None:
        if not (self.holds and any(self.holds in line for _, line in self.log)):
            client.send_line(f":fake.test PONG fake.test :{arguments[0]}")

    def _join(self, client: Client, arguments: list[str]) -> None:
        there = self.channels.setdefault(arguments[0].lower(), [])
        if client not in there:
            there.append(client)
        for one in there:
            one.send_line(f":{client.mask} JOIN {arguments[0]}")
        client.send_line(f":fake.test 353 {client.nick} = {arguments[0]} :{' '.join(one.nick for one in there)}")
        client.send_line(f":fake.test 366 {client.nick} {arguments[0]} :End of NAMES list")

    def _invite(self, client: Client, arguments: list[str]) -> None:
        self._deliver(client, self.client(arguments[0]), f"INVITE {arguments[0]} :{arguments[1]}")

    def _privmsg(self, client: Client, arguments: list[str]) -> None:
        self._message(client, "PRIVMSG", *arguments[:2])

    def _notice(self, client: Client, arguments: list[str]) -> None:
        self._message(client, "NOTICE", *arguments[:2])

    def _message(self, client: Client, kind: str, target: str, text: str) -> None:
        people = self.channels.get(target.lower()) or [one for one in self.clients if one.nick.lower() == target.lower()]
        if not people:
            client.send_line(f":fake.test 401 {client.nick} {target} :No such nick")
        for one in people:
            if one is not client:
                self._deliver(client, one, f"{kind} {target} :{text}")

    @staticmethod
    def _deliver(sender: Client, to: Client, line: str) -> None:
        tag = f"@account={sender.account} " if sender.account and "account-tag" in to.capabilities else ""
        to.send_line(f"{tag}:{sender.mask} {line}")

    def _whois(self, client: Client, arguments: list[str]) -> None:
        for one in self.clients:
            if one.nick.lower() == arguments[0].lower():
                client.send_line(f":fake.test 311 {client.nick} {one.nick} {one.user} host.test * :x")
                if one.account:
                    client.send_line(f":fake.test 330 {client.nick} {one.nick} {one.account} :is logged in as")
        client.send_line(f":fake.test 318 {client.nick} {arguments[0]} :End of WHOIS")

    def _quit(self, client: Client, arguments: list[str]) -> None:
        client.writer.close()
