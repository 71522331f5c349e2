"""Paths of configuration, state and cache."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.contract.errors import ConfigError


def config_path(path: str | Path | None = None) -> Path:
    """Return the configuration file: ``path``, else $TOOLCRIB_CONFIG, else $XDG_CONFIG_HOME/toolcrib/config.yaml."""
    return _chosen(path, "TOOLCRIB_CONFIG") or _base("XDG_CONFIG_HOME", ".config", "TOOLCRIB_CONFIG") / "toolcrib" / "config.yaml"


def state_dir(path: str | Path | None = None) -> Path:
    """Return the folder of the stored state: ``path``, else $TOOLCRIB_STATE, else $XDG_STATE_HOME/toolcrib."""
    return _chosen(path, "TOOLCRIB_STATE") or _base("XDG_STATE_HOME", ".local/state", "TOOLCRIB_STATE") / "toolcrib"


def cache_dir() -> Path:
    """Return the folder of the cache, which can be deleted: $XDG_CACHE_HOME/toolcrib. It need not exist."""
    return _base("XDG_CACHE_HOME", ".cache", "XDG_CACHE_HOME") / "toolcrib"


def contents_path() -> Path:
    """Return the file with earlier contents of files, for undo. It need not exist."""
    return state_dir() / "undo" / "contents.db"


def sandbox_records() -> Path:
    """Return the folder of the records of sandboxes that outlive their process. It need not exist."""
    return state_dir() / "sandboxes"


def _chosen(path: str | Path | None, variable: str) -> Path | None:
    value = path or os.environ.get(variable)
    return Path(expanded(value, variable)).absolute() if value else None


def _base(variable: str, below_home: str, instead: str) -> Path:
    value = os.environ.get(variable, "")
    if value.startswith("/"):  # the XDG specification ignores relative paths
        return Path(value)
    return expanded(f"~/{below_home}", instead)


def expanded(value: str | Path, variable: str) -> Path:
    if str(value).startswith("~") and os.environ.get("HOME") == "":  # Python would use /
        raise ConfigError(f"$HOME is empty, so your home folder is unknown; set HOME, or set {variable} to an absolute path")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        user = str(value).partition("/")[0][1:]
        whose = f"the home folder of a user {user!r}" if user else "your home folder"
        raise ConfigError(f"{whose} cannot be found ({error}); set {variable} to an absolute path") from error
