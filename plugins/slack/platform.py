"""The Slack platform: one app in one workspace, in socket mode."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from plugins.slack.incoming import inbound_of, is_id, is_time
from plugins.slack.writing import CHARS, blocks_of, mrkdwn_of
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, without_controls
from toolcrib.platforms import Intake, IntakePlatform, Recent, choice_and_key, press_until_kept

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient  # noqa: F401 - the class below names it in a string

    from plugins.slack.wire import SlackSocket

_log = logging.getLogger(__name__)
BOT_TOKEN, APP_TOKEN = "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"
_UPLOAD = 50 * 1024 * 1024
_LINE = 500
_PAGE, _PAGES = 200, 5
_AT_START, _LATER = 150, 20
"""Maximum number of known channels to catch up on: at the start, and after a lost connection. ``_AT_START`` also limits the list
of the channels that the bot is in. Slack allows an app about 50 reads a minute.
"""
_LIST_PAUSES, _MOST_WAITED = (0.5, 3.0, 0.0), 20.0
"""Pauses in seconds between attempts to list channels (0: no other attempt), and the limit of a pause that Slack asks for. New
messages wait until the channels are listed or the attempts have ended.
"""
_SKEW = 60.0
_POST = "toolcrib_post"


class SlackPlatform(IntakePlatform["AsyncWebClient"]):
    """The Slack platform. README.md describes the settings ``base_url``, ``proxy``, ``per_second``, ``edit_seconds`` and
    ``max_edits``.
    """

    known_settings = ("base_url", "proxy")
    traits = Traits(
        max_chars=2_900, edit_seconds=1.5, max_edits=30, buttons=True, idempotent=True, max_file_bytes=_UPLOAD, per_second=5.0
    )

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        super().__init__(name, host, **more)
        self._socket: SlackSocket | None = None
        self._me = ""
        self._direct: Recent[str, bool] = Recent(5_000)
        self._is_first = True

    def _token(self, name: str, begins: str) -> str:
        token = self._host.secret(name).strip()
        if not token.startswith(begins):
            raise ConfigError(f"{name} does not begin with {begins}: it is another kind of token")
        return token

    # -- connection ----------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Log in, and return the team's and the bot's id. Raises ConfigError, and ToolcribError if Slack can't be reached."""
        try:
            from plugins.slack.wire import LOST, SlackSocket, client_of, code_of, not_sent, passes, wait_of
        except ImportError as error:
            raise ConfigError("the slack platform needs the extra: pip install 'toolcrib[slack]'") from error
        bot, app = self._token(BOT_TOKEN, "xoxb-"), self._token(APP_TOKEN, "xapp-")
        base_url = self._settings.get("base_url", "https://slack.com/api").rstrip("/")
        client = self._client = client_of(bot, base_url, self._settings.get("proxy", ""))
        asked = BOT_TOKEN
        try:
            account = await client.auth_test()
            asked = APP_TOKEN
            await client.apps_connections_open(app_token=app)
        except LOST as error:
            if not passes(error):
                raise ConfigError(f"Slack rejects {asked} ({code_of(error)}): copy it from your app's page") from None
            raise ToolcribError(f"the login to Slack at {base_url} failed: {error}") from error
        self._me = str(account["user_id"])
        self._intake, self._lost, self._not_sent = Intake(self._host, self._missed, LOST, wait_of), LOST, not_sent
        self._socket = SlackSocket(client, app, self._me, self._event, self._action, self._begun)
        self._receive = self._socket.open
        return f"{account['team_id']}:{self._me}"

    def _now(self) -> str:
        return f"{time.time():.6f}"

    async def _close(self) -> None:
        await super()._close()
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    # -- receiving -----------------------------------------------------------------------------------------------

    def _begun(self) -> None:
        """Hold new messages until those from before this connection are read."""
        self._hold()
        self._spawn(self._catch_up())

    async def _catch_up(self) -> None:
        known, is_first = self._taking.channels, self._is_first
        try:
            listed = await self._listed() if is_first else []
        finally:
            if self._intake is not None:
                self._intake.resume(dict.fromkeys([*known[: _AT_START if is_first else _LATER], *listed]))

    async def _listed(self) -> list[str]:
        """Return the ids of the bot's channels, or [] if Slack can't list them now. The next connection then tries again."""
        from plugins.slack.wire import passes, wait_of

        kinds = "public_channel,private_channel,mpim,im"
        for pause in _LIST_PAUSES:
            try:
                found = await self._api.users_conversations(types=kinds, exclude_archived=True, limit=_AT_START)
            except self._lost as error:
                _log.warning("%s: channels can't be listed: %s", self.name, error)
                if not (pause and passes(error)):
                    break
                await asyncio.sleep(min(wait_of(error) or pause, _MOST_WAITED))
                continue
            self._is_first = False
            listed = [one for one in found.get("channels") or () if isinstance(one, Mapping) and is_id(one.get("id"))]
            for one in listed:
                self._direct[str(one["id"])] = one.get("is_im") is True
            return [str(one["id"]) for one in listed]
        return []

    async def _event(self, event: Mapping[str, Any]) -> None:
        channel, kind = event.get("channel"), event.get("channel_type")
        if event.get("type") != "message" or not is_id(channel) or not isinstance(kind, str) or event.get("user") == self._me:
            return
        self._direct[str(channel)] = kind == "im"
        found = inbound_of(event, str(channel), self._me, is_direct=kind == "im")
        if found is not None:
            root = event.get("thread_ts")
            place = f"{channel}/{root}" if is_time(root) and root != event["ts"] else str(channel)
            await self._taking.take(place, found.message_id, found)

    async def _missed(self, place: str, after: str) -> list[tuple[str, Inbound | None]]:
        """Return (id, message) of all messages of a channel or thread after a given id; the message is None if the gateway must
        not get it. If Slack refuses permanently, return what was read until then. Raises one of LOST.
        """
        from plugins.slack.wire import code_of, passes

        channel, _, thread = place.partition("/")
        found: dict[str, Mapping[str, Any]] = {}
        try:
            is_direct = await self._is_direct(channel)
            if thread:
                found |= await self._thread(channel, thread, after)
            else:
                for one in await self._latest(channel, after):
                    found[one["ts"]] = one
                    latest = str(one.get("latest_reply"))
                    if is_time(latest) and _number(latest) > _number(after):
                        found |= await self._thread(channel, one["ts"], after)
        except self._lost as error:
            if passes(error, with_token=True):
                raise
            _log.warning("%s can't be read: %s; messages sent there meanwhile are skipped", Chat(channel), code_of(error))
        told = [ts for ts in sorted(found, key=_number) if _number(ts) > _number(after)]
        return [(ts, self._read(found[ts], channel, is_direct=is_direct)) for ts in told]

    def _read(self, event: Mapping[str, Any], channel: str, *, is_direct: bool) -> Inbound | None:
        return None if event.get("user") == self._me else inbound_of(event, channel, self._me, is_direct=is_direct)

    async def _latest(self, channel: str, after: str) -> list[Mapping[str, Any]]:
        """Return a channel's messages after a given one, and older ones on the same page: these may have new replies."""
        found: list[Mapping[str, Any]] = []
        async for page in self._pages(self._api.conversations_history, channel=channel):
            found += [one for one in page if is_time(one.get("ts"))]
            if not found or _number(found[-1]["ts"]) <= _number(after):
                break
        return found

    async def _thread(self, channel: str, thread: str, after: str) -> dict[str, Mapping[str, Any]]:
        pages = self._pages(self._api.conversations_replies, channel=channel, ts=thread, oldest=after)
        return {one["ts"]: one async for page in pages for one in page if is_time(one.get("ts"))}

    async def _pages(self, ask: Callable[..., Awaitable[Any]], **more: Any) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Yield the messages of each page that the API's method ``ask`` returns, at most _PAGES pages."""
        cursor = ""
        for _ in range(_PAGES):
            answer = await ask(limit=_PAGE, cursor=cursor or None, **more)
            yield answer.get("messages") or []
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break

    async def _is_direct(self, channel: str) -> bool:
        if channel not in self._direct:
            told = (await self._api.conversations_info(channel=channel)).get("channel") or {}
            self._direct[channel] = told.get("is_im") is True
        return self._direct[channel]

    async def _action(self, body: Mapping[str, Any]) -> None:
        self._spawn(self._pressed(body))

    async def _pressed(self, body: Mapping[str, Any]) -> None:
        from plugins.slack.wire import LOST, passes

        try:
            channel, user, message, action = body["channel"]["id"], body["user"], body["message"], body["actions"][0]
            ts, root = message["ts"], message.get("thread_ts")
            (choice, key), press_id = choice_and_key(action.get("value")), f"{ts}:{user['id']}:{action['action_ts']}"
            if not (is_id(channel) and is_id(user["id"]) and is_time(ts) and choice):
                return
            thread = str(root) if is_time(root) and root != ts else ""
            try:
                is_direct = await self._is_direct(channel)
            except self._lost as error:
                if not passes(error):
                    raise
                is_direct = channel.startswith("D")  # don't lose the press: Slack sends it only once
            chat = Chat(channel, thread, is_group=not is_direct)
            name = str(user.get("name") or "")
        except (*LOST, LookupError, TypeError, AttributeError) as error:
            _log.warning("%s: a press could not be read and is skipped: %s", self.name, type(error).__name__)
            return
        line = await press_until_kept(self._host, Press(chat, user["id"], ts, choice, press_id, name, key=key))
        if line:
            words = without_controls(line)[:_LINE].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            with contextlib.suppress(*self._lost):
                await self._api.chat_postEphemeral(channel=channel, user=user["id"], text=words, thread_ts=thread or None)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the content of a file in pieces. Raises ToolcribError."""
        from plugins.slack.wire import downloaded

        try:
            async for piece in downloaded(self._api, str(attachment.ref["id"])):
                yield piece
        except self._lost as error:
            raise ToolcribError(f"it could not be downloaded from Slack: {error}") from error

    # -- sending -------------------------------------------------------------------------------------------------

    async def _show(self, out: Outbound) -> str:
        shown = await super()._show(out) if out.text.strip() else ""
        for number in range(len(out.files)):
            file = await self._share(out, number)
            shown = shown or f"file:{file}"
        return shown

    async def _post(self, out: Outbound) -> str:
        """Show a new message. Slack stores a digest of ``out.key`` with it, and ``_find`` searches for that digest."""
        text, thread = mrkdwn_of(out), out.chat.thread or None
        more: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False, "link_names": False}
        more["metadata"] = {"event_type": _POST, "event_payload": {"key": _digest(out.key)}}
        blocks = blocks_of(text, out) or None
        answer = await self._api.chat_postMessage(channel=out.chat.id, text=text[:CHARS], blocks=blocks, thread_ts=thread, **more)
        return str(answer["ts"])

    async def _edit(self, out: Outbound, message_id: str) -> str:
        if not is_time(message_id):
            raise NotSent("this message has only files, so it can't be edited", for_good=True)
        text = mrkdwn_of(out)
        blocks = blocks_of(text, out)
        await self._api.chat_update(channel=out.chat.id, ts=message_id, text=text[:CHARS], blocks=blocks, link_names=False)
        return message_id

    async def _note(self, out: Outbound) -> str:
        return f"{time.time() - _SKEW:.6f}"

    async def _find(self, out: Outbound, note: str) -> str:
        """Return the id of the message that was shown with this key after the time ``note``, or "" for none."""
        more: dict[str, Any] = {"channel": out.chat.id, "oldest": note, "include_all_metadata": True}
        if out.chat.thread:
            pages = self._pages(self._api.conversations_replies, ts=out.chat.thread, **more)
        else:
            pages = self._pages(self._api.conversations_history, **more)
        digest = _digest(out.key)
        async for page in pages:
            for one in page:
                meta = one.get("metadata") or {}
                if one.get("user") == self._me and (meta.get("event_payload") or {}).get("key") == digest:
                    return str(one["ts"])
        return ""

    async def _share(self, out: Outbound, number: int) -> str:
        """Show a file once, and return its id. The id is stored before the file is shown, so that a retry can ask Slack about the
        file.
        """
        from plugins.slack.wire import uploaded

        file, key = out.files[number], f"{out.key}\nfile{number}"
        if known := self._sent.known(key):
            return known
        data, file_id = await asyncio.to_thread(file.path.read_bytes), str(self._sent.note_of(key) or "")
        is_shown = await self._is_shown(file_id) if file_id else None
        if is_shown is None:
            self._sent.forget(key)
            file_id = await uploaded(self._api, file.name, data)
            await self._sent.begin(key, file_id)
        if not is_shown:
            told: list[dict[str, str | None]] = [{"id": file_id, "title": file.name}]
            thread = out.chat.thread or None
            await self._api.files_completeUploadExternal(files=told, channel_id=out.chat.id, thread_ts=thread)
        await self._sent.done(key, file_id)
        return file_id

    async def _is_shown(self, file_id: str) -> bool | None:
        """Return whether a file was shown, or None if Slack does not know it, such as after an incomplete upload."""
        from plugins.slack.wire import code_of

        try:
            return bool(((await self._api.files_info(file=file_id)).get("file") or {}).get("shares"))
        except self._lost as error:
            if code_of(error) != "file_not_found":
                raise
            return None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _number(ts: str) -> tuple[int, ...]:
    return tuple(int(part) for part in ts.split("."))
