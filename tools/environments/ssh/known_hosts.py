"""Check host keys: a key that is not listed, or differs from the listed one, ends the connection attempt.

Paramiko's own reader knows neither patterns nor markers, so it would accept a revoked key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.ssh.target import Hop


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a known_hosts file."""

    file: Path
    line: int
    marker: str
    kind: str
    key: bytes


def entries(hop: Hop) -> list[Entry]:
    """Return the entries for this hop in its known_hosts files."""
    return [entry for file in hop.known_hosts for names, entry in _read(file) if _matches(names, hop.listed)]


def check(hop: Hop, kind: str, key: bytes, before: Hop | None = None) -> None:
    """Raise EnvironmentFailed if ``hop`` is not known by this key. ``key``: as the host sent it; ``before``: its jump host."""
    found = entries(hop)
    shown = f"{kind} {fingerprint(key)}"
    for entry in found:
        if entry.marker == "@revoked" and entry.key == key:
            raise EnvironmentFailed(
                f"the host key of {hop.where} is revoked ({entry.file}:{entry.line}): {shown}. Nothing was sent. "
                "An attacker may be in between; the host needs a new key"
            )
    known = [entry for entry in found if not entry.marker]
    if any(entry.key == key for entry in known):
        return
    if known:
        listed = ", ".join(f"{entry.kind} {fingerprint(entry.key)} ({entry.file}:{entry.line})" for entry in known)
        raise EnvironmentFailed(
            f"the host key of {hop.where} has changed: it is {shown}, but the known key is {listed}. Nothing was sent. "
            "An attacker may be in between. If the host was reinstalled and its operator confirms this fingerprint, remove the "
            f"old key: ssh-keygen -R {shlex.quote(hop.listed)} -f {shlex.quote(str(known[0].file))}; then {_accept(hop, before)}"
        )
    files = " or ".join(str(file) for file in hop.known_hosts) or "any file (UserKnownHostsFile is none)"
    raise EnvironmentFailed(
        f"the host key of {hop.where} is unknown: it is {shown}, and {hop.listed} is not in {files}. Nothing was sent. "
        f"Compare the fingerprint with the one from the host's operator, then {_accept(hop, before)}"
    )


def fingerprint(key: bytes) -> str:
    """Return the key's fingerprint in OpenSSH's form."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _accept(hop: Hop, before: Hop | None) -> str:
    jump = f" -J {before.where}" if before is not None else ""
    file = f" -o UserKnownHostsFile={shlex.quote(str(hop.known_hosts[0]))}" if hop.known_hosts else ""
    port = f" -p {hop.port}" if hop.port != 22 else ""
    return f"connect once by hand and accept it: ssh{jump}{port}{file} {hop.user}@{hop.name}"


def _read(file: Path) -> Iterator[tuple[str, Entry]]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise EnvironmentFailed(f"{file} cannot be read, so no host key can be checked: {error.strerror}") from error
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#"):
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue  # as in OpenSSH, such a line is ignored
        yield words[0], Entry(file, number, marker, words[1], key)


def _matches(names: str, name: str) -> bool:
    found = False
    for each in names.split(","):
        if each.startswith("|1|"):
            found = found or _hashed(each, name)
        elif each.startswith("!"):
            if _like(each[1:], name):
                return False
        else:
            found = found or _like(each, name)
    return found


def _like(pattern: str, name: str) -> bool:
    """Match a pattern of ``*`` and ``?`` only: brackets are literal."""
    parts: Sequence[str] = re.split(r"([*?])", pattern.lower())
    return re.fullmatch("".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts), name) is not None


def _hashed(text: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in text.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)
