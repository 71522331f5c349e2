"""Remove secrets and users' names from a support bundle. Each name has the same replacement in the whole bundle."""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.config import Config, leaves, plain, token_values, values_in
from toolcrib.contract.regex import Regex
from tools.redact import Redactor, may_be_secret, without_forms

_SHORTEST_SECRET = 4
"""Minimum number of characters of a secret that is removed. It is small, because removing too much does no harm here."""
_PEOPLE = frozenset(["allowed_users", "roles"])
_CHATS = frozenset(["allowed_chats", "messages_to"])
_NAMED = {"users": "person", "folders": "chat", "trusted_projects": "chat"}
"""Keys whose subkeys are names of people or chats -> the kind of name."""
_CLOSED = frozenset(
    ["settings", "env", "args", "options", "operands", "folders", "trusted_projects", "command_allowlist", "roles", "approvers"]
)
"""Keys below which no text is shown."""
_SHOWN = frozenset(
    """provider protocol name thinking session_mode model on_max_turns enabled disabled tools includes enabled_toolsets
    disabled_toolsets disabled_tools strangers groups busy backend logs zone unattended missed network memory keep sandbox mode
    tool decision level titles summaries synchronous markdown color theme api_key_env""".split()
)
"""Keys whose texts are shown: names of toolcrib, plugins and models, and words from fixed lists."""
_SYSTEM = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/run", "/var/run")
"""Prefixes of paths that are the same on all systems."""
_PLAIN = frozenset("COLORTERM HOME LANG LANGUAGE LC_ALL LOGNAME PATH PWD SHELL SHLVL TERM TMPDIR TZ USER".split())
"""Variables that contain no key."""
_ADDRESSES = frozenset(["base_url", "host", "jump", "url"])
_MAIL = Regex(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_MATRIX = Regex(r"[@!#][\w.=/+-]+:[\w.-]+\w")
_IP = Regex(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4})(?![\w.]*\w)")
_NUMBER = Regex(r"(?<![\w.,])[+-]?\d{8,}(?![\w.,]*\w)")


class Scrubber:
    """Removes secrets from text, and replaces names of people, chats and hosts, and addresses, with placeholders."""

    def __init__(self, config: Config | None, path: Path) -> None:
        """``path`` is the configuration file; secrets.env is beside it. ``config`` is None if the file can't be read."""
        named = _variables_in(path)
        secrets = {name: value for name, value in os.environ.items() if name in named or may_be_secret(name, value)}
        secrets |= token_values(path.parent)
        secrets |= {f"secrets.env: {name}": value for name, value in values_in(path.parent).items()}
        if config is not None:
            secrets |= config.store_secrets
        self._redactor = Redactor(secrets, _SHORTEST_SECRET)
        self._names: dict[str, str] = {}
        for kind, value in _known(config) if config is not None else ():
            self._named(kind, value)
        ordered = sorted(self._names, key=len, reverse=True)
        self._known = re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in ordered)) if ordered else None
        self._places = _places()

    def text(self, text: str) -> str:
        """Return the text with secrets removed and names replaced."""
        text = self._redactor.text(text)
        if self._known is not None:
            text = self._known.sub(lambda found: self._names[found[0]], text)
        for place, name in self._places:
            text = place.sub(name, text)
        text = without_forms(text)
        text = _MAIL.sub(lambda found: self._named("person", found[0]), text)
        text = _MATRIX.sub(lambda found: self._named("person", found[0]), text)
        text = _IP.sub(self._address, text)
        return _NUMBER.sub(lambda found: self._named("number", found[0]), text)

    def data(self, value: Any) -> Any:
        """Return a JSON value with each text in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.data(item) for key, item in value.items()}
        return [self.data(one) for one in value] if isinstance(value, (list, tuple)) else value

    def whole(self, text: str) -> str:
        """Return a file's text without values that are known secrets, as a second check of the assembled file."""
        return self._redactor.text(text)

    def config(self, config: Config) -> dict[str, Any]:
        """Return the settings that differ from their default, by dotted key. "[text]" replaces a user's own texts."""
        usual = dict(leaves(Config(path=config.path)))
        changed = {key: value for key, value in leaves(config) if key not in usual or usual[key] != value}
        return {self.text(key): self._shown(key.split("."), value) for key, value in changed.items()}

    def _shown(self, parts: Sequence[str], value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._shown([*parts, str(key)], item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._shown(parts, one) for one in value]
        if not isinstance(value, str) or not value:
            return value
        if value in self._names or value == "*" or value.startswith("role:"):
            return self.text(value)
        is_shown = not _CLOSED.intersection(parts) and parts[-1] in _SHOWN | _ADDRESSES
        return self.text(value) if is_shown else "[text]"

    def _named(self, kind: str, value: str) -> str:
        if value not in self._names:
            count = sum(name.startswith(f"{kind}-") for name in self._names.values())
            self._names[value] = f"{kind}-{count + 1}"
        return self._names[value]

    def _address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found[0])
        except ValueError:
            return found[0]
        return found[0] if address.is_loopback or address.is_unspecified else self._named("address", found[0])


def _variables_in(path: Path) -> set[str]:
    """Return the environment variables that the configuration file names anywhere: some of them hold keys."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return set()
    return set(re.findall(r"\w+", text)).intersection(os.environ) - _PLAIN


def _known(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each person, chat, host, path, plugin setting and allowed command in the configuration."""
    for parts, value in _texts((), plain(config)):
        kind = next((_NAMED[above] for above in parts[:-1] if above in _NAMED), "")
        if kind:
            at = next(place for place, above in enumerate(parts) if above in _NAMED)
            yield from _id(kind, parts[at + 1])
        if value.startswith(("/", "~/")) and not value.startswith(_SYSTEM):
            yield from _id("path", value)
        if _PEOPLE.intersection(parts) or parts[-1:] == ("user",):
            yield from _id("person", value)
        elif _CHATS.intersection(parts):
            yield from _id("chat", value)
        elif parts[-1:] and parts[-1] in _ADDRESSES:
            yield from _host(value)
        elif {"settings", "env"}.intersection(parts) and not value.isdecimal() and value not in ("true", "false"):
            yield from _id("setting", value)
    for entry in config.command_allowlist:
        yield from (("command", one) for one in {entry.text or "", " ".join(entry.argv), shlex.join(entry.argv)} if one)


def _texts(parts: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (keys from the top, text) for each leaf of a value; the text is "" for a leaf that is no text, and for an empty list.

    A profile's dotted keys are split.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = str(key).split(".") if parts[:1] == ("profiles",) and len(parts) > 1 else [str(key)]
            yield from _texts((*parts, *below), item)
    elif isinstance(value, list):
        for item in value or ("",):
            yield from _texts(parts, item)
    else:
        yield parts, value if isinstance(value, str) else ""


def _id(kind: str, value: str) -> Iterator[tuple[str, str]]:
    value = value.removeprefix("role:")
    if len(value) > 1:
        yield kind, value
        platform, _, rest = value.partition(":")
        if kind == "person" and platform.isalpha() and len(rest) > 1:  # telegram:12345
            yield kind, rest


def _host(value: str) -> Iterator[tuple[str, str]]:
    from urllib.parse import urlsplit

    from agent.model_choice.call_style import is_hosted
    from agent.providers.endpoint import Endpoint, is_loopback

    try:
        host = urlsplit(value if "://" in value else f"//{value}").hostname or ""
    except ValueError:
        return
    if len(host) > 1 and not is_loopback(host) and not is_hosted(Endpoint(f"https://{host}")):
        yield "host", host


def _places() -> list[tuple[re.Pattern[str], str]]:
    """Return patterns for the home folder, the account and the machine, each with its replacement."""
    import getpass

    found = []
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises if there is no home folder
    if home.startswith("/") and len(home) > 1:
        found.append((re.compile(rf"{re.escape(home)}(?![\w-])"), "~"))
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = ""
    for value, name in ((account, "[account]"), (socket.gethostname(), "[machine]")):
        if len(value) > 1 and value not in ("root", "localhost"):
            found.append((re.compile(rf"(?<!\w){re.escape(value)}(?!\w)"), name))
    return found
