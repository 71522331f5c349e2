"""Secrets: from the environment, or from a file that only its owner may read. Never from config.yaml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.config._files import refuse_others
from agent.config._paths import config_path
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.paths import real_path
from toolcrib.contract.regex import Regex

_MAX_BYTES = 64_000
_LINE = Regex(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = Regex(r"""(?:"([^"]*)"|'([^']*)')\s*(?:#.*)?""")


class Secrets(Mapping[str, str]):
    """Names and values of secrets. The representation shows how many there are, never their values."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets(<{len(self)}>)"


def secrets_path(folder: str | Path | None = None) -> Path:
    """Return the path of ``secrets.env`` in ``folder``, else beside the configuration file. It need not exist."""
    return (Path(folder) if folder is not None else config_path().parent) / "secrets.env"


def secret(name: str, environ: Mapping[str, str] | None = None, folder: str | Path | None = None) -> str | None:
    """Return the value of an environment variable (in ``environ``, else os.environ), else of the line with that name in
    ``secrets.env``. An empty value counts as unset. Raises the errors of read_secrets if the file must be read.
    """
    found = (os.environ if environ is None else environ).get(name)
    return found or read_secrets(folder).get(name) or None


def read_secrets(folder: str | Path | None = None) -> Secrets:
    """Read all of ``secrets.env``: lines ``NAME=value``. Values may be quoted; ``export`` may come first. Nothing is expanded.

    If there is no file, there are no secrets. Raises ConfigError if others may read the file, or a line is invalid.
    """
    file = secrets_path(folder)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Secrets({})
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    with os.fdopen(handle, "rb") as opened:
        refuse_others(os.fstat(handle), file)
        data = opened.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{file} is larger than {_MAX_BYTES:,} bytes; expected lines NAME=value")
    return Secrets(dict(_parsed(data, file)))


def values_in(folder: str | Path) -> Secrets:
    """Return everything in ``secrets.env`` that may be a secret, for redaction only: even if others may read the file, and even
    from invalid lines. Return nothing if the file cannot be opened. Raises OSError if the reason is temporary, such as too many
    open files.
    """
    try:
        lines = secrets_path(folder).read_bytes()[:_MAX_BYTES].decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise_passing(error)  # otherwise the secrets would not be redacted
        return Secrets({})
    found = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        name, _, value = line.partition("=") if "=" in line else (f"line {number}", "", line)
        found[f"{name.strip()} {number}"] = value.strip()
        quoted = _QUOTED.fullmatch(value.strip())
        if quoted is not None:
            found[f"{name.strip()} {number} quoted"] = quoted[1] if quoted[1] is not None else quoted[2]
    return Secrets(found)


def write_secret(name: str, value: str, folder: str | Path | None = None) -> Path:
    """Write ``value`` to the line of that name in ``secrets.env``, and return the file; all other lines stay as they are.

    Raises ConfigError for the reasons of read_secrets, and for a value that a line cannot contain. Raises Denied if a session's
    command started this process.
    """
    from agent.config._files import locked, write_private
    from agent.policy.self_protection import refuse_below

    file = real_path(secrets_path(folder))
    refuse_below([secrets_path(folder).parent, file.parent], "storing a key")
    if not is_secret(value):
        raise ConfigError("this is not a key: it is empty, or has spaces, quotes or special characters in it")
    with locked(file):
        read_secrets(folder)  # raises if the file is open to others or invalid: such a file gets no key
        lines = file.read_text("utf-8-sig").splitlines() if file.exists() else []
        found = [at for at, text in enumerate(lines) if (match := _LINE.fullmatch(text.strip())) and match[1] == name]
        lines = [text for at, text in enumerate(lines) if at not in found[1:]]
        if found:
            lines[found[0]] = f"{name}={value}"
        else:
            lines.append(f"{name}={value}")
        write_private(file, "\n".join(lines) + "\n")
    return file


def is_secret(value: str) -> bool:
    """Return whether a line of secrets.env can hold this value, and an HTTP header can carry it."""
    return value.isascii() and value.isprintable() and bool(value) and not any(char in value for char in " \"'")


def _parsed(data: bytes, file: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each line. Errors quote no part of the file: an invalid line may be a key."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: not UTF-8; save the file as UTF-8") from None
    for number, text in enumerate(lines, 1):
        text = text.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise ConfigError(f"{file}:{number}: expected NAME=value")
        value = match[2]
        if value[:1] in ("'", '"'):
            quoted = _QUOTED.fullmatch(value)
            if quoted is None:
                raise ConfigError(f"{file}:{number}: the quotes around the value of {match[1]} do not match")
            value = quoted[1] if quoted[1] is not None else quoted[2]
        yield match[1], value
