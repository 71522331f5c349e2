"""The Discord platform: one bot, in direct chats and on servers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from plugins.discord.writing import discord_of, discord_of_plain
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Traits, settings_of, without_controls
from toolcrib.platforms import Intake, Recent, SentKeys, keep_receiving, number_of, press_until_kept

if TYPE_CHECKING:
    import discord

    from plugins.discord.client import DiscordClient

_log = logging.getLogger(__name__)
TOKEN = "DISCORD_TOKEN"  # noqa: S105 - the name of one
_SETTINGS = ("proxy", "per_second", "edit_seconds", "max_edits")
_UPLOAD = 10 * 1024 * 1024
_LINE = 500
_PAGE = 100
_CHANNELS = 500
"""Channels that are read again after a gap, those with the newest messages first."""
_PIECE = 65_536
_START_SECONDS = 10.0
_PRESS_SECONDS = 3.0
_ARCHIVED = 50083


class DiscordPlatform:
    """``settings``: ``proxy``, ``per_second``, ``edit_seconds``, ``max_edits``; README.md has them."""

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._settings = settings_of(host, _SETTINGS)
        self.traits = Traits(
            max_chars=1_900,
            edit_seconds=number_of(host, "edit_seconds", 1.2, may_be_zero=True),
            max_edits=int(number_of(host, "max_edits", 40, may_be_zero=True)),
            buttons=True,
            idempotent=True,
            max_file_bytes=_UPLOAD,
            per_second=number_of(host, "per_second", 20.0),
        )
        self._client: DiscordClient | None = None
        self._intake: Intake | None = None
        self._sent = SentKeys(host)
        self._last: Recent[int, str] = Recent(5_000)
        """The newest message of each channel that we know of."""
        self._is_told = asyncio.Event()
        """Set once Discord tells us of what is written."""
        self._is_whole = False
        """False until all servers are known after a new session began."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- its life ------------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Ask Discord who we are. Raises ConfigError, ToolcribError where Discord can't be reached."""
        try:
            import discord

            from plugins.discord.client import LOST, DiscordClient, wait_of
        except ImportError as error:
            raise ConfigError("the discord platform needs the extra: pip install 'toolcrib[discord]'") from error
        token = self._host.secret(TOKEN).strip()
        handlers: dict[str, Callable[..., None]] = {"message": self._message, "interaction": self._interaction}
        handlers |= {"connect": self._gap, "ready": self._ready, "guild_available": self._entered, "guild_join": self._entered}
        client = self._client = DiscordClient(handlers, self._settings.get("proxy", ""))
        try:
            await client.login(token)
        except discord.LoginFailure:
            raise ConfigError(f"Discord does not know the token in {TOKEN}: make a new one on your application's page") from None
        except LOST as error:
            raise ToolcribError(f"Discord can't be reached: {error}") from error
        flags = client.application.flags if client.application is not None else discord.ApplicationFlags()
        if not (flags.gateway_message_content or flags.gateway_message_content_limited):
            raise ConfigError("the bot may not read messages: switch on Message Content Intent on your application's page")
        self._intake = Intake(self._host, self._missed, LOST, wait_of)
        return str(self._me)

    async def start(self) -> None:
        """Begin to receive: what is written once this has returned arrives, unless Discord can't be reached now."""
        import discord

        from plugins.discord.client import LOST, wait_of

        await self._sent.load()
        await self._taking.load(str(discord.utils.time_snowflake(discord.utils.utcnow())))
        self._taking.hold()
        self._spawn(keep_receiving(self._api.receive, self.name, LOST, wait_of))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_told.wait(), _START_SECONDS)

    async def stop(self) -> None:
        """Receive nothing more; what was not taken is read at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        intake, self._intake = self._intake, None
        if intake is not None:
            await intake.close()
            await self._sent.close()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _api(self) -> DiscordClient:
        if self._client is None:
            raise NotSent("not connected")
        return self._client

    @property
    def _taking(self) -> Intake:
        if self._intake is None:
            raise NotSent("not connected")
        return self._intake

    @property
    def _me(self) -> int:
        return self._api.user.id if self._api.user is not None else 0

    # -- what arrives --------------------------------------------------------------------------------------------

    def _gap(self) -> None:
        """Wait with what is told after a new session began: it lacks what was written before."""
        self._taking.hold()
        self._is_whole = False
        self._is_told.set()

    def _ready(self) -> None:
        self._is_whole = True
        known = self._taking.channels[:_CHANNELS]
        self._taking.resume(dict.fromkeys([*known, *self._behind(self._api.guilds)]))

    def _entered(self, guild: discord.Guild) -> None:
        if self._is_whole:  # else with all others
            self._taking.resume(self._behind([guild]))

    def _behind(self, guilds: Iterable[discord.Guild]) -> list[str]:
        """Return the channels in which something was written since we were here last."""
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
        elif message.guild is not None:  # a thread that nobody told of; what else there is can't be answered
            self._taking.take(channel, str(message.id), None)

    async def _missed(self, channel: str, after: str) -> list[tuple[str, Inbound | None]]:
        """Return what was written in a channel after a message. Raises one of LOST."""
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
                if message.guild is not None and not who.bot and who.id not in people:  # what is read again has no roles
                    with contextlib.suppress(discord.NotFound):
                        people[who.id] = roles_of(await message.guild.fetch_member(who.id))
                of_us = who.id == self._me
                inbound = None if of_us else inbound_of(message, chat, self._me, people.get(who.id, ()))
                found.append((str(message.id), inbound))
        except (discord.Forbidden, discord.NotFound, discord.InvalidData) as error:
            _log.warning("%s can't be read: %s; what was written there meanwhile is left out", Chat(channel), error)
        return found

    def _interaction(self, interaction: discord.Interaction) -> None:
        self._spawn(self._pressed(interaction))

    async def _pressed(self, interaction: discord.Interaction) -> None:
        """Answer a press at once, as Discord waits three seconds, and tell what became of it once that is known."""
        from plugins.discord.client import LOST
        from plugins.discord.incoming import chat_of, press_of

        with contextlib.suppress(*LOST, KeyError, TypeError):  # whatever it says to that, the press counts
            async with asyncio.timeout(_PRESS_SECONDS):  # later it is of no use: the library would go on asking
                await interaction.response.defer()
        chat = chat_of(interaction.channel) if interaction.channel is not None else None
        press = press_of(interaction, chat) if chat is not None else None
        line = await press_until_kept(self._host, press) if press is not None else ""
        if line:
            with contextlib.suppress(*LOST):
                await interaction.followup.send(without_controls(line)[:_LINE], ephemeral=True)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield a file. Raises ToolcribError."""
        import aiohttp

        from plugins.discord.client import LOST

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
        except LOST as error:
            why = (
                error.status if isinstance(error, aiohttp.ClientResponseError) else error
            )  # whoever has its address has the file
            raise ToolcribError(f"Discord does not give it: {why}") from error

    # -- what is shown -------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show a message or change one. Raises NotSent."""
        from plugins.discord.client import LOST, not_sent

        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        if not (out.text.strip() or out.files):
            raise NotSent("there is nothing to show", for_good=True)
        try:
            channel = self._api.get_partial_messageable(int(out.chat.thread or out.chat.id))
            return await (self._edit(channel, out, int(out.edits)) if out.edits else self._show(channel, out))
        except StoreFailed as error:
            raise NotSent(f"it can't be kept that it is sent: {error}") from error
        except (FileNotFoundError, PermissionError, ValueError) as error:  # a file that is gone, an id of another platform's
            raise NotSent(str(error), for_good=True) from error
        except LOST as error:
            found = not_sent(error)
            if found.for_good:
                self._sent.forget(out.key)
            raise found from error

    async def _show(self, channel: discord.PartialMessageable, out: Outbound) -> str:
        """Show a message once. Discord knows a nonce for some minutes; later the lost one is looked for where it would be."""
        import discord

        known = self._sent.known(out.key)
        if not known:
            before = await self._sent.begin(out.key, await self._newest(channel))
            known = await self._lost(channel, str(before)) if out.is_again else ""
        if known:
            await self._sent.done(out.key, known)
            return await self._edit(channel, out, int(known)) if out.is_again else known
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
        await self._sent.done(out.key, str(shown.id))
        if out.is_again and shown.id <= int(str(before)):
            await self._edit(channel, out, shown.id)
        return str(shown.id)

    async def _edit(self, channel: discord.PartialMessageable, out: Outbound, message_id: int) -> str:
        import discord

        message, content = channel.get_partial_message(message_id), _content(out) or None
        try:
            await message.edit(content=content, view=_view(out))
        except discord.HTTPException as error:
            if error.code != _ARCHIVED:
                raise
            await self._api.http.edit_channel(channel.id, archived=False)  # as Discord does it where something new is written
            await message.edit(content=content, view=_view(out))
        return str(message_id)

    async def _newest(self, channel: discord.PartialMessageable) -> str:
        """Return the id of a channel's newest message: what is shown next comes after it."""
        if channel.id not in self._last:
            newest = [message.id async for message in channel.history(limit=1)]
            self._last.setdefault(channel.id, str(newest[0] if newest else 0))
        return self._last[channel.id]

    async def _lost(self, channel: discord.PartialMessageable, before: str) -> str:
        """Return the message that was shown after another one, and of which we never heard; "" for none."""
        import discord

        async for message in channel.history(limit=_PAGE, after=discord.Object(int(before)), oldest_first=True):
            if message.author.id == self._me and str(message.id) not in self._sent.ids:
                return str(message.id)
        return ""

    async def typing(self, chat: Chat, is_on: bool) -> None:
        """Show that an answer is being written; it ends by itself."""
        if is_on:
            await self._api.get_partial_messageable(int(chat.thread or chat.id)).typing()


def _content(out: Outbound) -> str:
    return "" if not out.text.strip() else discord_of_plain(out.text) if out.is_plain else discord_of(out.text)


def _view(out: Outbound) -> discord.ui.View | None:
    import discord

    from plugins.discord.incoming import data_of

    if not out.buttons:
        return None
    view = discord.ui.View(timeout=None)
    for one in out.buttons:
        view.add_item(discord.ui.Button(label=one.label[:80], custom_id=data_of(one.choice, out.key)))
    view.stop()  # presses come to us: the library would keep each for ever
    return view
