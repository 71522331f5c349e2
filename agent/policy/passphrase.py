"""The passphrase that proves to a local interface (the console, a page) that a user decides.

The account of a process does not show who asks, because a session's commands run under the same account. The user sets the
passphrase at a terminal. Only a salted scrypt hash of it is stored, in the state folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import unicodedata
from typing import TYPE_CHECKING

from agent.config import state_dir
from agent.policy.self_protection import refuse_below_any
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.passing import raise_passing

if TYPE_CHECKING:
    from pathlib import Path

SHORTEST = 10
"""Minimum characters of a passphrase."""
_COST, _BLOCK, _MEMORY = 2**15, 8, 64 * 2**20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


def passphrase_path() -> Path:
    """Return the path of the file with the hash; it may not exist."""
    return state_dir() / "passphrase.json"


def is_set() -> bool:
    """Return whether a passphrase was set."""
    return passphrase_path().exists()


def set_passphrase(text: str) -> None:
    """Store the hash of a passphrase, replacing an earlier one.

    Raises InvalidArguments for a short one, Denied below a session, and OSError.
    """
    refuse_below_any("setting the passphrase")
    if len(text.strip()) < SHORTEST:
        raise InvalidArguments(f"the passphrase is too short: {SHORTEST} characters or more; several words are easy to remember")
    salt = secrets.token_bytes(16)
    path = passphrase_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        json.dump({"salt": salt.hex(), "scrypt": _hash(text, salt).hex()}, file)
    new.replace(path)


def is_right(text: str) -> bool:
    """Return whether this is the passphrase; False if none is set, or the file can't be read. Raises OSError if no file can be
    opened now.
    """
    try:
        kept = json.loads(passphrase_path().read_bytes())
        return hmac.compare_digest(_hash(text, bytes.fromhex(kept["salt"])), bytes.fromhex(kept["scrypt"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise_passing(error)
        return False


class PassphraseGuard:
    """Checks attempts one at a time, from all connections, with a growing pause after each wrong one."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._wrong = 0

    async def accepts(self, text: str) -> bool:
        """Return whether this is the passphrase, after the pause for earlier wrong attempts."""
        async with self._turn:
            if self._wrong:
                await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._wrong - 1)))
            is_ok = await asyncio.to_thread(is_right, text)
            self._wrong = 0 if is_ok else self._wrong + 1
            return is_ok


def _hash(text: str, salt: bytes) -> bytes:
    words = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(words, salt=salt, n=_COST, r=_BLOCK, p=1, maxmem=_MEMORY, dklen=32)
