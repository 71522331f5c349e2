"""Folders of configuration and state."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.contract.errors import ConfigError


def config_path(path: str | Path | None = None) -> Path:
    """The configuration file: ``path``, else $TOOLCRIB_CONFIG, else $XDG_CONFIG_HOME/toolcrib/config.yaml. It need not exist."""
    return _chosen(path, "TOOLCRIB_CONFIG") or _base("XDG_CONFIG_HOME", ".config", "TOOLCRIB_CONFIG") / "toolcrib" / "config.yaml"


def state_dir(path: str | Path | None = None) -> Path:
    """The folder of what toolcrib remembers: ``path``, else $TOOLCRIB_STATE, else $XDG_STATE_HOME/toolcrib. It need not exist."""
    return _chosen(path, "TOOLCRIB_STATE") or _base("XDG_STATE_HOME", ".local/state", "TOOLCRIB_STATE") / "toolcrib"


def cache_dir() -> Path:
    """The folder of what can be made again: $XDG_CACHE_HOME/toolcrib. It need not exist."""
    return _base("XDG_CACHE_HOME", ".cache", "XDG_CACHE_HOME") / "toolcrib"


def contents_path() -> Path:
    """The file that keeps the old contents of files, for undo; it need not exist."""
    return state_dir() / "undo" / "contents.db"


def _chosen(path: str | Path | None, variable: str) -> Path | None:
    value = path or os.environ.get(variable)
    return Path(expanded(value, variable)).absolute() if value else None


def _base(variable: str, below_home: str, instead: str) -> Path:
    value = os.environ.get(variable, "")
    if value.startswith("/"):  # the XDG specification: a relative one is to be ignored
        return Path(value)
    return expanded(f"~/{below_home}", instead)


def expanded(value: str | Path, variable: str) -> Path:
    if str(value).startswith("~") and os.environ.get("HOME") == "":  # which Python takes for /
        raise ConfigError(f"$HOME is empty, so that your home folder is not known; set it, or {variable} to an absolute path")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"your home folder cannot be found ({error}); set {variable} to an absolute path") from error
