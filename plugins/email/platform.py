"""The e-mail platform: one mailbox. The operator's own server confirms who wrote; a mail can't approve a call, a link can."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from email.parser import BytesParser
from typing import TYPE_CHECKING, Any

from plugins.email.content import decoded_bytes
from plugins.email.imap import ImapAccount, ImapMailbox, MailboxFailed, MailRefused, day, opened
from plugins.email.incoming import chat_of, inbound_of, message_id_of
from plugins.email.links import DecisionLinks
from plugins.email.senders import author, is_automatic, is_vouched_for
from plugins.email.settings import EmailSettings
from plugins.email.smtp import SmtpAccount, check_account, submit
from plugins.email.writing import id_of, mail_of
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Host, NotSent, Outbound, Traits
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Recent, keep_receiving, listening_at, server_of

if TYPE_CHECKING:
    import uvicorn

_log = logging.getLogger(__name__)
_HEAD, _FIRST, _MOST = 65_536, 262_144, 28 * 1024 * 1024
"""Limits in bytes for fetching a mail's fields, its beginning, and all of it; the last only for users who may speak."""
_FILE = 10 * 1024 * 1024
_WAIT = 4.0
"""Seconds between checks for new mail, whatever the server reports in between."""
_DOUBT, _DOUBT_SECONDS = 20, 0.25
"""Number of searches for a mail that may not have been sent, and the seconds between them."""
_PLACE = "place"
_TRIES = 5
"""Number of attempts to fetch a mail that the server does not deliver."""
_SECTION = Regex(r"\d{1,4}(?:\.\d{1,4}){0,30}\Z")


class EmailPlatform:
    """The e-mail platform. README.md describes the ``settings``."""

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._settings = settings = EmailSettings(host)
        self.traits = Traits(
            max_chars=100_000,
            buttons=bool(settings.link_url),
            max_file_bytes=_FILE,
            per_second=settings.per_second,
            burst=20,
            written_approvals=False,
        )
        self._imap: ImapAccount
        self._smtp: SmtpAccount
        self._links: DecisionLinks | None = None
        self._stack = AsyncExitStack()
        self._mailbox: ImapMailbox | None = None
        self._place: tuple[int, int, float] | None = None
        """The UIDVALIDITY and UID of the last mail that was taken, and its time."""
        self._times: Recent[str, deque[float]] = Recent(1_000)
        self._last: Recent[str, str] = Recent(1_000)
        """The id of the last mail of each chat: the bot's next mail in the chat is a reply to it."""
        self._refused: Recent[int, int] = Recent(100)
        """Number of times that the server did not deliver a mail, by its UID."""
        self._tasks: list[asyncio.Task[None]] = []
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._listening: socket.socket | None = None

    # -- connection ----------------------------------------------------------------------------------------------

    @property
    def shortcomings(self) -> Sequence[tuple[str, str]]:
        """See toolcrib.chat.TellsShortcomings."""
        found = []
        if self._settings.trusts_from:
            found.append(
                (
                    "trusts the From header, which can be forged",
                    f"set authserv_id, and remove {self._host.names_setting('trust_from')}",
                )
            )
        if not self._settings.link_url:
            found.append(("can't accept approvals by mail", f"set {self._host.names_setting('link_url')}, or use a terminal"))
        return found

    async def connect(self) -> str:
        """Log in to both servers, and return the bot's address. Raises ConfigError, ToolcribError."""
        try:
            import aioimaplib  # noqa: F401 - to see whether it is installed
            import aiosmtplib  # noqa: F401 - likewise

            if self._settings.link_url:
                import starlette  # noqa: F401 - likewise
                import uvicorn  # noqa: F401 - likewise
        except ImportError as error:
            raise ConfigError("the email platform needs the extra: pip install 'toolcrib[email]'") from error
        self._imap, self._smtp = self._settings.accounts()
        if self._settings.sent_mailbox:
            async with opened(self._imap, self._settings.sent_mailbox):
                pass
        await self._open()
        await check_account(self._smtp)
        return self._settings.address

    async def _open(self) -> ImapMailbox:
        self._mailbox = await self._stack.enter_async_context(opened(self._imap, self._settings.mailbox))
        return self._mailbox

    async def _leave(self) -> None:
        self._mailbox = None
        await self._stack.aclose()

    async def start(self) -> None:
        """Start reading. On the very first start, only mail that arrives from now on is read.

        Raises MailboxFailed, ConfigError, OSError and StoreFailed.
        """
        mailbox = self._mailbox or await self._open()
        kept = await self._host.recall(_PLACE)
        if isinstance(kept, list) and len(kept) == 3:
            self._place = (int(kept[0]), int(kept[1]), float(kept[2]))
        else:
            await self._keep((mailbox.validity, mailbox.next_uid - 1, 0.0))
        if self._settings.link_url:
            await self._serve()
        expected = (StoreFailed, MailboxFailed, ConfigError)
        self._tasks.append(asyncio.create_task(keep_receiving(self._receive, self.name, expected, lambda error: None)))

    async def _serve(self) -> None:
        from starlette.routing import Route

        links = self._links = DecisionLinks(self._host.folder, self._settings.link_hours, self._host.press)
        server = self._server = server_of([Route(f"{self._settings.link_path}/{{token}}", links.page, methods=["GET", "POST"])])
        self._listening = listening_at(*self._settings.link_listen, self._host.names_setting("link_listen"), backlog=128)
        serving = self._serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop reading; mail that was not taken is found again at the next start."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)
            self._server = self._serving = None
        if self._listening is not None:
            self._listening.close()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._leave()

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Take new mail, and wait for more. If this raises, mail that was not stored is found again."""
        try:
            mailbox = self._mailbox or await self._open()
            for uid in await self._new_in(mailbox):
                await self._take(mailbox, uid)
            await mailbox.wait(_WAIT)
        except BaseException:
            await self._leave()
            raise

    async def _new_in(self, mailbox: ImapMailbox) -> list[int]:
        """Return the UIDs of new mail. If the server has renumbered the mailbox, return all UIDs since the day before the last
        known mail: the gateway recognises mail that it already has by its id.
        """
        assert self._place is not None, "started"  # noqa: S101 - for the type checker
        validity, last, at = self._place
        if validity == mailbox.validity:
            return [uid for uid in await mailbox.search(f"UID {last + 1}:*") if uid > last]
        found = await mailbox.search(f"SINCE {day(at - 86_400)}") if at else []
        if not found:
            await self._keep((mailbox.validity, mailbox.next_uid - 1, at))
        return found

    async def _keep(self, place: tuple[int, int, float]) -> None:
        await self._host.keep(_PLACE, list(place))
        self._place = place

    async def _take(self, mailbox: ImapMailbox, uid: int) -> None:
        """Take one mail. Raises StoreFailed and MailboxFailed: in both cases the mail must be taken again."""
        at = 0.0
        try:
            head = await mailbox.fetch(uid, f"BODY.PEEK[HEADER]<0.{_HEAD}>")
            if head is not None:
                at = head.at
                await self._read(mailbox, uid, head.data, head.size, at)
        except MailRefused:
            self._refused[uid] = self._refused.get(uid, 0) + 1
            if self._refused[uid] < _TRIES:
                raise
            _log.warning("%s: a mail is skipped: the server does not provide it", self.name)
        except (StoreFailed, MailboxFailed):
            raise
        except Exception as error:  # noqa: BLE001 - the mail would be read again forever, and block all others
            _log.warning("%s: a mail could not be read and is skipped: %s", self.name, type(error).__name__)
        await self._keep((mailbox.validity, uid, at or (self._place or (0, 0, 0.0))[2]))

    async def _read(self, mailbox: ImapMailbox, uid: int, fields: bytes, size: int, at: float) -> None:
        """Pass a mail to the gateway, if a known user wrote it."""
        settings = self._settings
        head = BytesParser().parsebytes(fields, headersonly=True)
        address = author(head) if len(fields) < _HEAD else ""
        if is_automatic(head, address, settings.address):
            return
        if not address or not (settings.trusts_from or is_vouched_for(head, address, settings.authserv_id)):
            _log.info("%s: a mail is skipped: its sender is not authenticated", self.name)
            return
        if self._is_too_much(address, at):
            _log.warning("%s: a mail is skipped: its sender exceeds per_hour", self.name)
            return
        place = (mailbox.validity, uid)
        message_id = message_id_of(head, f"{place}")
        chat = chat_of(head, address, message_id)
        is_long = size > _FIRST
        takes_files = not is_long or await self._host.listens(chat, address)
        most = _MOST if takes_files and size <= _MOST else _FIRST
        whole = await mailbox.fetch(uid, f"BODY.PEEK[]<0.{most}>")
        if whole is None:
            return
        read = asyncio.to_thread(inbound_of, head, whole.data, chat, message_id, place, takes_files=takes_files and size <= _MOST)
        message = replace(await read, at=at)
        if takes_files and size > _MOST:  # the gateway reports that it is too large
            message = replace(message, attachments=[Attachment("the rest of this mail", size=size)])
        if await self._host.receive(message) != "refused":
            self._last[chat.key] = message_id
            self._times[address] = self._times.get(address, deque[float]())
            self._times[address].append(at)

    def _is_too_much(self, address: str, at: float) -> bool:
        """Return whether an address has used up its mails for an hour. The limit is for two programs that answer each other."""
        times = self._times.get(address, deque[float]())
        while times and times[0] < at - 3600:
            times.popleft()
        return len(times) >= self._settings.per_hour

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield a file from its mail. Raises ToolcribError."""
        ref = attachment.ref
        section = str(ref.get("part", ""))
        if not _SECTION.match(section):
            raise ToolcribError("it is not a part of a mail")
        async with opened(self._imap, self._settings.mailbox) as mailbox:
            found = await mailbox.fetch(int(ref["uid"]), f"BODY.PEEK[{section}]") if mailbox.validity == ref["validity"] else None
        if found is None:
            raise ToolcribError("its mail is no longer in the mailbox")
        yield await asyncio.to_thread(decoded_bytes, found.data, str(ref["encoding"]))

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Send a message, and return its Message-ID. Raises NotSent."""
        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        ours = self._settings.address
        message_id = id_of(out, ours.rpartition("@")[2])
        if out.is_again and await self._went(message_id):
            return message_id
        link = ""
        if out.buttons and self._links is not None:
            link = f"{self._settings.link_url}/{self._links.token_for(out, message_id)}"
        if not out.reply_to and (last := self._last.get(out.chat.key)):
            out = replace(out, reply_to=last)
        try:
            files = [await asyncio.to_thread(file.path.read_bytes) for file in out.files]
            raw = await asyncio.to_thread(mail_of, out, ours, message_id, link, files)
        except (OSError, ValueError) as error:  # such as a missing file, or an invalid address
            raise_passing(error)
            raise NotSent(f"it can't be sent as a mail: {type(error).__name__}", for_good=True) from error
        await submit(self._smtp, ours, out.chat.id, raw)
        return message_id

    async def _went(self, message_id: str) -> bool:
        """Return whether a mail of ours was submitted: its copy arrives in our own mailbox at the same time or soon after. Raises
        NotSent.
        """
        try:
            for folder in filter(None, (self._settings.sent_mailbox, self._settings.mailbox)):
                async with opened(self._imap, folder) as mailbox:
                    for look_again in range(_DOUBT if folder == self._settings.mailbox else 1):
                        await asyncio.sleep(_DOUBT_SECONDS * (look_again > 0))
                        if await mailbox.search(f'HEADER Message-ID "<{message_id}>"'):
                            return True
        except (MailboxFailed, ConfigError) as error:
            raise NotSent(f"it is unknown whether it was sent: {error}", perhaps_sent=True) from error
        return False
