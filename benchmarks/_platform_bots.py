"""Bare bots that the group "platforms" compares with the gateway: each echoes after some seconds, through its platform's library.

``python -m benchmarks._platform_bots NAME ARGUMENTS`` runs one. It answers "echo SECONDS MARK" with the same text.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine
from email import message_from_bytes
from email.message import EmailMessage
from email.utils import make_msgid
from functools import partial
from typing import Any

_tasks: set[asyncio.Task[None]] = set()


def _later(text: str, say: Callable[[], Awaitable[Any]]) -> None:
    """Call ``say`` after the seconds in an echo text; ignore other texts."""

    async def says() -> None:
        await asyncio.sleep(float(text.split()[1]))
        await say()

    if text.startswith("echo "):
        task = asyncio.get_running_loop().create_task(says())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


def _now(work: Callable[[], Any]) -> Callable[[], Awaitable[None]]:
    async def done() -> None:
        work()

    return done


async def _xmpp(host: str, port: str, certificate: str, address: str, password: str) -> None:
    from slixmpp import ClientXMPP

    client: Any = ClientXMPP(address, password)
    client.ssl_context = ssl.create_default_context(cafile=certificate)
    client.enable_direct_tls = client.enable_plaintext = False

    def took(message: Any) -> None:
        if message["type"] in ("chat", "normal"):
            _later(message["body"], _now(message.reply(message["body"]).send))

    client.add_event_handler("session_start", lambda _: client.send_presence())
    client.add_event_handler("message", took)
    client.connect(host, int(port))
    await asyncio.Event().wait()


async def _irc(port: str, nick: str) -> None:
    from irc.client_aio import AioReactor

    connection = AioReactor(loop=asyncio.get_running_loop()).server()

    def took(_: Any, event: Any) -> None:
        text, nick = event.arguments[0], event.source.nick
        _later(text, _now(lambda: connection.privmsg(nick, text)))

    connection.add_global_handler("privmsg", took)
    await connection.connect("127.0.0.1", int(port), nick)
    await asyncio.Event().wait()


def use_fake_discord(url: str, gateway: str) -> None:
    """Make the library connect to a fake of Discord, because it has no setting for that."""
    import discord
    import yarl
    from discord.gateway import DiscordWebSocket

    discord.http.Route.BASE = url
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)


async def _discord(url: str, gateway: str, token: str) -> None:
    import discord

    use_fake_discord(url, gateway)
    client = discord.Client(intents=discord.Intents(dm_messages=True, message_content=True), max_messages=None)

    @client.event
    async def on_message(message: discord.Message) -> None:
        if client.user is not None and message.author.id != client.user.id:
            _later(message.content, lambda: message.channel.send(message.content))

    await client.start(token)


async def _slack(url: str, token: str, app_token: str) -> None:
    from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
    from slack_bolt.async_app import AsyncApp
    from slack_sdk.web.async_client import AsyncWebClient

    app = AsyncApp(client=AsyncWebClient(token, base_url=f"{url}/"))

    @app.event("message")
    async def took(event: dict[str, Any], say: Any) -> None:
        _later(event["text"], lambda: say(event["text"]))

    handler = AsyncSocketModeHandler(app, app_token, web_client=AsyncWebClient(app_token, base_url=f"{url}/"))
    await handler.start_async()  # type: ignore[no-untyped-call]  # the library has no types


async def _email(imap: str, smtp: str, address: str, password: str) -> None:
    from aioimaplib import IMAP4

    client = IMAP4("127.0.0.1", int(imap), timeout=20)
    await client.wait_hello_from_server()
    await client.login(address, password)
    await client.select("INBOX")
    last = 0
    while True:
        found = (await client.uid_search(f"UID {last + 1}:*", charset=None)).lines[0].split()
        for uid in [int(one) for one in found if int(one) > last]:
            lines = (await client.uid("fetch", str(uid), "(RFC822)")).lines
            mail, last = message_from_bytes(bytes(lines[1])), uid
            text = str(mail.get_payload()).strip()
            _later(text, partial(_answer, int(smtp), address, mail, text))
        idle = await client.idle_start(timeout=10)
        await client.wait_server_push()
        client.idle_done()
        await asyncio.wait_for(idle, 10)


async def _answer(smtp: int, address: str, to: Any, text: str) -> None:
    import aiosmtplib

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = address, to["From"], "Re:", make_msgid(domain="crib.test")
    mail.set_content(text)
    await aiosmtplib.send(mail, hostname="127.0.0.1", port=smtp, start_tls=False)


BOTS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "xmpp": _xmpp,
    "irc": _irc,
    "discord": _discord,
    "slack": _slack,
    "email": _email,
}

if __name__ == "__main__":
    asyncio.run(BOTS[sys.argv[1]](*sys.argv[2:]))
