"""The Slack platform: one app in one workspace, in socket mode."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from plugins.slack.incoming import inbound_of, is_id, is_time
from plugins.slack.writing import CHARS, blocks_of, choice_of, mrkdwn_of
from toolcrib import ConfigError, StoreFailed, ToolcribError
from toolcrib.chat import Attachment, Chat, Host, Inbound, NotSent, Outbound, Press, Traits, settings_of, without_controls
from toolcrib.platforms import Intake, Recent, SentKeys, number_of, press_until_kept

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

    from plugins.slack.wire import SlackSocket

_log = logging.getLogger(__name__)
BOT_TOKEN, APP_TOKEN = "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"
_SETTINGS = ("base_url", "proxy", "per_second", "edit_seconds", "max_edits")
_UPLOAD = 50 * 1024 * 1024
_LINE = 500
_START_SECONDS = 10.0
_PAGE, _PAGES = 200, 5
_AT_START, _LATER = 150, 20
"""Channels that are read again at the start, and after a connection was lost: Slack lets an app read about 50 a minute."""
_LIST_PAUSES, _MOST_WAITED = (0.5, 3.0, 0.0), 20.0
"""Seconds after which channels are listed again, for which everything waits."""
_SKEW = 60.0
_POST = "toolcrib_post"


class SlackPlatform:
    """``settings``: ``base_url``, ``proxy``, ``per_second``, ``edit_seconds``, ``max_edits``; README.md has them."""

    def __init__(self, name: str, host: Host, **more: Any) -> None:
        self.name = name
        self._host = host
        self._settings = settings_of(host, _SETTINGS)
        self.traits = Traits(
            max_chars=2_900,
            edit_seconds=number_of(host, "edit_seconds", 1.5, may_be_zero=True),
            max_edits=int(number_of(host, "max_edits", 30, may_be_zero=True)),
            buttons=True,
            idempotent=True,
            max_file_bytes=_UPLOAD,
            per_second=number_of(host, "per_second", 5.0),
        )
        self._client: AsyncWebClient | None = None
        self._socket: SlackSocket | None = None
        self._intake: Intake | None = None
        self._sent = SentKeys(host)
        self._me = ""
        self._direct: Recent[str, bool] = Recent(5_000)
        self._is_told = asyncio.Event()
        """Set once Slack tells us of what is written."""
        self._is_first = True
        self._tasks: set[asyncio.Task[None]] = set()

    def _token(self, name: str, begins: str) -> str:
        token = self._host.secret(name).strip()
        if not token.startswith(begins):
            raise ConfigError(f"{name} does not begin with {begins}: it is another token")
        return token

    # -- its life ------------------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Ask Slack who we are. Raises ConfigError, ToolcribError where Slack can't be reached."""
        try:
            from plugins.slack.wire import LOST, SlackSocket, client_of, code_of, passes
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
                raise ConfigError(f"Slack does not take {asked} ({code_of(error)}): the page of your app has it") from None
            raise ToolcribError(f"{base_url} can't be used: {error}") from error
        self._me = str(account["user_id"])
        self._intake = Intake(self._host, self._missed, LOST, _wait)
        self._socket = SlackSocket(client, app, self._me, self._event, self._action, self._begun)
        return f"{account['team_id']}:{self._me}"

    async def start(self) -> None:
        """Begin to receive: what is written once this has returned arrives, unless Slack can't be reached now."""
        await self._sent.load()
        await self._taking.load(f"{time.time():.6f}")
        self._taking.hold()
        if self._socket is not None:
            self._spawn(self._socket.open())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_told.wait(), _START_SECONDS)

    async def stop(self) -> None:
        """Receive nothing more; what was not taken is read at the next start."""
        socket, self._socket = self._socket, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        intake, self._intake = self._intake, None
        if intake is not None:
            await intake.close()
            await self._sent.close()
        if socket is not None:
            await socket.close()
        self._client = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _api(self) -> AsyncWebClient:
        if self._client is None:
            raise NotSent("not connected")
        return self._client

    @property
    def _taking(self) -> Intake:
        if self._intake is None:
            raise NotSent("not connected")
        return self._intake

    # -- what arrives --------------------------------------------------------------------------------------------

    def _begun(self) -> None:
        """Have what was written before this connection read before what it tells."""
        self._taking.hold()
        self._is_told.set()
        self._spawn(self._catch_up())

    async def _catch_up(self) -> None:
        known, is_first = self._taking.channels, self._is_first
        try:
            listed = await self._listed() if is_first else []
        finally:
            if self._intake is not None:
                self._intake.resume(dict.fromkeys([*known[: _AT_START if is_first else _LATER], *listed]))

    async def _listed(self) -> list[str]:
        """Return the channels that we are in. Those that can't be listed now are read when the next connection begins."""
        from plugins.slack.wire import LOST, passes, wait_of

        kinds = "public_channel,private_channel,mpim,im"
        for pause in _LIST_PAUSES:
            try:
                found = await self._api.users_conversations(types=kinds, exclude_archived=True, limit=_AT_START)
            except LOST as error:
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
        """Return what was written in a channel, or thread, after a message. Raises one of LOST."""
        from plugins.slack.wire import LOST, code_of, passes

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
        except LOST as error:
            if passes(error, with_token=True):
                raise
            _log.warning("%s can't be read: %s; what was written there meanwhile is left out", Chat(channel), code_of(error))
        told = [ts for ts in sorted(found, key=_number) if _number(ts) > _number(after)]
        return [(ts, self._read(found[ts], channel, is_direct=is_direct)) for ts in told]

    def _read(self, event: Mapping[str, Any], channel: str, *, is_direct: bool) -> Inbound | None:
        return None if event.get("user") == self._me else inbound_of(event, channel, self._me, is_direct=is_direct)

    async def _latest(self, channel: str, after: str) -> list[Mapping[str, Any]]:
        """Return a channel's messages back to one, a page of them at least: answers may stand below an older one."""
        found: list[Mapping[str, Any]] = []
        cursor = ""
        for _ in range(_PAGES):
            answer = await self._api.conversations_history(channel=channel, limit=_PAGE, cursor=cursor or None)
            found += [one for one in answer.get("messages") or () if is_time(one.get("ts"))]
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor or not found or _number(found[-1]["ts"]) <= _number(after):
                break
        return found

    async def _thread(self, channel: str, thread: str, after: str) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        cursor = ""
        for _ in range(_PAGES):
            more: dict[str, Any] = {"oldest": after, "limit": _PAGE, "cursor": cursor or None}
            answer = await self._api.conversations_replies(channel=channel, ts=thread, **more)
            found |= {one["ts"]: one for one in answer.get("messages") or () if is_time(one.get("ts"))}
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        return found

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
            (choice, key), press_id = choice_of(action), f"{ts}:{user['id']}:{action['action_ts']}"
            if not (is_id(channel) and is_id(user["id"]) and is_time(ts) and choice):
                return
            thread = str(root) if is_time(root) and root != ts else ""
            try:
                is_direct = await self._is_direct(channel)
            except LOST as error:
                if not passes(error):
                    raise
                is_direct = channel.startswith("D")  # Slack tells a press once
            chat = Chat(channel, thread, is_group=not is_direct)
            name = str(user.get("name") or "")
        except (*LOST, LookupError, TypeError, AttributeError) as error:
            _log.warning("%s: a press could not be read, and is passed over: %s", self.name, type(error).__name__)
            return
        line = await press_until_kept(self._host, Press(chat, user["id"], ts, choice, press_id, name, key=key))
        if line:
            words = without_controls(line)[:_LINE].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            with contextlib.suppress(*LOST):
                await self._api.chat_postEphemeral(channel=channel, user=user["id"], text=words, thread_ts=thread or None)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield a file. Raises ToolcribError."""
        from plugins.slack.wire import LOST, downloaded

        try:
            async for piece in downloaded(self._api, str(attachment.ref["id"])):
                yield piece
        except LOST as error:
            raise ToolcribError(f"Slack does not give it: {error}") from error

    # -- what is shown -------------------------------------------------------------------------------------------

    async def send(self, out: Outbound) -> str:
        """Show a message or change one. Raises NotSent."""
        from plugins.slack.wire import LOST, not_sent

        if len(out.text) > self.traits.max_chars:
            raise NotSent(f"{len(out.text)} characters are more than {self.traits.max_chars}", for_good=True)
        if not (out.text.strip() or out.files) or (out.edits and not is_time(out.edits)):
            raise NotSent("there is nothing to show", for_good=True)
        try:
            if out.edits:
                return await self._edit(out, out.edits)
            shown = await self._show(out) if out.text.strip() else ""
            for number in range(len(out.files)):
                file = await self._share(out, number)
                shown = shown or f"file:{file}"
            return shown
        except StoreFailed as error:
            raise NotSent(f"it can't be kept that it is sent: {error}") from error
        except (FileNotFoundError, PermissionError) as error:
            raise NotSent(str(error), for_good=True) from error
        except LOST as error:
            found = not_sent(error)
            if found.for_good:
                self._sent.forget(out.key)
            raise found from error

    async def _show(self, out: Outbound) -> str:
        """Show a message once. Slack keeps our key with it: where nobody knows whether it was shown it is looked for."""
        known = self._sent.known(out.key)
        if not known:
            since = await self._sent.begin(out.key, f"{time.time() - _SKEW:.6f}")
            known = await self._lost(out, str(since)) if out.is_again else ""
        if known:
            await self._sent.done(out.key, known)
            return await self._edit(out, known) if out.is_again else known
        text, thread = mrkdwn_of(out), out.chat.thread or None
        more: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False, "link_names": False}
        more["metadata"] = {"event_type": _POST, "event_payload": {"key": _digest(out.key)}}
        blocks = blocks_of(text, out) or None
        answer = await self._api.chat_postMessage(channel=out.chat.id, text=text[:CHARS], blocks=blocks, thread_ts=thread, **more)
        await self._sent.done(out.key, str(answer["ts"]))
        return str(answer["ts"])

    async def _edit(self, out: Outbound, ts: str) -> str:
        text = mrkdwn_of(out)
        await self._api.chat_update(channel=out.chat.id, ts=ts, text=text[:CHARS], blocks=blocks_of(text, out), link_names=False)
        return ts

    async def _lost(self, out: Outbound, since: str) -> str:
        """Return the message that was shown with this key, "" for none."""
        more: dict[str, Any] = {"channel": out.chat.id, "oldest": since, "limit": _PAGE, "include_all_metadata": True}
        cursor, digest = "", _digest(out.key)
        for _ in range(_PAGES):
            if out.chat.thread:
                answer = await self._api.conversations_replies(ts=out.chat.thread, cursor=cursor or None, **more)
            else:
                answer = await self._api.conversations_history(cursor=cursor or None, **more)
            for one in answer.get("messages") or ():
                meta = one.get("metadata") or {}
                if one.get("user") == self._me and (meta.get("event_payload") or {}).get("key") == digest:
                    return str(one["ts"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        return ""

    async def _share(self, out: Outbound, number: int) -> str:
        """Show a file once, and return its id. It is uploaded first: by its id it is known whether it was shown."""
        from plugins.slack.wire import uploaded

        file, key = out.files[number], f"{out.key}\nfile{number}"
        if known := self._sent.known(key):
            return known
        data, file_id = await asyncio.to_thread(file.path.read_bytes), str(self._sent.note(key) or "")
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
        """Return whether a file was shown, None where Slack knows it no more, as an upload that was not completed."""
        from plugins.slack.wire import LOST, code_of

        try:
            return bool(((await self._api.files_info(file=file_id)).get("file") or {}).get("shares"))
        except LOST as error:
            if code_of(error) != "file_not_found":
                raise
            return None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _number(ts: str) -> tuple[int, ...]:
    return tuple(int(part) for part in ts.split("."))


def _wait(error: Exception) -> float | None:
    from plugins.slack.wire import wait_of

    return wait_of(error)
