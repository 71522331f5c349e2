"""Resolve the host to connect to from the options and ``~/.ssh/config``, as OpenSSH would.

The file's StrictHostKeyChecking, forwarding and variables to send are ignored: host keys are always checked, and nothing is
forwarded.
"""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.regex import Regex

_DEEPEST = 8
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_GLOBAL_HOSTS = "/etc/ssh/ssh_known_hosts"
_SPOKEN = Regex(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+|[0-9a-fA-F:]+))(?::(?P<port>\d+))?/?")


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of a connection. Empty ones come from ``~/.ssh/config``, or are ssh's default."""

    host: str
    user: str = ""
    port: int = 0
    identity_file: str = ""
    known_hosts: str = ""
    jump: str = ""
    """Jump hosts, as in ProxyJump: ``[USER@]HOST[:PORT],...``; ``none`` for none, whatever ``~/.ssh/config`` sets."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A jump host, or the final host."""

    name: str
    """The host as the options name it."""
    host: str
    port: int
    user: str
    keys: tuple[Path, ...]
    named: bool
    """True if the user named the keys: a missing one is then an error."""
    agent: bool
    only_keys: bool
    """True to offer only these keys, even if the agent holds more."""
    known_hosts: tuple[Path, ...]
    alias: str
    """The host's name in known_hosts, without the port; "" for ``host``."""

    @property
    def listed(self) -> str:
        """The host's name in known_hosts, with the port if it is not 22."""
        name = (self.alias or self.host).lower()
        return name if self.alias or self.port == 22 else f"[{name}]:{self.port}"

    @property
    def where(self) -> str:
        """The hop as shown to the user: user, host and port."""
        return f"{self.user}@{self.name}" + (f":{self.port}" if self.port != 22 else "")


def resolve(wish: Wish) -> tuple[Hop, ...]:
    """Return the hops, the final host last. Raises EnvironmentFailed."""
    if not wish.host:
        raise EnvironmentFailed("no host is named: set environments.ssh.host")
    return _way(wish, _Settings(), ())


def _way(wish: Wish, settings: _Settings, above: tuple[str, ...]) -> tuple[Hop, ...]:
    user, host, port = _spoken(wish.host)
    if wish.host in above or len(above) >= _DEEPEST:
        circle = " -> ".join([*above, wish.host])
        raise EnvironmentFailed(f"the jump hosts form a loop: {circle}; see ProxyJump in {settings.path}")
    found = settings.of(host)
    hop = _hop(wish, user or wish.user, host, port or wish.port, found, settings.path)
    jump = wish.jump or found.get("proxyjump", "")
    if jump.lower() == "none":
        return (hop,)
    if not jump:
        if found.get("proxycommand"):
            raise EnvironmentFailed(
                f"{settings.path} has a ProxyCommand for {host}, which is not supported: use ProxyJump, or jump in config.yaml"
            )
        return (hop,)
    way: tuple[Hop, ...] = ()
    for index, each in enumerate(jump.split(",")):
        through = Wish(each.strip(), identity_file=wish.identity_file, known_hosts=wish.known_hosts, jump="none" if index else "")
        way += _way(through, settings, (*above, wish.host))
    return (*way, hop)


def _hop(wish: Wish, user: str, host: str, port: int, found: Mapping[str, str], path: Path) -> Hop:
    name = found.get("hostname", host)
    user = user or found.get("user", "") or getpass.getuser()
    number = port or _number(found.get("port", "22"), path)
    known = [wish.known_hosts] if wish.known_hosts else _files(found.get("userknownhostsfile", "~/.ssh/known_hosts"))
    if not wish.known_hosts:
        known += _files(found.get("globalknownhostsfile", _GLOBAL_HOSTS))
    tokens = {"%%": "%", "%d": str(Path.home()), "%h": name, "%n": host, "%p": str(number), "%r": user, "%u": getpass.getuser()}
    keys = [wish.identity_file] if wish.identity_file else list(found.get("identityfile", []))
    return Hop(
        name=host,
        host=name,
        port=number,
        user=user,
        keys=tuple(_path(key, {}) for key in keys or [f"~/.ssh/{each}" for each in _DEFAULT_KEYS]),
        named=bool(keys),
        agent=found.get("identityagent", "").lower() != "none",
        only_keys=found.get("identitiesonly", "").lower() == "yes",
        known_hosts=tuple(_path(each, tokens) for each in known if each.lower() != "none"),
        alias=found.get("hostkeyalias", ""),
    )


def _spoken(text: str) -> tuple[str, str, int]:
    match = _SPOKEN.fullmatch(text.strip())
    if match is None or text.startswith("-"):
        raise EnvironmentFailed(f"{text!r} is not the name of a host: write HOST, USER@HOST or USER@HOST:PORT")
    return match["user"] or "", match["v6"] or match["host"], int(match["port"] or 0)


def _number(text: str, path: Path) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise EnvironmentFailed(f"{path}: {text!r} is not a port: write a number from 1 to 65535")
    return int(text)


def _files(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote: one name, unchanged
        return [text]


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    return Path(re.sub(r"%.", lambda match: tokens.get(match[0], match[0]), text)).expanduser()


class _Settings:
    """Settings of ``~/.ssh/config``, with the files that it includes."""

    def __init__(self) -> None:
        self.path = Path.home() / ".ssh" / "config"
        self._text = "\n".join(_lines(self.path, 0))

    def of(self, host: str) -> Mapping[str, str]:
        import paramiko

        try:
            return dict(paramiko.SSHConfig.from_text(self._text).lookup(host))
        except (paramiko.SSHException, ImportError, KeyError, ValueError, OSError) as error:
            raise EnvironmentFailed(f"{self.path} can't be parsed for {host}: {error}") from error


def _lines(path: Path, depth: int) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EnvironmentFailed(f"{path} cannot be read: {error.strerror}") from error
    found: list[str] = []
    for line in text.splitlines():
        words = line.replace("=", " ", 1).split()
        if not words or words[0].lower() != "include":
            found.append(line)
        elif depth < _DEEPEST:
            for pattern in _files(" ".join(words[1:])):
                place = Path(pattern).expanduser()
                for each in sorted(glob(str(place if place.is_absolute() else Path.home() / ".ssh" / place))):  # noqa: PTH207 - absolute patterns
                    found += _lines(Path(each), depth + 1)
    return found
