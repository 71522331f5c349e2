"""The URL of a server, which messages show without its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex

FIX = "install it: pip install 'toolcrib[postgres]'"
CONNECT_SECONDS = 10
_FORM = Regex(r"postgres(?:ql)?://(?:(?P<user>[^/@?]*)@)?(?P<hosts>[^/?@]*)(?:/(?P<database>[^?@]*))?(?:\?(?P<more>[^@]*))?")
_SECRET = Regex(r"(?:^|&)(?:password|sslpassword)=([^&]*)", re.IGNORECASE)


class Address:
    """A ``postgresql://`` URL. ``str`` and ``repr`` show host and database, but neither user nor password.

    Raises ConfigError for any other text, without repeating it: it may contain a password.
    """

    __slots__ = ("_form", "_url")

    def __init__(self, url: str) -> None:
        form = _FORM.fullmatch(url)
        if form is None or not url.isprintable():
            raise ConfigError(
                "the URL of the store can't be read: its form is postgresql://USER@HOST:PORT/DATABASE, with characters like"
                " @ and / in a name or password written as %40 and %2F"
            )
        self._url = url
        self._form = form

    def __str__(self) -> str:
        hosts = unquote(self._form["hosts"] or "") or "the local server"
        database = unquote(self._form["database"] or "")
        return f"{hosts}/{database}" if database else hosts

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def options(self) -> Mapping[str, Any]:
        """Return the arguments of a connection, as libpq names them. Raises ConfigError; imports psycopg."""
        import psycopg.conninfo

        try:
            given = psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.Error as error:
            # libpq's error may contain the password
            reason = self.without_secrets(str(error)) if not self.secrets() else "libpq can't read it"
            raise ConfigError(f"the URL of the store at {self} can't be used: {reason}") from None
        return {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "toolcrib",
            "target_session_attrs": "read-write",
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            **given,
            "client_encoding": "UTF8",
        }

    def without_secrets(self, text: str) -> str:
        for found in self.secrets():
            text = text.replace(found, "***")
        return text

    def secrets(self) -> list[str]:
        """Return all spellings of the URL's passwords, longest first."""
        raw = [(self._form["user"] or "").partition(":")[2], *_SECRET.findall(self._form["more"] or "")]
        return sorted({each for one in raw if one for each in (one, unquote(one))}, key=len, reverse=True)


def has_password(url: str) -> bool:
    """Return True for a URL with a password, and for an unreadable one."""
    form = _FORM.fullmatch(url)
    return form is None or ":" in (form["user"] or "") or _SECRET.search(form["more"] or "") is not None


def require_psycopg(address: Address) -> None:
    """Raise ConfigError if psycopg is not installed, without importing it."""
    import importlib.util

    if importlib.util.find_spec("psycopg") is None:
        raise _missing(address, "psycopg is not installed")


def import_psycopg(address: Address) -> None:
    """Import psycopg.

    Raises ConfigError if psycopg or libpq is missing; ``require_psycopg`` does not detect a missing libpq.
    """
    try:
        import psycopg  # noqa: F401 - for later importers
    except ImportError as error:
        raise _missing(address, " ".join(str(error).split())) from error


def _missing(address: Address, why: str) -> ConfigError:
    return ConfigError(f"the store at {address} is a PostgreSQL server, and {why}; {FIX}")
