"""Encrypted rooms: the keys of our device and of other users' devices, managed by matrix-nio's Olm machine."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Host
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.platforms import Recent

from .server import MatrixRefused, MatrixServer

_log = logging.getLogger(__name__)
ENCRYPTED = "m.room.encrypted"
MEGOLM = "m.megolm.v1.aes-sha2"
SECRET = "MATRIX_KEY"  # noqa: S105 - the name of a variable
_LIBRARIES = ("vodozemac", "peewee", "cachetools", "atomicwrites")
_ONE_TIME_KEYS = "signed_curve25519"
_FEW = 25
"""Number of one-time keys on the server below which more are uploaded."""
_REMEMBERED = 20_000
_SESSIONS = 10_000
"""Number of the newest message keys that are kept at a start: loading each takes 0.4 ms and 4 KiB, and a busy bot gets
hundreds a day.
"""
_FORGET = "DELETE FROM megolminboundsessions WHERE rowid <= (SELECT max(rowid) FROM megolminboundsessions) - ?"
_LOST = (MatrixRefused, OSError, TimeoutError)


class MatrixNoKeyError(ToolcribError):
    """A message can't be decrypted: its key has not arrived."""


class MatrixLack(NamedTuple):
    """A reason why encrypted rooms can't be read, and how to fix it."""

    reason: str
    fix: str


_NOT_INSTALLED = MatrixLack("support for encrypted rooms is not installed", "pip install 'toolcrib[matrix-e2e]'")
_NO_DEVICE = MatrixLack("the token does not belong to a device", "create one by a login; see the platform's README")
_NOT_OURS = MatrixLack(
    "the account's device has keys that are not in the state folder", "create a new token by a login, only for toolcrib"
)


class MatrixKeys:
    """Keys of the account's device, made by ``open_keys``. Received keys are on disk before the server learns that they arrived;
    keys to send are on disk before they are sent.
    """

    def __init__(self, server: MatrixServer, machine: Any, blocked: Collection[str]) -> None:
        self._server = server
        self._machine = machine
        self._blocked = frozenset(blocked)
        self._key = machine.account.identity_keys["curve25519"]
        self._locks: dict[str, asyncio.Lock] = {}
        self._shared_with: dict[str, frozenset[tuple[str, str]]] = {}
        self._looked_up: set[str] = set()
        self._taken: Recent[str, bool] = Recent(_REMEMBERED)
        self._places: Recent[tuple[str, int], str] = Recent(_REMEMBERED)
        """Message ids by session and index: another message with the same pair is a replay."""
        self.came: set[str] = set()
        """Sessions whose keys arrived. The platform then reads their messages, and clears the set."""
        self.rooms: set[str] = machine.store.load_encrypted_rooms()
        """Rooms that are encrypted. They stay encrypted, whatever the server reports later."""

    def close(self) -> None:
        """Close the database."""
        self._machine.store.database.close()

    def note_room(self, room: str) -> None:
        """Record that a room is encrypted."""
        if room not in self.rooms:
            self.rooms.add(room)
            self._machine.store.save_encrypted_rooms({room})

    # -- results of a sync ---------------------------------------------------------------------------------------

    async def take(self, events: Iterable[Any], changed: Iterable[str], one_time_keys: int) -> None:
        """Process the keys in a sync: events for this device, users whose devices changed, and the number of one-time
        keys left.
        """
        with self._machine.store.database.atomic():
            for event in events:
                self._take(event)
        self._looked_up.difference_update(changed)
        self._machine.uploaded_key_count = one_time_keys
        try:
            if one_time_keys < _FEW:
                await self.upload()
            await self._mend()
        except _LOST as error:
            _log.warning("keys could not be sent, retrying with the next sync: %s", error)

    def _take(self, event: Any) -> None:
        from nio.events import EncryptedToDeviceEvent, RoomKeyEvent, RoomKeyRequest

        try:
            if isinstance(event, RoomKeyRequest):
                self._give_up_session(event)
            elif isinstance(event, EncryptedToDeviceEvent):
                known = json.dumps(event.source.get("content"), sort_keys=True)
                if known in self._taken:  # the sync was requested again, and a key can be read only once
                    return
                with self._machine.store.database.atomic():
                    found = self._machine.handle_to_device_event(event)
                if isinstance(found, RoomKeyEvent):
                    self.came.add(found.session_id)
                self._taken[known] = True
        except Exception as error:  # noqa: BLE001 - any user may send anything to a device
            _log.warning("a message to this device could not be read: %s", type(error).__name__)

    def _give_up_session(self, request: Any) -> None:
        """Drop a room's session if a device that received its key asks for the key again, so that the device can read
        the messages of the next session.
        """
        session = self._machine.outbound_group_sessions.get(request.room_id)
        who = (request.sender, request.requesting_device_id)
        if session is not None and session.id == request.session_id and who in session.users_shared_with:
            del self._machine.outbound_group_sessions[request.room_id]

    async def upload(self) -> None:
        """Upload our keys to the server, after storing them, so that the server has no keys whose secrets are lost if the
        process is killed. Raises as MatrixServer.call does.
        """
        from nio.responses import KeysUploadResponse

        machine = self._machine
        if machine.account.shared and machine.uploaded_key_count is None:
            return
        body = machine.share_keys()
        machine.save_account()
        counts = (await self._server.call("POST", "keys", "upload", body=body)).get("one_time_key_counts", {})
        machine.handle_response(KeysUploadResponse(0, int(counts.get(_ONE_TIME_KEYS, 0))))

    async def _mend(self) -> None:
        """Start new sessions with devices whose messages to ours could not be read, and send pending messages to devices."""
        from nio.responses import ToDeviceResponse

        machine = self._machine
        if machine.wedged_devices:
            await self._claim(machine.get_users_for_key_claiming())
            machine.wedged_devices.clear()  # a device that had no key is asked again after its next unreadable message
        for message in list(machine.outgoing_to_device_messages):
            await self._send(message.type, message.as_dict()["messages"])
            machine.handle_response(ToDeviceResponse(message))

    async def _send(self, kind: str, messages: Mapping[str, Any]) -> None:
        await self._server.call("PUT", "sendToDevice", kind, uuid4().hex, body={"messages": messages})

    # -- other devices -------------------------------------------------------------------------------------------

    async def _look_up(self, users: Collection[str]) -> None:
        """Fetch the devices of users that are unknown or have changed. Raises as MatrixServer.call does."""
        from nio.responses import KeysQueryResponse

        wanted = [user for user in users if user not in self._looked_up]
        if not wanted:
            return
        self._looked_up.update(wanted)  # if a user's devices change in the meantime, they are fetched again
        try:
            found = await self._server.call("POST", "keys", "query", body={"device_keys": {user: [] for user in wanted}})
        except BaseException:
            self._looked_up.difference_update(wanted)
            raise
        for user in wanted:
            devices = found.get("device_keys", {}).get(user)
            if not isinstance(devices, Mapping):
                continue
            sound = {name: one for name, one in devices.items() if _is_sound(user, name, one)}
            self._machine.handle_response(KeysQueryResponse({user: sound}, {}))
            for device in self._machine.device_store.active_user_devices(user):
                if (device.id in self._blocked) != self._machine.is_device_blacklisted(device):
                    change = self._machine.blacklist_device if device.id in self._blocked else self._machine.unblacklist_device
                    change(device)

    async def _claim(self, devices: Mapping[str, Iterable[str]]) -> None:
        """Start sessions with devices; skip those without keys left. Raises as MatrixServer.call does."""
        from nio.responses import KeysClaimResponse

        body = {user: dict.fromkeys(names, _ONE_TIME_KEYS) for user, names in devices.items()}
        found = await self._server.call("POST", "keys", "claim", body={"one_time_keys": body, "timeout": 10_000})
        for user, names in found.get("one_time_keys", {}).items():
            for name, keys in names.items():
                try:
                    self._machine.handle_response(KeysClaimResponse({user: {name: keys}}, {}))
                except Exception as error:  # noqa: BLE001 - one device's invalid key must not prevent sessions with others
                    _log.warning("another user's device sent an invalid key: %s", type(error).__name__)

    # -- messages ------------------------------------------------------------------------------------------------

    async def encrypt(
        self, room: str, kind: str, content: Mapping[str, Any], people: Collection[str], rules: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the content of an event that only devices of these people can read. Raises as MatrixServer.call does."""
        async with self._locks.setdefault(room, asyncio.Lock()):
            session = await self._session_for(room, people, rules)
            plain = json.dumps({"type": kind, "content": content, "room_id": room}, ensure_ascii=False)
            found = {"algorithm": MEGOLM, "sender_key": self._key, "ciphertext": session.encrypt(plain)}
        related = {"m.relates_to": content["m.relates_to"]} if "m.relates_to" in content else {}  # not encrypted, for the server
        return {**found, "session_id": session.id, "device_id": self._machine.device_id, **related}

    async def _session_for(self, room: str, people: Collection[str], rules: Mapping[str, Any]) -> Any:
        """Return the session of a room's next message. It is a new one if devices were added or removed, so that new devices
        can't read earlier messages.
        """
        await self._look_up(people)
        machine = self._machine
        wanted = frozenset(
            (user, device.id)
            for user in people
            for device in machine.device_store.active_user_devices(user)
            if device.curve25519 != self._key and device.id not in self._blocked
        )
        session = machine.outbound_group_sessions.get(room)
        if session is not None and session.shared and not session.expired and self._shared_with.get(room) == wanted:
            return session
        if session is not None and (session.shared or self._shared_with.get(room) != wanted):
            del machine.outbound_group_sessions[room]
        self._shared_with[room] = wanted
        if missing := machine.get_missing_sessions(list(people)):
            await self._claim(missing)
        for devices, body in machine.share_group_session_parallel(room, list(people), ignore_unverified_devices=True):
            await self._send(ENCRYPTED, body["messages"])
            machine.outbound_group_sessions[room].users_shared_with.update(devices)
        session = machine.outbound_group_sessions[room]
        session.shared = True  # even if no other device is in the room
        most = rules.get("rotation_period_msgs")
        if isinstance(most, int) and 0 < most < session.max_messages:
            session.max_messages = most
        return session

    async def decrypt(self, room: str, event: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the decrypted event, or None if its content can't be read, is for another room, or was in an earlier event.
        Raises MatrixNoKeyError, and the errors of MatrixServer.call.
        """
        content, sender = event["content"], event["sender"]
        name, said = content.get("session_id"), content.get("ciphertext")
        if content.get("algorithm") != MEGOLM or not isinstance(name, str) or not isinstance(said, str):
            return None
        session = await self._session_of(room, sender, name)
        try:
            plain, place = session.decrypt(said)
            found = json.loads(plain)
        except Exception as error:  # noqa: BLE001 - the encrypted content may be anything
            if "unknown message index" in str(error):
                raise MatrixNoKeyError("the key is for later messages") from None
            return None
        if not isinstance(found, Mapping) or found.get("room_id") != room or not isinstance(found.get("content"), Mapping):
            return None
        if self._places.get((name, place), event["event_id"]) != event["event_id"]:
            _log.warning("a message was skipped: it replays the encryption of an earlier one")
            return None
        self._places[name, place] = event["event_id"]
        related = {"m.relates_to": content["m.relates_to"]} if "m.relates_to" in content else {}
        return {**event, "type": found.get("type"), "content": {**related, **found["content"]}}

    async def _session_of(self, room: str, sender: str, name: str) -> Any:
        """Return the session of that name whose key came from a device of the sender. Raises MatrixNoKeyError, and the errors of
        MatrixServer.call.
        """
        held = {key: one[name] for key, one in self._machine.inbound_group_store[room].items() if name in one}
        if sender == self._server.account and self._key in held:
            return held[self._key]
        for is_looked_up in (False, True):
            if held and is_looked_up:  # the key came from none of the sender's known devices: fetch them
                self._looked_up.discard(sender)
                await self._look_up([sender])
            for key, session in held.items():
                device = self._machine.device_store.device_from_sender_key(sender, key)
                if device is not None and device.id not in self._blocked:
                    return session
        raise MatrixNoKeyError("the sender's key has not arrived")

    async def ask(self, room: str, sender: str, content: Mapping[str, Any]) -> None:
        """Ask the sender's devices for the key of an event that can't be decrypted. Raises as MatrixServer.call does."""
        from nio.crypto import OutgoingKeyRequest

        name = content["session_id"]
        wanted = {"algorithm": MEGOLM, "room_id": room, "session_id": name, "sender_key": content.get("sender_key", "")}
        body = {"action": "request", "body": wanted, "request_id": name, "requesting_device_id": self._machine.device_id}
        request = self._machine.outgoing_key_requests[name] = OutgoingKeyRequest(name, name, room, MEGOLM)
        self._machine.store.add_outgoing_key_request(request)
        await self._send("m.room_key_request", {sender: {"*": body}})


def lack_before() -> MatrixLack | None:
    """Return why keys can't be opened if that is known before a login, else None. If matrix-nio itself is missing, return None,
    because ``login`` reports that.
    """
    return _NOT_INSTALLED if find_spec("nio") is not None and any(find_spec(name) is None for name in _LIBRARIES) else None


async def open_keys(server: MatrixServer, host: Host) -> MatrixKeys | MatrixLack:
    """Open or create the keys of the account's device; else return the reason why that is not possible. Raises
    ConfigError, and the errors of MatrixServer.call."""
    if (lack := lack_before()) is not None:
        return lack
    account, device = server.account, server.client.device_id
    if not device:
        return _NO_DEVICE
    folder = host.folder
    path, key = folder / f"{quote(f'{account} {device}', safe='')}.db", _pickle_key(host, folder)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    try:
        machine = _machine(account, device, path, key)
    except Exception as error:  # nio may raise anything, for example for a wrong key or a damaged file
        raise ConfigError(
            f"the keys of the account's device in {path} can't be read with {SECRET}: restore its old value, or move the file "
            "away and create a new token"
        ) from error
    told = await server.call("POST", "keys", "query", body={"device_keys": {account: [device]}})
    there = told.get("device_keys", {}).get(account, {}).get(device)
    if there is not None and there["keys"].get(f"curve25519:{device}") != machine.account.identity_keys["curve25519"]:
        machine.store.database.close()
        return _NOT_OURS
    return MatrixKeys(server, machine, str(host.settings.get("blocked_devices", "")).replace(",", " ").split())


def _machine(account: str, device: str, path: Path, key: str) -> Any:
    from nio.crypto import Olm
    from nio.store import SqliteStore

    class _Machine(Olm):  # type: ignore[misc]  # nio has no type hints
        """nio's Olm machine, but it also accepts a requested session key if the device that created the key sends it."""

        def _should_accept_forward(self, sender: str, sender_key: str, event: Any) -> bool:
            asked = self.outgoing_key_requests.get(event.session_id)
            is_its_own = event.source["content"].get("sender_key") == sender_key
            return asked is not None and asked.room_id == event.room_id and event.algorithm == MEGOLM and is_its_own

    store = SqliteStore(account, device, str(path.parent), key, path.name)
    store.database.execute_sql(_FORGET, (_SESSIONS,))
    return _Machine(account, device, store)


def _pickle_key(host: Host, folder: Path) -> str:
    """Return the secret that encrypts keys on disk: the operator's, else one that is generated once and stored beside the
    keys."""
    try:
        return host.secret(SECRET)
    except ConfigError:
        path = folder / "key"
    if not path.exists():
        made = path.with_suffix(".new")  # if the process is killed, no partial file is left
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
        made.replace(path)
    return path.read_text()


def _is_sound(user: str, name: str, device: Any) -> bool:
    """Return whether a device's keys can be parsed: one malformed device must not stop the work for others."""
    from vodozemac import Curve25519PublicKey, Ed25519PublicKey, Ed25519Signature

    try:
        Ed25519PublicKey.from_base64(device["keys"][f"ed25519:{name}"])
        Curve25519PublicKey.from_base64(device["keys"][f"curve25519:{name}"])
        Ed25519Signature.from_base64(device["signatures"][user][f"ed25519:{name}"])
        return bool((device["user_id"], device["device_id"]) == (user, name))
    except Exception:  # noqa: BLE001 - any malformed data
        return False
