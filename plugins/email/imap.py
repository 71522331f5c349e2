"""The bot's mailbox, by IMAP. Every wait is short, so a lost connection is noticed within a few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from imaplib import Internaldate2tuple
from typing import Any, TypeVar

from toolcrib import ConfigError, ToolcribError
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Trust

_SECONDS = 20.0
_VALIDITY, _NEXT, _SIZE = Regex(rb"UIDVALIDITY (\d{1,20})"), Regex(rb"UIDNEXT (\d{1,20})"), Regex(rb"RFC822\.SIZE (\d{1,20})")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
T = TypeVar("T")


class MailboxFailed(ToolcribError):
    """The mailbox can't be used now. The error has no text of the server, which may repeat what people wrote."""


class MailRefused(MailboxFailed):
    """The server works, but does not deliver this mail."""


@dataclass(frozen=True, slots=True)
class ImapAccount:
    """Address and login of a mailbox. ``is_tls`` is False only for a server on this machine."""

    host: str
    port: int
    is_tls: bool
    user: str
    password: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class Fetched:
    """A part of a mail, with the size of the whole mail in bytes and its delivery time, in Unix seconds."""

    data: bytes
    size: int
    at: float


class ImapMailbox:
    """An open mailbox. Its UIDs are valid for ``validity``; ``next_uid`` was the UID of the next mail when it was opened."""

    def __init__(self, client: Any, lost: asyncio.Event, trust: Trust) -> None:
        self._client = client
        self._trust = trust
        self._lost = lost
        self.validity = self.next_uid = 0

    async def _answer(self, command: Awaitable[T]) -> T:
        """Return the result of a command. Raises MailboxFailed, and ConfigError for a fault of the certificate.

        If the connection ends, this raises at once; the library would wait for its timeout.
        """
        from aioimaplib import AioImapException

        asked, lost = asyncio.ensure_future(command), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({asked, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise MailboxFailed("the connection to the IMAP server ended")
            return asked.result()
        except (AioImapException, TimeoutError, OSError, AttributeError, ValueError) as error:
            if said := self._trust.problem(error, "imap_url"):
                raise ConfigError(f"IMAP: {said}") from error
            if isinstance(error, ssl.SSLError):
                raise MailboxFailed(f"TLS with the IMAP server failed: {error.reason}") from error
            raise MailboxFailed(f"the IMAP server failed: {type(error).__name__}") from error
        finally:
            for one in (asked, lost):
                one.cancel()
            await asyncio.gather(asked, lost, return_exceptions=True)

    async def enter(self, account: ImapAccount, folder: str) -> None:
        """Log in, and open a folder. Raises MailboxFailed, and ConfigError if the server refuses either."""
        await self._answer(self._client.wait_hello_from_server())
        user = account.user.replace("\\", "\\\\").replace('"', '\\"')
        if (await self._answer(self._client.login(f'"{user}"', account.password))).result != "OK":
            raise ConfigError(
                "the IMAP server refuses the user or the password: correct EMAIL_PASSWORD, or platforms.email.settings.user"
            )
        answer = await self._answer(self._client.select(f'"{folder}"'))
        if answer.result != "OK":
            raise ConfigError(f"the IMAP server has no mailbox {folder!r}")
        told = b" ".join(line for line in answer.lines if isinstance(line, bytes))
        validity, following = _VALIDITY.search(told), _NEXT.search(told)
        self.validity = int(validity[1]) if validity is not None else 0
        self.next_uid = int(following[1]) if following is not None else max([0, *await self.search("ALL")]) + 1

    async def search(self, criteria: str) -> list[int]:
        """Return the UIDs of matching mail, in order. Raises MailboxFailed."""
        answer = await self._answer(self._client.uid_search(criteria, charset=None))
        if answer.result != "OK":
            raise MailboxFailed("the IMAP server refuses a search")
        return sorted({int(one) for line in answer.lines[:-1] for one in bytes(line).split() if one.isdigit()})

    async def fetch(self, uid: int, part: str) -> Fetched | None:
        """Return a part of a mail, such as ``BODY.PEEK[...]``, or None if the mail is gone. Raises MailboxFailed, MailRefused."""
        answer = await self._answer(self._client.uid("fetch", str(uid), f"(RFC822.SIZE INTERNALDATE {part})"))
        if answer.result != "OK":
            raise MailRefused("the IMAP server does not provide a mail")
        told = b" ".join(line for line in answer.lines if isinstance(line, bytes))
        size, date = _SIZE.search(told), Internaldate2tuple(told)
        if size is None:
            return None
        data = next((bytes(line) for line in answer.lines if isinstance(line, bytearray)), b"")
        return Fetched(data, int(size[1]), time.mktime(date) if date is not None else time.time())

    async def wait(self, seconds: float) -> None:
        """Wait until mail may have arrived, or until the time limit. Raises MailboxFailed."""
        if not self._client.has_capability("IDLE"):
            await self._answer(asyncio.sleep(seconds))
            return
        idle = await self._answer(self._client.idle_start(seconds * 4))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._answer(self._client.protocol.idle_queue.get())
        self._client.idle_done()
        await self._answer(asyncio.wait_for(idle, _SECONDS))

    async def close(self) -> None:
        """End the connection. Never raises."""
        client = self._client
        if client._idle_waiter is not None:  # otherwise its timer would outlive the connection
            client._idle_waiter.cancel()
        left = [*client.tasks, *client.protocol.tasks, client._client_task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if client.protocol.transport is not None:
            client.protocol.transport.close()


@asynccontextmanager
async def opened(account: ImapAccount, folder: str) -> AsyncIterator[ImapMailbox]:
    """Open a mailbox. Raises MailboxFailed, ConfigError."""
    from aioimaplib import IMAP4

    logging.getLogger("aioimaplib").setLevel(logging.WARNING)  # its lower levels log what people wrote
    lost = asyncio.Event()
    context = await account.trust.context() if account.is_tls else None
    client = IMAP4(account.host, account.port, timeout=_SECONDS, conn_lost_cb=lambda _: lost.set(), ssl_context=context)
    mailbox = ImapMailbox(client, lost, account.trust)
    try:
        await mailbox.enter(account, folder)
        yield mailbox
    finally:
        await mailbox.close()


def day(at: float) -> str:
    """Return a day in the form of IMAP searches."""
    when = time.gmtime(at)
    return f"{when.tm_mday}-{_MONTHS[when.tm_mon - 1]}-{when.tm_year}"
