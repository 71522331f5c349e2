"""Connection to the server: incoming stanzas in order, requests, and detection of a lost connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from plugins.xmpp.incoming import CLIENT, MAM, MUC_USER, real_jid, statuses
from toolcrib import ConfigError, ToolcribError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SECONDS = 20.0
_ALIVE_SECONDS = 30.0
_REASON_SECONDS = 0.2
_SENT_AWAY = {"301", "307", "321", "322"}
_PLUGINS = ("xep_0030", "xep_0045", "xep_0059", "xep_0198", "xep_0199", "xep_0313", "xep_0363")
_NO_TLS = "the server offers no TLS: nothing was sent"
_REFUSED = "the server rejects XMPP_PASSWORD: correct it in secrets.env, or correct platforms.xmpp.settings.user"
T = TypeVar("T")


class XmppLost(ToolcribError):
    """The connection was lost, or the server did not answer in time."""


class XmppSilent(ToolcribError):
    """A room, or a part of a server, did not answer in time; the connection still works."""


class XmppLink:
    """A connection, made by ``open``. ``took`` is called with each incoming message (and True) and subscription request (and
    False), in order. ``rooms`` has the occupants of joined rooms: {room: {nick: real bare address, or "" if the room does not
    report it}}.
    """

    def __init__(self, client: Any, took: Callable[[Element, bool], None]) -> None:
        self.client = client
        self.account = str(client.boundjid.bare)
        self.rooms: dict[str, dict[str, str]] = {}
        self.nicks: dict[str, str] = {}
        """Our nick in each room that we are in."""
        self.sent_away: set[str] = set()
        """Rooms that removed us or were closed."""
        self._took = took
        self._is_up = False
        self._refusal = ""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._began: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, given: dict[str, str], password: str, took: Callable[[Element, bool], None]) -> XmppLink:
        """Log in, only over verified TLS. Raises ConfigError, XmppLost."""
        from slixmpp import ClientXMPP
        from slixmpp.xmlstream.handler import Callback
        from slixmpp.xmlstream.matcher import MatchXPath

        logging.getLogger("slixmpp").setLevel(logging.CRITICAL + 1)  # it would log messages
        client: Any = ClientXMPP(given["user"], password, plugin_config={"xep_0198": {"allow_resume": False}})
        client.ssl_context = ssl.create_default_context(cafile=given.get("ca_file") or None)
        client.enable_plaintext, client.enable_direct_tls = False, given.get("direct_tls") == "true" or "server" not in given
        client.enable_starttls = given.get("direct_tls") != "true"
        client.auto_authorize, client.auto_subscribe = None, False
        for name in _PLUGINS:
            client.register_plugin(name)
        link = cls(client, took)
        client.register_handler(Callback("messages of all", MatchXPath(f"{CLIENT}message"), lambda got: link._message(got.xml)))
        client.register_handler(Callback("presence of all", MatchXPath(f"{CLIENT}presence"), lambda got: link._presence(got.xml)))
        client.add_event_handler("session_start", lambda _: link._begun())
        client.add_event_handler("failed_auth", lambda failure: setattr(link, "_refusal", str(failure["condition"])))
        client.add_event_handler("failed_all_auth", lambda _: link._not_let_in())
        client.add_event_handler("ssl_invalid_chain", lambda error: link._fail(_untrusted(error)))
        client.add_event_handler("connection_failed", link._not_connected)
        client.add_event_handler("disconnected", lambda _: link._disconnected())
        host, _, port = given.get("server", "").rpartition(":")
        client.connect(*((host, int(port)) if host else ()))
        try:
            async with asyncio.timeout(_SECONDS):
                await link._began
        except TimeoutError as error:
            await link.close()
            raise XmppLost("the server did not accept the login in time") from error
        except BaseException:
            await link.close()
            raise
        return link

    def _begun(self) -> None:
        if not self._has_tls():
            self._fail(ConfigError(_NO_TLS))
        elif not self._began.done():
            self._is_up = True
            self._began.set_result(None)

    def _has_tls(self) -> bool:
        return self.client.transport is not None and self.client.transport.get_extra_info("ssl_object") is not None

    def _not_let_in(self) -> None:
        if not self._has_tls():
            self._fail(ConfigError(_NO_TLS))
        elif self._refusal == "temporary-auth-failure":
            self._fail(XmppLost("the server can't check passwords now"))
        else:
            self._fail(ConfigError(_REFUSED))

    def _not_connected(self, error: Any) -> None:
        is_untrusted = isinstance(error, ssl.SSLCertVerificationError)
        self._fail(_untrusted(error) if is_untrusted else XmppLost(f"the server can't be reached: {error}"))

    def _fail(self, error: Exception) -> None:
        if not self._began.done():
            self._began.set_exception(error)
        self._end(str(error))

    def _disconnected(self) -> None:
        """Record the end of the connection; before the login is complete, wait briefly, because its reason may arrive later."""
        wait = 0.0 if self._began.done() else _REASON_SECONDS
        asyncio.get_running_loop().call_later(wait, self._end, "the connection was lost")

    def _end(self, why: str) -> None:
        self._is_up = False
        self.client.cancel_connection_attempt()  # otherwise the library would reconnect by itself, and send its queues
        if not self._began.done():
            self._began.set_exception(XmppLost(why))
        if not self.lost.done():
            self.lost.set_result(why)

    @property
    def is_up(self) -> bool:
        """True from the login until the connection is lost."""
        return self._is_up

    async def close(self) -> None:
        """End the connection."""
        was_up, self._is_up = self._is_up, False
        if was_up:
            with contextlib.suppress(TimeoutError, Exception):
                await asyncio.wait_for(self.client.disconnect(wait=1.0), 2.0)
        self._end("it was closed")
        self.client.abort()
        filters = self.client._run_out_filters  # the library leaves this task running
        if filters is not None:
            filters.cancel()
            await asyncio.gather(filters, return_exceptions=True)
        await asyncio.sleep(0)

    async def watch(self) -> None:
        """Ping the server at intervals: otherwise a cut connection would not be noticed. Runs until it raises XmppLost."""
        while True:
            await asyncio.sleep(_ALIVE_SECONDS)
            await self.ping()

    # -- events --------------------------------------------------------------------------------------------------

    def _message(self, stanza: Element) -> None:
        if self._is_up and stanza.find(f"{MAM}result") is None:
            self._took(stanza, True)

    def _presence(self, stanza: Element) -> None:
        room, _, nick = stanza.get("from", "").partition("/")
        kind = stanza.get("type", "")
        if room not in self.rooms:
            if kind == "subscribe" and self._is_up:
                self._took(stanza, False)
            return
        if "110" in statuses(stanza):
            self.nicks[room] = nick
            if kind == "unavailable" and "303" not in statuses(stanza):  # removed, or the room was closed
                if _SENT_AWAY & statuses(stanza) or stanza.find(f"{MUC_USER}x/{MUC_USER}destroy") is not None:
                    self.sent_away.add(room)
                self.out_of(room)
                return
        if kind == "unavailable":
            self.rooms[room].pop(nick, None)
        elif not kind:
            self.rooms[room][nick] = real_jid(stanza)

    # -- requests ------------------------------------------------------------------------------------------------

    async def done(self, work: Coroutine[Any, Any, T] | asyncio.Future[T], *, of: str = "") -> T:
        """Return the result of a request. ``of``: the address asked, if that is not our own server. Raises XmppLost if the
        connection ends first or our server does not answer in time, XmppSilent if another address does not,
        and IqError if it refuses the request.
        """
        from slixmpp.exceptions import IqTimeout

        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(_SECONDS):
                waited: list[asyncio.Future[Any]] = [task, self.lost]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except (TimeoutError, IqTimeout) as error:
            if of and self._is_up:
                raise XmppSilent("the recipient did not answer in time") from error
            self.client.abort()
            raise XmppLost("the server did not answer in time") from error
        finally:
            task.cancel()
        raise XmppLost(self.lost.result())

    async def ping(self) -> None:
        """Wait until the server has processed all earlier stanzas. Raises XmppLost."""
        from slixmpp.exceptions import IqError

        with contextlib.suppress(IqError):  # an error is an answer too
            await self.done(self.client.plugin["xep_0199"].send_ping(self.client.boundjid.domain, timeout=_SECONDS))

    async def is_in(self, room: str) -> bool:
        """Return whether we are still in a room (XEP-0410): a restarted room does not report that we are out. Raises XmppLost,
        XmppSilent.
        """
        from slixmpp.exceptions import IqError

        try:
            ping = self.client.plugin["xep_0199"].send_ping(f"{room}/{self.nicks[room]}", timeout=_SECONDS)
            await self.done(ping, of=room)
        except IqError as error:
            return error.condition != "not-acceptable"
        return True

    def out_of(self, room: str) -> None:
        """Record that we are no longer in a room."""
        self.rooms.pop(room, None)
        self.nicks.pop(room, None)

    async def knows(self, jid: str, feature: str) -> bool:
        """Return whether an address reports a feature. Raises XmppLost, XmppSilent."""
        from slixmpp.exceptions import IqError

        try:
            info = await self.done(self.client.plugin["xep_0030"].get_info(jid=jid, timeout=_SECONDS), of=self._other(jid))
        except IqError:
            return False
        return feature in info["disco_info"]["features"]

    async def page(self, archive: str, with_jid: str = "", **rsm: Any) -> tuple[list[tuple[str, Element]], bool]:
        """Return the pairs (id, message) of a page of an archive, the oldest first, and whether it is the last page. Raises
        XmppLost, XmppSilent, IqError.
        """
        asked = {"jid": archive} if archive != self.account else {}
        more = {"with_jid": with_jid} if with_jid else {}
        answer = await self.done(
            self.client.plugin["xep_0313"].retrieve(rsm={"max": 50, **rsm}, timeout=_SECONDS, **asked, **more),
            of=self._other(archive),
        )
        found = []
        for one in answer["mam"]["results"]:
            result = one.xml.find(f"{MAM}result")
            message = result.find(f"{{urn:xmpp:forward:0}}forwarded/{CLIENT}message")
            if one.xml.get("from", self.account) == archive and message is not None:
                found.append((result.get("id", ""), message))
        fin = answer.xml.find(f"{MAM}fin")
        return found, fin is None or fin.get("complete") in ("true", "1")

    async def join(self, room: str, nick: str) -> None:
        """Join a room, without its history, under the nick or a free variant of it. Raises XmppLost, XmppSilent,
        PresenceError.
        """
        from slixmpp import JID
        from slixmpp.exceptions import PresenceError

        self.rooms[room] = {}
        try:
            for name in (nick, f"{nick}_", f"{nick}__"):
                joining = self.client.plugin["xep_0045"].join_muc_wait(JID(room), name, maxstanzas=0, timeout=_SECONDS)
                try:
                    await self.done(joining, of=room)
                except PresenceError as error:
                    if error.condition != "conflict":
                        raise
                else:
                    self.sent_away.discard(room)
                    return
        finally:
            if room not in self.nicks:
                self.rooms.pop(room, None)

    def _other(self, jid: str) -> str:
        return "" if jid in (self.account, self.client.boundjid.domain) else jid


def _untrusted(error: object) -> ConfigError:
    return ConfigError(f"the server's certificate is not trusted ({error}): name a file with its issuer's certificate in ca_file")
