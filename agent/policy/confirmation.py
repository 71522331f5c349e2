"""Confirmation of config.yaml: settings that loosen or redirect something count only as the user last confirmed them.

A local shell has the user's rights, so the file alone does not prove the user's approval. The state folder has the last confirmed
values, with a digest of the whole file: while the digest matches, nothing else is read. The user confirms with a command that
changes a setting at a terminal (``agreed_by_setting``), or by approving the shown changes (``confirm``). A file that exists
before the state folder does, and a file that only another account can write, need no confirmation.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from agent.config import Config, config_path, leaves, load_config, locked, parse_config, state_dir, value_at, write_private
from agent.policy.self_protection import refuse_below
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import real_path

_log = logging.getLogger(__name__)
STATE_FILE = "confirmed.json"
WATCHED = (
    "approval",
    "plugins",
    "mcp",
    "tools.disabled",
    "toolsets",
    "platforms",
    "gateway.approvers",
    "gateway.host",
    "cron.unattended",
    "cron.rule_sets",
    "cron.most_jobs",
    "cron.shortest_interval",
    "users",
    "terminal.backend",
    "terminal.pass_env",
    "terminal.processes",
    "sandbox",
    "snapshots",
    "environments",
    "model.provider",
    "model.base_url",
    "model.api_key_env",
    "model.fallback",
    "compression.provider",
    "compression.base_url",
    "compression.api_key_env",
    "store.enabled",
    "store.url",
    "store.path",
)
"""Settings, with all keys below them, that can allow more than before, or send secrets, calls or the memory elsewhere."""
_NOTHING = object()
_PARTLY = "partly"
"""Value in place of a digest if only a part of the file is confirmed."""
_FREE = ("approval.gate_timeout", "approval.answer_timeout", "approval.park_timeout", "approval.reminders")
_OFF = frozenset(["approval.develop_toolcrib", "approval.smart.enabled", "smart_approval"])
_LISTS = frozenset(["disabled", "disabled_tools", "disabled_toolsets"])
_QUOTAS = frozenset(["messages_per_hour", "runs_at_once", "tokens_per_day", "cost_per_day"])
"""Limits whose default 0 means no limit."""
_PEOPLE = frozenset(["allowed_users", "allowed_chats"])
_STRICTER: Mapping[str, Sequence[Any]] = {
    "approval.mode": ("default", "cautious", "confirm-edits", "plan"),
    "sandbox.mode": ("none", "own", "workspace"),
    "sandbox.caches": ("shared", "private"),
    "sandbox.network": ("on", "hosts", "none"),
    "sandbox.outside": ("ask", "never"),
    "snapshots.enabled": (False, True),
    "snapshots.rebuildable": ("allow", "ask"),
}
"""The values of each key, from the least strict to the strictest."""

Watched: TypeAlias = Mapping[str, Any]
"""Dotted key -> plain value, for watched keys that differ from their defaults."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A key whose value differs from the confirmed one. None means its default."""

    key: str
    before: Any
    after: Any

    @property
    def tightens(self) -> bool:
        """True if the change certainly allows less than before."""
        name = self.key.rpartition(".")[2]
        if self.key.startswith("profiles."):  # it overrides a value that isn't known here
            return False
        if name in _LISTS:
            return set(self.before or ()) <= set(self.after or ())
        if self.key.startswith("platforms."):
            if name in _QUOTAS:
                return 0 < (self.after or 0) <= (self.before or math.inf)
            if name in _PEOPLE:
                return set(self.after or ()) <= set(self.before or ())
        if (order := _STRICTER.get(self.key)) is not None:
            default = value_at(Config(), self.key.split("."))
            before, after = (default if value is None else value for value in (self.before, self.after))
            return order.index(before) <= order.index(after)
        return (self.key in _OFF or name in _OFF) and self.after is False

    def lines(self) -> list[str]:
        """Return the change as lines that begin with - or +; for a list only the differences."""
        if isinstance(self.before, list) and isinstance(self.after, list) and set(_texts(self.before)) != set(_texts(self.after)):
            old, new = _texts(self.before), _texts(self.after)
            gone, come = [one for one in old if one not in new], [one for one in new if one not in old]
        else:
            gone = [] if self.before is None else _rows(self.before)
            come = ["(the default)"] if self.after is None else _rows(self.after)
        return [*(f"- {self.key}: {one}" for one in gone), *(f"+ {self.key}: {one}" for one in come)]


class UnconfirmedConfig(ConfigError):
    """The configuration has unconfirmed changes, and is not used. ``changes`` has all of them."""

    def __init__(self, config: Config, changes: Sequence[ConfigChange]) -> None:
        self.path = config.path
        self.changes = tuple(changes)
        lines = "".join(f"\n  {line}" for change in changes for line in change.lines())
        super().__init__(
            f"{config.path} has unconfirmed changes that loosen or redirect something:{lines}\n"
            "nothing runs until you confirm them at a terminal with `toolcrib config confirm`, or revert them"
        )


def require_confirmed(config: Config) -> Config:
    """Return the configuration. Raises UnconfirmedConfig, and ConfigError if the confirmed values can't be read."""
    if changes := unconfirmed(config):
        raise UnconfirmedConfig(config, changes)
    return config


def last_confirmed(config: Config, *, profile: str | None, project_dir: Path) -> Config:
    """Return the configuration with the last confirmed values in place of unconfirmed ones, for read-only commands.

    Raises UnconfirmedConfig if the confirmed values can't be restored, and ConfigError as ``require_confirmed`` does.
    """
    from agent.config import UNSET, find_key, text_with

    if not (changes := unconfirmed(config)):
        return config
    agreed = _read(state_dir() / STATE_FILE).get(_name(config))
    try:
        values = [(find_key(one.key)[0], UNSET if one.before is None else one.before) for one in changes]
        text = text_with(config.path, values)
        if _changes({} if agreed is None else agreed["values"], _watched(parse_config(text, config.path), config.path)):
            raise UnconfirmedConfig(config, changes)
        return load_config(config.path, profile=profile, project_dir=project_dir, instead=text)
    except (ConfigError, KeyError, TypeError) as error:
        raise UnconfirmedConfig(config, changes) from error


def unconfirmed(config: Config, *, keep: bool = True) -> tuple[ConfigChange, ...]:
    """Return the unconfirmed changes in the configuration's file that loosen or redirect something. Raises ConfigError.

    Changes that need no confirmation, such as the file of a first start, are stored as confirmed, unless ``keep`` is False.
    """
    file = state_dir() / STATE_FILE
    agreed = _read(file).get(_name(config))
    if agreed is not None and agreed["sha256"] == config.digest:
        return ()
    said = _said(config)
    if agreed is None:
        if not said or _is_anothers(config.path):
            return ()
        if _is_new(file.parent, config):
            _remember(file, config, said, keep, first=True)
            return ()
    changes = _changes({} if agreed is None else agreed["values"], said)
    if all(change.tightens for change in changes):
        _remember(file, config, said, keep)
        return ()
    return () if _is_anothers(config.path) else changes


def confirm(config: Config) -> None:
    """Store the configuration as confirmed: the user has seen and approved the result of ``unconfirmed``.

    Raises ConfigError, and Denied below a session.
    """
    refuse_below([state_dir(), config.path.parent, real_path(config.path).parent], "confirming the configuration")
    said = _said(config)
    _keep(state_dir() / STATE_FILE, config, config.digest, said)


def agreed_by_setting(path: str | Path | None, parts: Sequence[str]) -> None:
    """Store the value at one key as confirmed: the user has set or removed it. Raises what ``confirm`` raises."""
    config = load_config(path, profile="")
    refuse_below([state_dir(), config.path.parent, real_path(config.path).parent], "confirming the configuration")
    file = state_dir() / STATE_FILE
    agreed = _read(file).get(_name(config))
    if agreed is None and _is_new(file.parent, config):
        return  # the first start accepts everything
    key, said = ".".join(parts), _said(config)
    kept = {} if agreed is None else {name: value for name, value in agreed["values"].items() if not _is_at(name, key)}
    kept |= {name: value for name, value in said.items() if _is_at(name, key)}
    _keep(file, config, config.digest if not _changes(kept, said) else _PARTLY, kept)


def is_first_start(config: Config) -> bool:
    """Return whether no start is recorded yet, so that the next start accepts the whole file."""
    file = state_dir() / STATE_FILE
    return _name(config) not in _read(file) and _is_new(file.parent, config)


def is_watched(parts: Sequence[str]) -> bool:
    """Return whether a key needs confirmation, contains such a key, or is part of one; in a profile too."""
    key = ".".join(parts[2:] if parts[:1] == ("profiles",) else parts)
    return not key or any(_is_at(key, one) or _is_at(one, key) for one in WATCHED)


def _said(config: Config) -> Watched:
    """Return the watched values of the configuration's file, without those of the profile and the project."""
    try:
        data = config.path.read_bytes() if config.digest else None
    except OSError as error:
        raise ConfigError(f"{config.path} can't be read: {error.strerror or error}") from error
    if data is None:
        return {}
    if hashlib.sha256(data).hexdigest() != config.digest:
        raise ConfigError(f"{config.path} was just changed; start again")
    return _watched(parse_config(data, config.path), config.path)


def _watched(whole: Config, path: Path) -> Watched:
    """Return the watched values of a file's configuration."""
    usual = Config(path=path)
    said: dict[str, Any] = {}
    for key in WATCHED:
        parts = key.split(".")
        defaults = dict(leaves(value_at(usual, parts), key))
        given = (pair for pair in leaves(value_at(whole, parts), key) if pair[0] in whole.origins)
        said |= {name: value for name, value in given if defaults.get(name, _NOTHING) != value}
    for profile, given_there in whole.profiles.items():
        for name, value in leaves(given_there):
            if any(_is_at(name, key) for key in WATCHED):
                said[f"profiles.{profile}.{name}"] = value
    return {name: value for name, value in said.items() if not name.endswith(_FREE)}


def _is_at(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")


def _changes(before: Watched, after: Watched) -> tuple[ConfigChange, ...]:
    keys = [*before, *(key for key in after if key not in before)]
    return tuple(
        ConfigChange(key, before.get(key), after.get(key))
        for key in keys
        if key not in before or key not in after or before[key] != after[key]
    )


def _is_new(state: Path, config: Config) -> bool:
    """Return whether nothing was ever recorded in the folder ``state``.

    Some names do not count: files that a start in progress writes, the folder ``snapshots``, which ``toolcrib explain`` may
    create, and what belongs to the configuration if that is in the same folder.
    """
    is_shared = state == config.path.parent
    other = ("plugins", "secrets.env", "snapshots") if is_shared else ("snapshots",)
    ours = (STATE_FILE, config.path.name) if is_shared else (STATE_FILE,)
    try:
        names = [path.name for path in state.iterdir() if path.name not in other]
        return all(name != STATE_FILE and any(one in name for one in ours) for name in names)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise ConfigError(f"{state} can't be read: {error.strerror or error}; allow your account to read it") from error


def _is_anothers(path: Path) -> bool:
    """Return whether this account can neither change the file nor give itself the right to.

    This holds if the file system is mounted read-only, or if the file and all folders above it belong to other accounts and can't
    be written.
    """
    names = {path.absolute(), real_path(path)}
    try:
        if all(os.statvfs(one.parent).f_flag & os.ST_RDONLY for one in names):
            return True
        return not any(_is_mine(each) for one in names for each in (one, *one.parents))
    except OSError:
        return False


def _is_mine(path: Path) -> bool:
    return path.lstat().st_uid == os.geteuid() or os.access(path, os.W_OK)


def _remember(file: Path, config: Config, said: Watched, keep: bool, *, first: bool = False) -> None:
    """Store the values as confirmed, if ``keep`` and if possible.

    Raises ConfigError if the disk is full at a ``first`` start: the next start would find other files of this start, so it would
    not count as the first, and would ask about unchanged values.
    """
    if not keep:
        return
    try:
        _keep(file, config, config.digest, said)
    except ConfigError as error:
        if first and isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.debug("the state of %s could not be stored: %s", config.path, error)


def _keep(file: Path, config: Config, digest: str, said: Watched) -> None:
    with locked(file):
        files = {**_read(file), _name(config): {"sha256": digest, "values": dict(said)}}
        write_private(file, json.dumps({"version": 1, "files": files}, ensure_ascii=False, indent=1) + "\n")


def _read(file: Path) -> dict[str, Any]:
    """Return the confirmed digest and values by configuration file. A damaged file confirms nothing."""
    try:
        if file.exists() and not file.is_file():  # reading a pipe might never end
            raise ConfigError(f"{file} is not a regular file; remove it, and confirm the configuration again")
        files = json.loads(file.read_text("utf-8"))["files"]
        if all(isinstance(one["sha256"], str) and isinstance(one["values"], dict) for one in files.values()):
            return dict(files)
        raise ValueError("expected digests and values")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror or error}; let your account read it and its folder") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _log.error("%s can't be read (%s); the configuration must be confirmed again", file, error)
        return {}


def _name(config: Config) -> str:
    return str(real_path(config_path(config.path)))


def _rows(value: Any) -> list[str]:
    """Return a value's text, or for a list of rules the text of each rule."""
    return _texts(value) if isinstance(value, list) and any(isinstance(one, dict) for one in value) else [_text(value)]


def _texts(values: Sequence[Any]) -> list[str]:
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if one not in ("", [], {}, None)}
    return json.dumps(value, ensure_ascii=False)
