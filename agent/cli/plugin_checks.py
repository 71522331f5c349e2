"""Checks of plugins for `toolcrib doctor`. Reasons for a failure: not installed, a duplicate name, a missing library."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding, Repair
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.plugin_host.plugins import PluginInfo
    from agent.process import Crib

_NAME = Regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = Regex(r"""extra\s*==\s*["']([A-Za-z0-9._-]+)["']""")
_CONFLICTS = (("may not replace the tool", "plugin.tool-conflict"), ("the name is taken by", "plugin.name-conflict"))
_OTHERS_EXTRA = {"webhook": "gateway"}
"""Bundled plugins that need an extra with another name -> the extra."""


def check_plugins(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about how each enabled plugin was loaded, and about the libraries of bundled plugins."""
    bundled = [info.name for info in crib.plugins if info.source == "bundled" and info.enabled]
    lacking = list(check_extras(tuple(_OTHERS_EXTRA.get(name, name) for name in bundled)))
    yield from lacking
    for info in crib.plugins:
        if info.error:
            yield from without_told([_failed(crib, info)], lacking)
        elif info.loaded:
            yield CheckFinding(
                "plugin.loaded", "ok", f"plugin {' '.join(filter(None, (info.name, info.version)))} ({info.source})"
            )
    for info in _hidden(crib):
        yield _failed(crib, info)
    yield from _idle(crib)


def _idle(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about configured platforms that no gateway would serve, because their plugin is not enabled."""
    from agent.plugin_host.plugins import discover

    lacking = set(crib.config.platforms) - set(crib.platforms)
    for info in discover(crib.config, crib.project_dir) if lacking else ():
        if info.name in lacking and not info.enabled:
            text = f"platforms.{info.name} is set, but no gateway serves it: the plugin {info.name} is not enabled"
            yield CheckFinding("plugin.platform-idle", "note", text, f"toolcrib plugins enable {info.name}")


def without_told(found: Iterable[CheckFinding], lacking: Collection[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield the findings, except those about an extra that is already reported as missing."""
    for one in found:
        if not any(lack.fix and lack.fix in f"{one.text} {one.fix}" for lack in lacking):
            yield one


def _hidden(crib: Crib) -> Iterator[PluginInfo]:
    """Yield plugins that are enabled by name, but hidden by another plugin of the same name."""
    from agent.plugin_host.plugins import canonical, discover

    enabled = {canonical(name) for name in crib.config.plugins.enabled}
    for info in discover(crib.config, crib.project_dir) if enabled else ():
        if canonical(info.name) in enabled and info.error.startswith("the name is taken by"):
            yield info


def _failed(crib: Crib, info: PluginInfo) -> CheckFinding:
    path, text = crib.config.path, f"plugin {info.name} ({info.source}): {info.error}"
    if info.source == "missing":
        return CheckFinding("plugin.not-installed", "wrong", text, f"install it, or: toolcrib plugins disable {info.name}")
    name = next((name for words, name in _CONFLICTS if words in info.error), "plugin.failed")
    fix = f"fix it, or remove it from plugins.enabled in {path}"
    if name == "plugin.tool-conflict":
        fix = f"set in {path} which plugin has priority, as the message describes, or: toolcrib plugins disable {info.name}"
    elif name == "plugin.name-conflict":
        fix = "rename or remove one of them"
    return CheckFinding(name, "wrong", text, fix)


def check_extras(extras: tuple[str, ...]) -> Iterator[CheckFinding]:
    """Yield findings about extras of toolcrib whose libraries are not installed."""
    from agent.cli.installed import installing
    from agent.cli.program_checks import install

    for extra in extras:
        if missing := _missing(extra):
            words = installing(extra)
            does = " ".join(f"'{word}'" if "[" in word else word for word in words)
            text = f"a plugin or setting needs the extra {extra!r}, but {', '.join(missing)} is not installed"
            again = partial(check_extras, (extra,))
            cost = "the packages of this Python installation are changed"
            repair = Repair(does, partial(install, words), again, cost, is_outside=True)
            yield CheckFinding("plugin.extra-missing", "wrong", text, f"pip install 'toolcrib[{extra}]'", repair)


def _missing(extra: str) -> list[str]:
    """Return the missing distributions of an extra; an empty list if toolcrib itself is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    missing = []
    try:
        wanted = distribution("toolcrib").requires or []
    except PackageNotFoundError:
        return []
    for requirement in wanted:
        marker = _EXTRA.search(requirement)
        if marker is None or marker[1] != extra:
            continue
        try:
            distribution(named(requirement))
        except PackageNotFoundError:
            missing.append(named(requirement))
    return missing


def named(requirement: str) -> str:
    """Return the name of the distribution in a requirement such as ``httpx>=0.27``."""
    name = _NAME.match(requirement)
    return name[0] if name is not None else requirement
