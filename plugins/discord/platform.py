"""The Discord platform: one bot, in direct chats and on servers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from plugins.discord.writing import discord_of, discord_of_plain
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, Outbound, Traits, without_controls
from toolcrib.platforms import Intake, IntakePlatform, Recent, button_data, keep_receiving, press_until_kept

if TYPE_CHECKING:
    import discord

    from plugins.discord.client import DiscordClient  # noqa: F401 - the class below names it in a string

_log = logging.getLogger(__name__)
TOKEN = "DISCORD_TOKEN"  # noqa: S105 - the name of a variable
_UPLOAD = 10 * 1024 * 1024
_LINE = 500
_PAGE = 100
_CHANNELS = 500
"""Number of channels that are read again after a gap, those with the newest messages first."""
_PIECE = 65_536
_PRESS_SECONDS = 3.0
_ARCHIVED = 50083
_DATA_BYTES = 100


class DiscordPlatform(IntakePlatform["DiscordClient"]):
    """The Discord platform. README.md describes the settings ``proxy``, ``per_second``, ``edit_seconds`` and ``max_edits``."""

    known_settings = ("proxy",)
    traits = Traits(
        max_chars=1_900, edit_seconds=1.2, max_edits=40, buttons=True, idempotent=True, max_file_bytes=_UPLOAD, per_second=20.0
    )
    cannot_be_sent = (FileNotFoundError, PermissionError, ValueError)  # such as a missing file, or an id of another platform

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        super().__init__(name, host, **more)
        self._last: Recent[int, str] = Recent(5_000)
        """The newest known message of each channel."""
        self._is_whole = False
        """False until all servers are known after a new session began."""

    # -- connection ----------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Log in and return the bot's id. Raises ConfigError, and ToolcribError if Discord can't be reached."""
        try:
            import discord

            from plugins.discord.client import LOST, DiscordClient, not_sent, wait_of
        except ImportError as error:
            raise ConfigError("the discord platform needs the extra: pip install 'toolcrib[discord]'") from error
        token = self._host.secret(TOKEN).strip()
        handlers: dict[str, Callable[..., None]] = {"message": self._message, "interaction": self._interaction}
        handlers |= {"connect": self._gap, "ready": self._ready, "guild_available": self._entered, "guild_join": self._entered}
        client = self._client = DiscordClient(handlers, self._settings.get("proxy", ""))
        try:
            await client.login(token)
        except discord.LoginFailure:
            raise ConfigError(
                f"Discord does not know the token in {TOKEN}: create a new one on your application's page"
            ) from None
        except LOST as error:
            raise ToolcribError(f"Discord can't be reached: {error}") from error
        flags = client.application.flags if client.application is not None else discord.ApplicationFlags()
        if not (flags.gateway_message_content or flags.gateway_message_content_limited):
            raise ConfigError("the bot may not read messages: enable Message Content Intent on your application's page")
        self._intake, self._lost, self._not_sent = Intake(self._host, self._missed, LOST, wait_of), LOST, not_sent
        self._receive = functools.partial(keep_receiving, client.receive, self.name, LOST, wait_of)
        return str(self._me)

    def _now(self) -> str:
        import discord

        return str(discord.utils.time_snowflake(discord.utils.utcnow()))

    async def _close(self) -> None:
        await super()._close()
        if self._client is not None:
            await self._client.close()

    @property
    def _me(self) -> int:
        return self._api.user.id if self._api.user is not None else 0

    # -- receiving -----------------------------------------------------------------------------------------------

    def _gap(self) -> None:
        """Hold new events back after a new session began: messages written before it are missing."""
        self._hold()
        self._is_whole = False

    def _ready(self) -> None:
        self._is_whole = True
        known = self._taking.channels[:_CHANNELS]
        self._taking.resume(dict.fromkeys([*known, *self._behind(self._api.guilds)]))

    def _entered(self, guild: discord.Guild) -> None:
        if self._is_whole:  # otherwise _ready will resume these channels with all others
            self._taking.resume(self._behind([guild]))

    def _behind(self, guilds: Iterable[discord.Guild]) -> list[str]:
        """Return the channels with messages that are newer than our last connection."""
        found: dict[str, int] = {}
        for guild in guilds:
            places: tuple[Any, ...] = (*guild.text_channels, *guild.voice_channels, *guild.threads)
            for channel in places:
                newest = channel.last_message_id
                if newest and self._taking.is_behind(str(newest)):
                    found[str(channel.id)] = newest
        return sorted(found, key=found.__getitem__, reverse=True)[:_CHANNELS]

    def _message(self, message: discord.Message) -> None:
        from plugins.discord.incoming import chat_of, inbound_of, roles_of

        self._last[message.channel.id] = str(message.id)
        if message.author.id == self._me:
            return
        chat, channel = chat_of(message.channel), str(message.channel.id)
        if chat is not None:
            found = inbound_of(message, chat, self._me, roles_of(message.author))
            if found is not None:
                self._taking.take(channel, str(message.id), found)
        elif message.guild is not None:  # an unknown thread; no other unknown channel can be answered
            self._taking.take(channel, str(message.id), None)

    async def _missed(self, channel: str, after: str) -> list[tuple[str, Inbound | None]]:
        """Return the messages of a channel after a given one. Raises one of LOST."""
        import discord

        from plugins.discord.incoming import chat_of, inbound_of, roles_of

        found: list[tuple[str, Inbound | None]] = []
        people: dict[int, list[int]] = {}
        try:
            place = self._api.get_channel(int(channel)) or await self._api.fetch_channel(int(channel))
            chat = chat_of(place)
            if chat is None or not isinstance(place, discord.abc.Messageable):
                return []
            async for message in place.history(limit=_PAGE, after=discord.Object(int(after)), oldest_first=True):
                who = message.author
                if message.guild is not None and not who.bot and who.id not in people:  # messages from the history have no roles
                    with contextlib.suppress(discord.NotFound):
                        people[who.id] = roles_of(await message.guild.fetch_member(who.id))
                of_us = who.id == self._me
                inbound = None if of_us else inbound_of(message, chat, self._me, people.get(who.id, ()))
                found.append((str(message.id), inbound))
        except (discord.Forbidden, discord.NotFound, discord.InvalidData) as error:
            _log.warning("%s can't be read: %s; messages sent there meanwhile are skipped", Chat(channel), error)
        return found

    def _interaction(self, interaction: discord.Interaction) -> None:
        self._spawn(self._pressed(interaction))

    async def _pressed(self, interaction: discord.Interaction) -> None:
        """Acknowledge a press at once, because Discord waits only three seconds, and later show its result."""
        from plugins.discord.incoming import chat_of, press_of

        with contextlib.suppress(*self._lost, KeyError, TypeError):  # the press counts, whatever Discord answers to this
            async with asyncio.timeout(_PRESS_SECONDS):  # later it is useless, and the library would keep retrying
                await interaction.response.defer()
        chat = chat_of(interaction.channel) if interaction.channel is not None else None
        press = press_of(interaction, chat) if chat is not None else None
        line = await press_until_kept(self._host, press) if press is not None else ""
        if line:
            with contextlib.suppress(*self._lost):
                await interaction.followup.send(without_controls(line)[:_LINE], ephemeral=True)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield a file. Raises ToolcribError."""
        import aiohttp

        ref = {name: int(str(value)) for name, value in attachment.ref.items()}
        try:
            channel = self._api.get_partial_messageable(ref["channel"])
            message = await channel.fetch_message(ref["message"])
            url = next((one.url for one in message.attachments if one.id == ref["file"]), "")
            if not url:
                raise ToolcribError("it was removed")
            proxy = self._settings.get("proxy") or None
            async with aiohttp.ClientSession() as session, session.get(url, proxy=proxy, raise_for_status=True) as answer:
                async for piece in answer.content.iter_chunked(_PIECE):
                    yield piece
        except self._lost as error:
            # Do not show the address: anyone who has it can download the file.
            why = error.status if isinstance(error, aiohttp.ClientResponseError) else error
            raise ToolcribError(f"it could not be downloaded from Discord: {why}") from error

    # -- sending -------------------------------------------------------------------------------------------------

    def _channel(self, chat: Chat) -> discord.PartialMessageable:
        return self._api.get_partial_messageable(int(chat.thread or chat.id))

    async def _post(self, out: Outbound) -> str:
        """Show a message. For some minutes Discord remembers the nonce, and returns the message of an earlier attempt."""
        import discord

        channel = self._channel(out.chat)
        more: dict[str, Any] = {}
        if out.reply_to.isdecimal():
            to = discord.MessageReference(message_id=int(out.reply_to), channel_id=channel.id, fail_if_not_exists=False)
            more = {"reference": to, "mention_author": False}
        if (view := _view(out)) is not None:
            more["view"] = view
        files = [discord.File(one.path, one.name) for one in out.files]
        nonce = hashlib.sha256(out.key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        shown = await channel.send(_content(out) or None, files=files, nonce=nonce, suppress_embeds=True, **more)
        self._last[channel.id] = str(shown.id)
        return str(shown.id)

    def _is_new(self, shown: str, note: str) -> bool:
        return int(shown) > int(note)

    async def _edit(self, out: Outbound, message_id: str) -> str:
        import discord

        channel = self._channel(out.chat)
        message, content = channel.get_partial_message(int(message_id)), _content(out) or None
        try:
            await message.edit(content=content, view=_view(out))
        except discord.HTTPException as error:
            if error.code != _ARCHIVED:
                raise
            await self._api.http.edit_channel(channel.id, archived=False)  # as Discord does when a new message is written
            await message.edit(content=content, view=_view(out))
        return message_id

    async def _note(self, out: Outbound) -> str:
        """Return the id of the channel's newest message. The message that is sent next will follow it."""
        channel = self._channel(out.chat)
        if channel.id not in self._last:
            newest = [message.id async for message in channel.history(limit=1)]
            self._last.setdefault(channel.id, str(newest[0] if newest else 0))
        return self._last[channel.id]

    async def _find(self, out: Outbound, note: str) -> str:
        """Return the id of our first message after ``note`` that has an unknown id; "" for none."""
        import discord

        after = discord.Object(int(note))
        async for message in self._channel(out.chat).history(limit=_PAGE, after=after, oldest_first=True):
            if message.author.id == self._me and str(message.id) not in self._sent.ids:
                return str(message.id)
        return ""

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written; the indicator disappears by itself."""
        if is_on:
            await self._channel(chat).typing()


def _content(out: Outbound) -> str:
    return "" if not out.text.strip() else discord_of_plain(out.text) if out.is_plain else discord_of(out.text)


def _view(out: Outbound) -> discord.ui.View | None:
    import discord

    if not out.buttons:
        return None
    view = discord.ui.View(timeout=None)
    for one in out.buttons:
        view.add_item(discord.ui.Button(label=one.label[:80], custom_id=button_data(one, out.key, _DATA_BYTES)))
    view.stop()  # we handle presses ourselves, and the library would keep each view forever
    return view
