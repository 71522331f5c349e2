"""Signatures of requests: ``t=SECONDS,v1=HEX``, an HMAC with SHA-256 over ``SECONDS.BODY``."""

from __future__ import annotations

import hashlib
import hmac
import time

HEADER = "toolcrib-signature"
FRESH_SECONDS = 300
"""Largest difference between the signature's time and our clock."""


def signature(secret: str, body: bytes, at: float | None = None) -> str:
    """Return the header's value for a body."""
    seconds = int(time.time() if at is None else at)
    return f"t={seconds},v1={_digest(secret, seconds, body)}"


def problem_of(secret: str, body: bytes, header: str) -> str:
    """Return what is wrong with a request's signature, or "" if it is valid."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    seconds, given = parts.get("t", ""), parts.get("v1", "")
    if not given or not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 16):
        return f"the header {HEADER} is missing or does not have the form t=SECONDS,v1=HEX"
    if not hmac.compare_digest(_digest(secret, int(seconds), body).encode(), given.encode()):
        return "the signature does not match this body"
    if abs(time.time() - int(seconds)) > FRESH_SECONDS:
        return f"the signature is older than {FRESH_SECONDS} s, or the clocks differ"
    return ""


def _digest(secret: str, seconds: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
