"""Short forms of session ids and times, for lists and notes."""

from __future__ import annotations

from datetime import datetime

ID_CHARS = 12
"""Number of characters of a session id that are shown."""


def ago(then: float, now: float) -> str:
    """Return a time such as ``5 min ago``, or a date if it is older than a week."""
    seconds = max(0.0, now - then)
    for unit, size, most in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86_400), ("d", 86_400, 7 * 86_400)):
        if seconds < most:
            return f"{int(seconds // size)} {unit} ago"
    return f"{datetime.fromtimestamp(then):%Y-%m-%d}"
