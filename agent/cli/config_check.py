"""Find all errors of the configuration at once: invalid values, unknown names, and errors that would appear only in a session."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import Config, config_path, read_secrets, sound_part
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, ToolcribError
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from agent.api import Crib


def config_faults(file: Path | None, profile: str | None, project_dir: Path) -> tuple[Config | None, list[str]]:
    """Return the valid part of the configuration, and each error with its file, line and key.

    If the file has errors, its other parts are checked too. Enabled plugins are loaded if the user confirmed the file as it is.
    """
    config, wrong = sound_part(file, profile=profile, project_dir=project_dir)
    faults = [str(fault) for fault in wrong]
    path = config_path(file)
    try:
        read_secrets(path.parent)
    except ConfigError as error:
        faults.append(str(error))
    if path.exists() and path.stat().st_mode & 0o022:
        faults.append(f"others may write {path}: chmod go-w {path}")
    if config is not None:
        faults += _unconfirmed(config) if not wrong else ()
        gone = frozenset(fault.key.partition("]")[0] for fault in wrong)
        for name in ("", *config.profiles):
            other = config if name in ("", config.profile) else sound_part(file, profile=name, project_dir=project_dir)[0]
            faults += [] if other is None else _meant(other, project_dir, gone)
    return config, sorted(dict.fromkeys(faults), key=lambda fault: _line(fault, path))


def refuse_bad_rules(file: Path | None, parts: Sequence[str], value: object) -> None:
    """Raise ConfigError if the new value of a key would add a faulty rule, since no session would start with it."""
    if "approval" not in parts and parts[0] != "profiles":
        return
    from agent.config import load_config, preview

    profile = parts[1] if parts[0] == "profiles" and len(parts) > 1 else ""
    new, old = preview(file, [(parts, value)], profile=profile), load_config(file, profile="")
    if profile in old.profiles:
        old = load_config(file, profile=profile)
    known = {text for _key, _index, text in _rule_faults(old)}
    for _key, _index, text in _rule_faults(new):
        if text not in known:
            raise ConfigError(f"{text}; {new.path} is unchanged")


def faults_at(file: Path | None, parts: Sequence[str], project_dir: Path) -> list[str]:
    """Return the faults that `config check` reports for a key and all keys below it."""
    key = ".".join(parts[2:] if parts[0] == "profiles" else parts)
    about = re.compile(rf": {re.escape(key)}(?![a-z_])")
    return [fault for fault in config_faults(file, "", project_dir)[1] if key and about.search(fault)]


def _line(fault: str, path: Path) -> float:
    """Return the line of the file that an error is about; infinity if it names no line, so that it sorts last."""
    number = fault.partition(f"{path}:")[2].partition(":")[0]
    return float(number) if number.isdecimal() and not fault.startswith(f"{path} ") else float("inf")


def _unconfirmed(config: Config) -> Iterator[str]:
    from agent.policy.confirmation import UnconfirmedConfig, unconfirmed

    try:
        if changes := unconfirmed(config, keep=False):
            yield str(UnconfirmedConfig(config, changes))
    except ConfigError as error:
        yield str(error)


def _meant(config: Config, project_dir: Path, gone: Collection[str]) -> Iterator[str]:
    """Yield errors of well-formed settings. ``gone`` has the keys of list items that were left out as wrong, without "]":
    ``approval.rules[3``.
    """
    from agent.cli.logs import shown_otherwise

    with shown_otherwise(), contextlib.redirect_stdout(sys.stderr):  # a plugin may print when it is loaded
        config, faults = _rules(config, gone)
        yield from faults
        config, faults = _names_of_backends(config)
        yield from faults
        yield from _plain(config, project_dir)
        config, faults = _toolsets(config)
        yield from faults
        yield from _assembled(config, project_dir, is_whole=not gone)


def _rules(config: Config, gone: Collection[str]) -> tuple[Config, list[str]]:
    """Return the configuration with its valid rules, and the errors of the others."""
    approval = config.approval
    found = _rule_faults(config)
    bad = {(key, index) for key, index, _text in found}
    rules = tuple(one for at, one in enumerate(approval.rules) if ("approval.rules", at) not in bad)
    tools = tuple(one for at, one in enumerate(approval.tools) if ("approval.tools", at) not in bad)
    left = replace(config, approval=replace(approval, rules=rules, tools=tools))
    return left, [_of_item(config, key, index, text, gone) for key, index, text in found]


def _rule_faults(config: Config) -> list[tuple[str, int, str]]:
    from tools.approval.operator_rules import rule_faults

    approval = config.approval
    return list(rule_faults([asdict(one) for one in approval.rules], [asdict(one) for one in approval.tools]))


def _of_item(config: Config, key: str, index: int, text: str, gone: Collection[str]) -> str:
    """Return the error of a list's item with its line and its index in the file; items before it may have been left out."""
    number = index
    for at in range(index + len(gone)):
        number += at <= number and f"{key}[{at}" in gone
    where = config.origins.get(f"{key}[{number if f'{key}[{number}]' in config.origins else index}]", config.origin(key))
    return f"{where}: {text.replace(f'{key}[{index}]', f'{key}[{number}]', 1)}"


def _names_of_backends(config: Config) -> tuple[Config, list[str]]:
    from agent.backends import Backends

    try:
        Backends(config, ())
    except ConfigError as error:
        return replace(config, environments=type(config.environments)()), [str(error)]
    return config, []


def _toolsets(config: Config) -> tuple[Config, list[str]]:
    """Return the configuration with its own valid toolsets, and the errors of the others."""
    from toolcrib.contract.errors import ToolsetError
    from toolcrib.contract.registry import ToolRegistry
    from toolsets import ToolsetCatalog

    faults, kept, catalog = [], {}, ToolsetCatalog(ToolRegistry())
    for name, bundle in config.toolsets.custom.items():
        try:
            catalog.add(name, asdict(bundle), source=str(config.path))
            kept[name] = bundle
        except ToolsetError as error:
            faults.append(f"{config.origin(f'toolsets.custom.{name}')}: toolsets.custom: {error}")
    return replace(config, toolsets=replace(config.toolsets, custom=kept)), faults


def _plain(config: Config, project_dir: Path) -> Iterator[str]:
    """Yield errors that can be found without tools and plugins."""
    from agent.api import open_store
    from agent.policy.allowlist import entry_faults

    cwd = config.terminal.cwd
    if cwd is not None and not with_home(cwd).is_dir():
        yield f"{config.origin('terminal.cwd')}: terminal.cwd: expected an existing folder, got {cwd}"
    if config.model.protocol:
        from agent.protocols import find_protocol

        try:
            find_protocol(config.model.protocol)
        except ConfigError as error:
            yield f"{config.origin('model.protocol')}: model.protocol: {error}"
    for fault in entry_faults(config, str(project_dir)):
        at = config.command_allowlist.index(fault.entry)
        where = config.origins.get(f"command_allowlist[{at}]", config.origin("command_allowlist"))
        yield f"{where}: command_allowlist: {fault.entry.shown!r} does not apply: {fault.reason}"
    try:
        open_store(config, late=True)
    except ToolcribError as error:
        yield f"{config.origin('store')}: store: {error}"


def _assembled(config: Config, project_dir: Path, *, is_whole: bool) -> Iterator[str]:
    from agent.api import assemble
    from agent.plugin_host.plugins import discover
    from agent.policy.confirmation import unconfirmed
    from agent.store.memory import MemoryStore

    without = replace(config, plugins=replace(config.plugins, enabled=()))
    if not is_whole:  # a missing file, because permanent grants would be read from the file with errors
        config, without = (replace(one, path=one.path.with_name(".sound.yaml")) for one in (config, without))
    try:
        loads = bool(config.plugins.enabled) and is_whole and not unconfirmed(config, keep=False)
        with assemble(config=config if loads else without, project_dir=project_dir, store=MemoryStore()) as crib:
            brought = () if loads else tuple(f"unknown platform {name!r}" for name in config.plugins.enabled)
            yield from (fault for fault in _in_use(crib) if not any(words in fault for words in brought))
        if config.plugins.enabled and not loads:
            missing = (info for info in discover(config, project_dir) if info.source == "missing")
            yield from (f"{_plugins_key(config)}: {info.name!r}: {info.error}" for info in missing)
            yield "plugins load only after errors are fixed and changes confirmed, so names that they define are unknown"
    except ToolcribError as error:
        yield str(error)


def _plugins_key(config: Config) -> str:
    return f"{config.origin('plugins.enabled')}: plugins.enabled"


def _in_use(crib: Crib) -> Iterator[str]:
    """Yield errors that would occur in a session."""
    from agent.cli.checks import check_added, check_granted, check_smart
    from agent.cli.cron_checks import check_cron_settings
    from agent.cli.gateway_checks import wrong_settings
    from agent.cli.names import name_findings

    config = crib.config
    where = _plugins_key(config)
    yield from (f"{where}: {info.name!r}: {info.error}" for info in crib.plugins if info.error)
    yield from (f"{where}: {finding.text}" for finding in check_added(crib))
    named = [finding.text for finding in name_findings(crib)]
    yield from named
    if not named:
        yield from (finding.text for finding in check_granted(crib) if finding.level == "wrong")
    for finding in check_smart(crib):
        what = finding.text.removeprefix("approval.smart: ")
        if finding.level == "wrong" and not any(what in one for one in named):
            yield f"{config.origin('approval.smart')}: approval.smart: {what}"
    yield from _unset_backends(crib)
    yield from _unknown_backends(crib)
    yield from wrong_settings(crib)
    yield from (finding.text for finding in check_cron_settings(crib))
    yield from _model(crib)


def _unset_backends(crib: Crib) -> Iterator[str]:
    """Yield errors for configured backends that lack a required setting."""
    for backend in crib.backends.configured():
        if backend.missing:
            key = backend.key if backend.name != crib.config.terminal.backend else "terminal.backend"
            yield f"{crib.config.origin(key)}: {key}: the backend {backend.name!r} is unavailable: set {backend.missing}"


def _unknown_backends(crib: Crib) -> Iterator[str]:
    """Yield errors for platforms whose backend is unknown."""
    for name, platform in crib.config.platforms.items():
        try:
            crib.backends.get(platform.backend) if platform.backend else None
        except ConfigError as error:
            key = f"platforms.{name}.backend"
            yield f"{crib.config.origin(key)}: {key}: {error}"


def _model(crib: Crib) -> Iterator[str]:
    from agent.model_choice.models import ModelChoice, choose_provider

    config = crib.config
    try:
        choose_provider(config, ModelChoice())
    except ConfigError as error:
        text = str(error)
        yield text if text.startswith(str(config.path)) else f"{config.origin('model')}: model: {text}"
