"""The Telegram platform: one bot, by long polling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from plugins.telegram.incoming import inbound_of, press_of
from plugins.telegram.writing import html_of, html_of_plain, units
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, NotSent, Outbound, OutFile, Traits
from toolcrib.contract.dataclass import replace
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.regex import Regex
from toolcrib.platforms import BotPlatform, button_data, keep_receiving

if TYPE_CHECKING:
    from telegram import Bot, InlineKeyboardMarkup, Message  # noqa: F401 - the class below names Bot in a string

_log = logging.getLogger(__name__)
TOKEN = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN_FORM = Regex(r"\d{1,20}:[\w-]{1,100}\Z")
_CHARS = 4_096
_DATA_BYTES = 64
_DOWNLOAD = 20 * 1024 * 1024
_UPLOAD = 50 * 1024 * 1024
_PHOTO = 10 * 1024 * 1024
_PHOTOS = ("image/jpeg", "image/png", "image/webp")
_LINE = 200
_POLL = 30
_UPDATES = "get_Updates"
"""The library turns this into ``getUpdates``. Its own method of that name would drop all updates if it can't read one of them."""


class TelegramPlatform(BotPlatform["Bot"]):
    """The Telegram platform. README.md describes the settings ``base_url``, ``proxy``, ``per_second``, ``edit_seconds`` and
    ``max_edits``.
    """

    known_settings = ("base_url", "proxy")
    traits = Traits(max_chars=4_000, edit_seconds=1.0, max_edits=40, buttons=True, max_file_bytes=_UPLOAD, per_second=25.0)

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        super().__init__(name, host, **more)
        self._offset = 0

    # -- connection ----------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Log in, and return the bot's id. Raises ConfigError, and ToolcribError if Telegram can't be reached."""
        try:
            from telegram.error import InvalidToken, TelegramError

            from plugins.telegram.wire import bot_of
        except ImportError as error:
            raise ConfigError("the telegram platform needs the extra: pip install 'toolcrib[telegram]'") from error
        token = self._host.secret(TOKEN).strip()
        if not _TOKEN_FORM.match(token):
            raise ConfigError(f"{TOKEN} does not have the form 123456:letters that @BotFather shows")
        base_url = self._settings.get("base_url", "https://api.telegram.org").rstrip("/")
        bot = self._client = bot_of(token, base_url, self._settings.get("proxy", ""))
        try:
            await bot.initialize()
            webhook = (await bot.get_webhook_info()).url
        except InvalidToken:
            raise ConfigError(f"Telegram does not know the token in {TOKEN}: /mybots at @BotFather shows it") from None
        except TelegramError as error:
            raise ToolcribError(f"the login to Telegram at {base_url} failed: {error}") from error
        if webhook:
            raise ConfigError(
                f"another program receives this bot's messages at {webhook}: call deleteWebhook, or create another bot"
            )
        return str(bot.id)

    async def start(self) -> None:
        """Begin to poll for updates."""
        from telegram.error import TelegramError

        from plugins.telegram.wire import wait_of

        self._spawn(keep_receiving(self._poll, self.name, (StoreFailed, TelegramError), wait_of))

    async def _close(self) -> None:
        if self._client is not None:
            await self._client.shutdown()

    # -- receiving -----------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Take updates one after another. The next request acknowledges the taken ones, so Telegram repeats a failed one."""
        asked = {"offset": self._offset, "timeout": _POLL, "allowed_updates": ["message", "edited_message", "callback_query"]}
        for raw in await self._api.do_api_request(_UPDATES, asked, read_timeout=_POLL + 15):
            await self._take(raw)
            self._offset = int(raw["update_id"]) + 1

    async def _take(self, raw: dict[str, Any]) -> None:
        from telegram import Update

        message, press = None, None
        try:
            update = Update.de_json(raw, self._api)
            query, found = update.callback_query, update.message or update.edited_message
            if found is not None:
                message = inbound_of(found, self._api.bot, is_edit=update.message is None)
            elif query is not None:
                press = press_of(query)
        except Exception as error:  # noqa: BLE001 - one unreadable update must not block the others
            _log.warning("%s: an update could not be read and is skipped: %s", self.name, type(error).__name__)
            return
        line = ""
        try:
            if message is not None:
                await self._host.receive(message)
            if press is not None:
                line = await self._host.press(press)
        except StoreFailed:
            raise
        except Exception:  # noqa: BLE001 - Telegram would send it again and again, and no later one
            _log.exception("%s: an update could not be handled and is skipped", self.name)
        if query is not None:
            self._spawn(self._answer(query.id, line))

    async def _answer(self, query_id: str, line: str) -> None:
        from telegram.error import TelegramError

        with contextlib.suppress(TelegramError):  # usually it is too late to answer; the message itself shows the result
            await self._api.answer_callback_query(query_id, text=line[:_LINE] or None, show_alert=bool(line))

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a file, in one piece. Raises ToolcribError."""
        from telegram.error import TelegramError

        try:
            file = await self._api.get_file(str(attachment.ref["id"]))
            if (file.file_size or 0) > _DOWNLOAD:
                raise ToolcribError(f"it is larger than {_DOWNLOAD // 2**20} MiB, the limit for bots")
            data = await file.download_as_bytearray(read_timeout=60)
        except TelegramError as error:
            raise ToolcribError(f"it could not be downloaded from Telegram: {error}") from error
        yield bytes(data)

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show or change a message. Raises NotSent."""
        from telegram.error import BadRequest, ChatMigrated, TelegramError

        from plugins.telegram.wire import not_sent

        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        text = html_of_plain(out.text, is_code=True) if out.is_plain else html_of(out.text)
        shown: list[Message] = []
        try:
            try:
                return await self._show(out, text, shown)
            except BadRequest as error:
                if "parse entities" not in str(error).lower() or shown:
                    raise
                return await self._show(out, html_of_plain(out.text), shown)
        except ChatMigrated as error:
            return await self.send(replace(out, chat=replace(out.chat, id=str(error.new_chat_id))))
        except TelegramError as error:
            raise not_sent(error, is_partly_shown=bool(shown)) from error
        except (OSError, ValueError) as error:  # such as a missing file, or an id of another platform
            raise_passing(error)
            raise NotSent(str(error), for_good=True) from error

    async def _show(self, out: Outbound, text: str, shown: list[Message]) -> str:
        from telegram import LinkPreviewOptions, ReplyParameters
        from telegram.error import BadRequest

        where: dict[str, Any] = {"chat_id": int(out.chat.id)}
        form: dict[str, Any] = {"parse_mode": "HTML", "reply_markup": _keyboard(out)}
        quiet = LinkPreviewOptions(is_disabled=True)
        is_long = units(text) > _CHARS
        if out.edits and not is_long:
            try:
                await self._api.edit_message_text(text, message_id=int(out.edits), link_preview_options=quiet, **where, **form)
            except BadRequest as error:
                if "not modified" not in str(error).lower():
                    raise
            return out.edits
        where["message_thread_id"] = int(out.chat.thread) if out.chat.thread else None
        if out.reply_to.isdecimal():
            form["reply_parameters"] = ReplyParameters(int(out.reply_to), allow_sending_without_reply=True)
        if is_long:  # Telegram counts some characters twice; a file keeps all of the text
            form |= {"filename": "message.txt", "caption": html_of_plain(f"{out.text[:200]} …")}
            shown.append(await self._api.send_document(document=out.text.encode("utf-8", "replace"), **where, **form))
        elif text.strip():
            shown.append(await self._api.send_message(text=text, link_preview_options=quiet, **where, **form))
        for file in out.files:
            shown.append(await self._send_file(file, where))  # noqa: PERF401 - if the next file fails, these were shown
        if not shown:
            raise NotSent("there is nothing to show", for_good=True)
        return str(shown[0].message_id)

    async def _send_file(self, file: OutFile, where: dict[str, Any]) -> Message:
        from telegram.error import BadRequest

        data = await asyncio.to_thread(file.path.read_bytes)
        if file.media_type in _PHOTOS and len(data) <= _PHOTO:
            with contextlib.suppress(BadRequest):  # bad proportions, or no picture: send it as a file
                return await self._api.send_photo(photo=data, filename=file.name, **where)
        return await self._api.send_document(document=data, filename=file.name, disable_content_type_detection=True, **where)

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written; the indicator disappears by itself."""
        if is_on:
            thread = int(chat.thread) if chat.thread else None
            await self._api.send_chat_action(int(chat.id), "typing", message_thread_id=thread)


def _keyboard(out: Outbound) -> InlineKeyboardMarkup | None:
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup

    rows = [[InlineKeyboardButton(one.label, callback_data=button_data(one, out.key, _DATA_BYTES))] for one in out.buttons]
    return InlineKeyboardMarkup(rows) if rows else None
