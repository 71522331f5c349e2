"""Names that a shell can complete: the kind of name at each position of a command line, and the names of each kind."""

from __future__ import annotations

import argparse
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal

from agent.cli.app import open_crib
from toolcrib.contract.regex import Regex
from tools.dispatch.bridge import run_async

PLACES: Mapping[tuple[str, str], str] = {
    ("call", ""): "tools",
    ("tools", "show"): "tools",
    ("tools", "enable"): "tools",
    ("tools", "disable"): "tools",
    ("toolsets", "show"): "toolsets",
    ("toolsets", "edit"): "toolsets",
    ("toolsets", "delete"): "toolsets",
    ("toolsets", "diff"): "toolsets",
    ("plugins", "info"): "plugins",
    ("plugins", "enable"): "plugins",
    ("plugins", "disable"): "plugins",
    **{("sessions", action): "sessions" for action in ("show", "export", "fork", "resume", "rename", "tag", "delete")},
    ("sessions", "artifacts"): "artifacts",
    ("trace", ""): "sessions",
    ("docs", ""): "pages",
    ("memory", "edit"): "documents",
    ("config", "get"): "keys",
    ("config", "set"): "keys",
    ("config", "unset"): "keys",
    ("config", "show"): "keys",
    **{("ps", action): "processes" for action in ("show", "log", "kill", "attach")},
    **{("cron", action): "jobs" for action in ("run", "pause", "resume", "stop", "remove", "history")},
    ("env", "test"): "backends",
    ("env", "shell"): "backends",
    ("env", "stop"): "backends",
}
"""(command, its action) -> the kind of the words that follow."""
OPTIONS: Mapping[str, str] = {
    "--backend": "backends",
    "--resume": "sessions",
    "--model": "models",
    "--mode": "modes",
    "--profile": "profiles",
    "--platform": "platforms",
    "--toolsets": "toolsets",
    "--include": "toolsets",
    "--of": "people",
}
"""Option -> the kind of its value."""
_MOST = 50
"""Maximum number of sessions, and of models, that are offered."""


_PLAIN = Regex(r"[\w.:/@+-]+", re.ASCII)
"""A name without characters that a shell expands. bash expands the words of a completion list, and a model server could list a
model named ``$(command)``.
"""


def names_of(kind: str, args: argparse.Namespace) -> list[str]:
    """Return the names of a kind that need no quotes. Raises ConfigError if the configuration is broken; asks no server."""
    return [name for name in KINDS[kind](args) if _PLAIN.fullmatch(name)]


def _tools(args: argparse.Namespace) -> Iterable[str]:
    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return crib.granted()


def _toolsets(args: argparse.Namespace) -> Iterable[str]:
    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return crib.catalog.names()


def _backends(args: argparse.Namespace) -> Iterable[str]:
    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return [backend.name for backend in crib.backends.all()]


def _platforms(args: argparse.Namespace) -> Iterable[str]:
    from agent.policy.tool_selection import PREFIX

    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return [name.removeprefix(PREFIX) for name in crib.catalog.names() if name.startswith(PREFIX)]


def _sessions(args: argparse.Namespace) -> Iterable[str]:
    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return [info.id[:12] for info in run_async(crib.store.sessions.list(_MOST))]


def _artifacts(args: argparse.Namespace) -> Iterable[str]:
    """Return ids of sessions that have large results, and the names of these results."""
    from toolcrib.contract.search import SearchFilter

    with open_crib(args, looks=True) as crib:
        found = run_async(crib.store.artifacts.newest(SearchFilter(), _MOST))
        return dict.fromkeys([*(one.session_id[:12] for one in found), *(one.name for one in found)])


def _plugins(args: argparse.Namespace) -> Iterable[str]:
    from agent.config import load_config
    from agent.plugin_host.plugins import discover

    return [info.name for info in discover(load_config(args.config), Path.cwd()) if info.name != "*"]


def _models(args: argparse.Namespace) -> Iterable[str]:
    """Return the models that a server listed within the last hour."""
    from agent.model_choice.catalog import Cache

    return Cache().names()[:_MOST]


def _modes(args: argparse.Namespace) -> Iterable[str]:
    from tools.approval.modes import MODES

    return MODES


def _profiles(args: argparse.Namespace) -> Iterable[str]:
    from agent.config import load_config

    return load_config(args.config, profile="").profiles


def _documents(args: argparse.Namespace) -> Iterable[str]:
    from agent.cli.format_memory import NAMES

    return NAMES


def _people(args: argparse.Namespace) -> Iterable[str]:
    """Return the users of chat platforms who have stored notes."""
    from agent.memory.files import everyone

    return [one.key for one in everyone() if one.key]


def _keys(args: argparse.Namespace) -> Iterable[str]:
    from agent.config import all_keys

    return [key for key in all_keys() if "[]" not in key]


def _values(args: argparse.Namespace) -> Iterable[str]:
    """Return the values that the key of ``args`` accepts, if they can be listed, and its current value."""
    from agent.config import find_key, load_config, value_at
    from toolcrib.contract.errors import ConfigError

    parts, hint = find_key(args.key)
    found: list[str] = []
    for one in typing.get_args(hint) if isinstance(hint, UnionType) else (hint,):
        if one is bool:
            found += ["true", "false"]
        elif one is NoneType:
            found.append("null")
        elif typing.get_origin(one) is Literal:
            found += map(str, typing.get_args(one))
    try:
        if kind := _NAMED.get(".".join(parts), ""):
            found += KINDS[kind](args)
        now = value_at(load_config(args.config, profile=""), parts)
    except ConfigError:  # if the configuration is broken, the user may be repairing this key
        return found
    return dict.fromkeys([*found, str(now)] if isinstance(now, str | int | float) and not isinstance(now, bool) else found)


def _jobs(args: argparse.Namespace) -> Iterable[str]:
    with open_crib(args, looks=True) as crib:
        jobs = run_async(crib.store.cron.jobs(""))
    return [word for job in jobs for word in (job.id, str(job.body.get("name", ""))) if _PLAIN.fullmatch(word)]


def _processes(args: argparse.Namespace) -> Iterable[str]:
    from agent.background.reaching import all_processes

    with open_crib(args, looks=True) as crib:
        return [f"{one['session'][:12]}/{one['name']}" for one in run_async(all_processes(crib))]


def _pages(args: argparse.Namespace) -> Iterable[str]:
    """Return the pages of the manual, and the settings, which are sections of it."""
    from agent.cli.command_pages import pages
    from agent.reference.site import all_pages

    return [*(page.path for page in all_pages(pages())), *_keys(args)]


_NAMED: Mapping[str, str] = {
    "model.name": "models",
    "compression.model": "models",
    "approval.smart.model": "models",
    "terminal.backend": "backends",
}
"""Key of the configuration -> the kind of the names that it accepts."""
KINDS: Mapping[str, Callable[[argparse.Namespace], Iterable[str]]] = {
    "artifacts": _artifacts,
    "backends": _backends,
    "documents": _documents,
    "jobs": _jobs,
    "keys": _keys,
    "models": _models,
    "modes": _modes,
    "pages": _pages,
    "people": _people,
    "platforms": _platforms,
    "plugins": _plugins,
    "processes": _processes,
    "profiles": _profiles,
    "sessions": _sessions,
    "tools": _tools,
    "toolsets": _toolsets,
    "values": _values,
}
