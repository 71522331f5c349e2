"""The effect of a change of the configuration: who may use which tools before it, and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from agent.config import Config

Who: TypeAlias = tuple[str, str]
"""A platform, and a user there; "" for anybody."""
Granted: TypeAlias = Mapping[Who, Mapping[str, str | None]]
"""For each of them every tool: None where it is granted, else why not."""


def everybody(*configs: Config) -> list[Who]:
    """List the platforms and users that the configurations name, and the chat."""
    platforms = sorted({"cli", *(name for config in configs for name in config.platforms)})
    users = sorted({name for config in configs for name in config.users})
    found = [(platform, "") for platform in platforms]
    for user in users:
        platform, colon, name = user.partition(":")
        found += [(platform, name)] if colon else [(one, user) for one in platforms]
    return found


def granted(config: Config, project_dir: Path, who: Sequence[Who]) -> Granted:
    """Resolve what each gets. One that can open no session gets nothing, and every reason says why. Raises ConfigError."""
    from agent.run import assemble
    from agent.store.memory import MemoryStore
    from toolcrib import ToolsetError

    found: dict[Who, Mapping[str, str | None]] = {}
    with assemble(config=config, project_dir=project_dir, store=MemoryStore()) as crib:
        for platform, user in who:
            try:
                found[platform, user] = {line.name: line.reason for line in crib.explain(platform, user)}
            except ToolsetError as error:
                found[platform, user] = dict.fromkeys(crib.registry.names(), f"no session can be opened: {error}")
    return found


def changes(before: Granted, after: Granted) -> Iterator[str]:
    """Yield a line for each who gets other tools than before: what is added, and what goes, with the reason."""
    for who, now in after.items():
        was = before.get(who, {})
        added = [name for name, reason in now.items() if reason is None and was.get(name, "") is not None]
        gone = [(name, now.get(name, "there is no such tool")) for name, reason in was.items() if reason is None]
        platform, user = who
        title = f"{platform}, user {user}" if user else platform
        if added:
            yield f"{title}: + {', '.join(added)}"
        reasons: dict[str | None, list[str]] = {}
        for name, reason in gone:
            if reason is not None:
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield f"{title}: - {', '.join(names)}  ({reason})"
