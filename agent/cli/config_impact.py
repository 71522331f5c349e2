"""Compare two configurations: which tools each user has, and how calls are approved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from agent.config import Config
from toolcrib.contract.dataclass import dataclass

Who: TypeAlias = tuple[str, str]
"""A platform and one of its users; the user "" stands for all users without settings of their own."""


@dataclass(frozen=True, slots=True)
class Effective:
    """Rights of a user. ``tools`` maps each tool to None if it is granted, else to the reason why it is not. The lines of
    ``approval`` describe how calls are approved.
    """

    tools: Mapping[str, str | None]
    approval: Sequence[str] = ()


Granted: TypeAlias = Mapping[Who, Effective]


def everybody(*configs: Config) -> list[Who]:
    """Return the platforms and users that the configurations name, and the CLI."""
    platforms = sorted({"cli", *(name for config in configs for name in config.platforms)})
    users = sorted({name for config in configs for name in config.users})
    found = [(platform, "") for platform in platforms]
    for user in users:
        platform, colon, name = user.partition(":")
        found += [(platform, name)] if colon else [(one, user) for one in platforms]
    return found


def granted(config: Config, project_dir: Path, who: Sequence[Who]) -> Granted:
    """Return the rights of each user. If a user can't open a session, the error is each tool's reason. Raises ConfigError."""
    from agent.api import assemble
    from agent.policy.permissions import permissions_by
    from agent.store.memory import MemoryStore
    from toolcrib.contract.errors import ToolsetError

    found: dict[Who, Effective] = {}
    with assemble(config=config, project_dir=project_dir, store=MemoryStore()) as crib:
        for platform, user in who:
            try:
                tools = {line.name: line.reason for line in crib.explain(platform, user)}
            except ToolsetError as error:
                found[platform, user] = Effective(dict.fromkeys(crib.registry.names(), f"no session can be opened: {error}"))
                continue
            own = [name for name, reason in tools.items() if reason is None]
            approval = permissions_by(config, platform, own, crib.registry)
            found[platform, user] = Effective(tools, approval.lines())
    return found


def changes(before: Granted, after: Granted) -> Iterator[str]:
    """Yield lines for each user whose tools change, with the reason, or whose calls are approved differently."""
    for who, effective in after.items():
        was = before.get(who, Effective({}))
        platform, user = who
        title = f"{platform}, user {user}" if user else platform
        yield from (f"{title}: {line}" for line in _other_tools(was.tools, effective.tools))
        if was.approval and effective.approval:
            yield from (f"{title}: {line}" for line in other_approval(was.approval, effective.approval))


def _other_tools(was: Mapping[str, str | None], now: Mapping[str, str | None]) -> Iterator[str]:
    added = [name for name, reason in now.items() if reason is None and was.get(name, "") is not None]
    gone = [(name, now.get(name, "there is no such tool")) for name, reason in was.items() if reason is None]
    if added:
        yield f"+ {', '.join(added)}"
    reasons: dict[str | None, list[str]] = {}
    for name, reason in gone:
        if reason is not None:
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield f"- {', '.join(names)}  ({reason})"


def other_approval(was: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield the lines that differ between two descriptions of approvals."""
    yield from (f"- approval: {line}" for line in was if line not in now)
    yield from (f"+ approval: {line}" for line in now if line not in was)
