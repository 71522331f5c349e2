"""Checks of `toolcrib doctor`. Each yields findings; a check that breaks is a finding too."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding, Level
from agent.config import BrokenConfig, Config, load_config, state_dir
from toolcrib import ConfigError, StoreFailed, ToolcribError
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.run import Crib

_OLDEST = (3, 11)
_ROOM = 1024 * 1024
_PATIENCE = 2.0
"""Seconds that a model server may take to be connected to."""


def examine(config_file: Path | None, project_dir: Path) -> Iterator[CheckFinding]:
    """All of it, also where the configuration is broken: then what depends on it is left out, and that is said."""
    yield from _guarded("Python", check_python)
    config, faults = read_config(config_file)
    yield from faults
    yield from _guarded("the programs", check_programs)
    yield from _guarded("the state folder", check_state)
    yield from _guarded("the installation", check_installation)
    yield from _guarded("the tools", check_tools)
    if config is None:
        yield CheckFinding("note", "plugins, toolsets and approvals are not checked", "mend the configuration first")
        return
    yield from _guarded("what is configured", lambda: check_assembled(config, project_dir))


def _guarded(what: str, check: Callable[[], Iterator[CheckFinding]]) -> Iterator[CheckFinding]:
    try:
        yield from check()
    except ToolcribError as error:
        yield CheckFinding("wrong", str(error), "do what the message says")
    except PermissionError as error:
        yield CheckFinding(
            "wrong", f"{what} cannot be checked: {error}", "make the file and its folder readable and writable for you"
        )
    except Exception as error:  # noqa: BLE001 - doctor must go on whatever is broken
        yield CheckFinding(
            "wrong", f"{what} cannot be checked: {type(error).__name__}: {error}", "run it with --verbose, and report it"
        )


def check_python() -> Iterator[CheckFinding]:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST:
        yield CheckFinding("wrong", f"Python {found} is too old", f"install Python {'.'.join(map(str, _OLDEST))} or newer")
    else:
        yield CheckFinding("ok", f"Python {found} at {sys.executable}")


def read_config(config_file: Path | None) -> tuple[Config | None, list[CheckFinding]]:
    """(the configuration, or None where it is broken; what there is to say about the file)"""
    try:
        config = load_config(config_file)
    except BrokenConfig as error:
        fix = "mend that line; config.example.yaml explains every key"
        return None, [CheckFinding("wrong", str(fault), fix) for fault in error.faults]
    except ConfigError as error:
        return None, [CheckFinding("wrong", str(error), "do what the message says")]
    if config_file is not None and not config.path.exists():
        return config, [CheckFinding("wrong", f"--config: {config.path} does not exist", "name the file that you mean")]
    if not config.path.exists():
        return config, [CheckFinding("ok", f"no configuration at {config.path}: everything is at its default")]
    if config.path.stat().st_mode & 0o022:
        return config, [CheckFinding("wrong", f"others may write {config.path}", f"chmod go-w {config.path}")]
    return config, [CheckFinding("ok", f"configuration {config.path}")]


def check_programs() -> Iterator[CheckFinding]:
    for name, without, level in (
        ("bash", "the terminal tool has no bash to run commands with", "wrong"),
        ("rg", "search_files works without ripgrep, but slower", "note"),
    ):
        where = shutil.which(name)
        if where:
            yield CheckFinding("ok", f"{name} at {where}")
        elif level == "wrong":
            yield CheckFinding("wrong", without, f"install {name}, and see that it is on PATH")
        else:
            yield CheckFinding("note", without, "install ripgrep")


def check_state() -> Iterator[CheckFinding]:
    folder = state_dir()
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{folder} cannot be written" if nearest == folder else f"{folder} cannot be made below {nearest}"
        yield CheckFinding("wrong", what, "make it writable for you, or set TOOLCRIB_STATE to another folder")
    elif nearest == folder and folder.stat().st_mode & 0o022:
        yield CheckFinding("wrong", f"others may write {folder}", f"chmod 700 {folder}")
    elif why := _unwritable(nearest):
        yield CheckFinding(
            "wrong", f"nothing can be written to the state folder {folder}: {why}", "make room there; until then no tool runs"
        )
    else:
        yield CheckFinding("ok", f"state folder {folder}")


def _unwritable(folder: Path) -> str:
    """Return why a file of some size can't be written there, "" where it can: permissions don't show a full disk or a quota."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def check_installation() -> Iterator[CheckFinding]:
    from agent.cli.installed import compare

    yield from compare()


def check_tools() -> Iterator[CheckFinding]:
    import model_tools
    from toolcrib import registry

    for problem in registry.problems:
        yield CheckFinding(
            "wrong", f"{problem.subject}: {problem.reason}", "reinstall toolcrib, or mend or disable what registers it"
        )
    reasons = registry.availability()
    for name, reason in reasons.items():
        if reason is not None:
            yield CheckFinding("note", f"tool {name} is missing: {reason}", "do that if you want the tool")
    available = sum(reason is None for reason in reasons.values())
    level: Level = "ok" if available else "wrong"
    fix = "" if available else "reinstall toolcrib"
    yield CheckFinding(
        level, f"{available} of {len(reasons)} built-in tools of {len(model_tools.BUILT_IN)} modules can work here", fix
    )


def check_assembled(config: Config, project_dir: Path) -> Iterator[CheckFinding]:
    from agent.cli.names import name_findings
    from agent.cli.storing import check_files
    from agent.confirming import UnconfirmedConfig, unconfirmed
    from agent.run import assemble, open_store
    from toolcrib import registry

    before = len(registry.problems)
    damage = list(check_files(config))
    yield from damage
    if changes := unconfirmed(config):
        yield CheckFinding("wrong", str(UnconfirmedConfig(config, changes)), "toolcrib config confirm, at a terminal")
        yield CheckFinding("note", "plugins, toolsets and approvals are not checked", "confirm the configuration first")
        return
    with assemble(config=config, project_dir=project_dir, store=open_store(config, late=True, looks=True)) as crib:
        is_broken = any(finding.level == "wrong" for finding in damage)
        if not is_broken:
            failed = list(_store(crib))
            yield from failed
            is_broken = bool(failed)
        run_async(crib.start())
        yield from _plugins(crib)
        yield from check_added(crib)
        crib.registry.get_definitions()  # a slow check and a broken schema are seen when they are asked
        for problem in crib.registry.problems[before:]:
            yield CheckFinding("note", f"{problem.subject}: {problem.reason}", problem.fix)
        named = list(name_findings(crib))
        yield from named
        if all(finding.level != "wrong" for finding in named):
            yield from check_granted(crib)
        yield from _allowlist(crib)
        yield from check_smart(crib)
        if crib.platforms:
            from agent.cli.gateway_checks import check_gateway

            yield from _guarded("the gateway", lambda: check_gateway(crib))
        if not is_broken:
            from agent.cli.cron_checks import check_cron

            yield from _guarded("jobs", lambda: check_cron(crib))
        yield from _guarded("the backends", lambda: _backends(crib, project_dir))
        yield from _guarded("the model", lambda: _model(crib))


def _store(crib: Crib) -> Iterator[CheckFinding]:
    try:
        run_async(_first(crib))
    except StoreFailed as error:
        yield CheckFinding("wrong", str(error), "do what the message says; until then no session can be opened")


async def _first(crib: Crib) -> None:
    await crib.store.sessions.list(1)


def _plugins(crib: Crib) -> Iterator[CheckFinding]:
    for info in crib.plugins:
        if info.error:
            fix = f"mend it, or take it out of plugins.enabled in {crib.config.path}"
            yield CheckFinding("wrong", f"plugin {info.name} ({info.source}): {info.error}", fix)
        elif info.loaded:
            yield CheckFinding("ok", f"plugin {' '.join(filter(None, (info.name, info.version)))} ({info.source})")


def check_added(crib: Crib) -> Iterator[CheckFinding]:
    """Find commands of plugins that nobody can reach."""
    from agent.cli.app import built_in
    from agent.slash_commands import SLASH_COMMANDS

    for name, command in crib.slash.items():
        own = SLASH_COMMANDS.get(f"/{name}")
        if own is not None and set(own.surfaces).intersection(command.surfaces):
            fix = "rename the plugin's command"
            yield CheckFinding("wrong", f"a plugin adds /{name}, which the chat has itself", fix)
    for name in crib.commands:
        if name in built_in():
            yield CheckFinding(
                "wrong", f"a plugin adds a command {name!r}, which toolcrib has itself", "rename the plugin's command"
            )


def check_granted(crib: Crib) -> Iterator[CheckFinding]:
    """Find platforms and users that can open no session, beyond the names that they give."""
    for platform in sorted({"cli", *crib.config.platforms}):
        for user in ("", *sorted(crib.config.users)):
            try:
                crib.granted(platform, user=user)
            except ToolcribError as error:
                who = f"platform {platform}" + (f", user {user}" if user else "")
                yield CheckFinding(
                    "wrong", f"{who}: {error}", f"mend {crib.config.path}; until then no session can be opened there"
                )
                break


def _allowlist(crib: Crib) -> Iterator[CheckFinding]:
    if crib.grants.problem is not None:
        yield CheckFinding("wrong", str(crib.grants.problem), "do what the message says; until then no session can be opened")
    for fault in crib.grants.faults:
        yield CheckFinding("wrong", f"command_allowlist: {fault.entry.shown!r} does not count: {fault.reason}", "take it out")
    waiting = crib.grants.unconfirmed()
    if waiting:
        yield CheckFinding(
            "note", f"{len(waiting)} of command_allowlist await your confirmation", "start `toolcrib chat`, which asks"
        )


def check_smart(crib: Crib) -> Iterator[CheckFinding]:
    if not crib.config.approval.smart.enabled:
        return
    from agent.smart import Auxiliary

    try:
        auxiliary = Auxiliary.of(crib.config, crib.providers)
    except ConfigError as error:
        yield CheckFinding("wrong", str(error), f"mend {crib.config.path}; until then no session can be opened")
        return
    endpoint = auxiliary.target.endpoint
    where = f" at {endpoint.server}" if endpoint is not None and endpoint.server else ""
    yield CheckFinding("ok", f"{auxiliary.name or 'the only model'}{where} is asked before a person is (approval.smart)")


def _backends(crib: Crib, project_dir: Path) -> Iterator[CheckFinding]:
    """Open each configured backend, and run a command in it."""
    from agent.backend_check import try_backends

    start = crib.config.terminal.cwd or str(project_dir)
    for tried in try_backends(crib.backends, crib.backends.configured(), str(Path(start).expanduser()), briefly=True):
        what = f"backend {tried.name}" + (", where sessions run" if tried.name == crib.backends.default else "")
        if tried.problem:
            fix = f"do what it says, then `toolcrib env test {tried.name}`; until then nothing runs there, and nothing instead"
            yield CheckFinding("wrong", f"{what}: {tried.problem}", fix)
        else:
            yield CheckFinding("ok", f"{what}: {tried.where}")
            if tried.note:
                yield CheckFinding("note", f"backend {tried.name}: {tried.note}")


def _model(crib: Crib) -> Iterator[CheckFinding]:
    """Find out whether the configured model's server is there, and how the model is to call tools: that is asked of the server,
    unless it was in the last hour.
    """
    from agent.calling import choose_calling, is_hosted
    from agent.models import ModelChoice, choose_provider, environment
    from agent.providers.factory import MANUAL

    environ = environment(crib.config)
    target = choose_provider(crib.config, ModelChoice(), environ)
    endpoint = target.endpoint
    if endpoint is None:
        if crib.config.model.provider != MANUAL:
            fix = "toolcrib config set model '{base_url: \"http://127.0.0.1:11434/v1\", name: qwen3}'"
            yield CheckFinding("note", "no model is configured, so that `toolcrib run` has none to ask", fix)
        return
    if not endpoint.base_url or is_hosted(endpoint):
        return
    if why := _unreached(endpoint.base_url):
        fix = "start the server, or name another: toolcrib config set model.base_url URL"
        yield CheckFinding("wrong", f"the model server {endpoint.server} does not answer: {why}", fix)
        return
    if endpoint.model:
        chosen = run_async(choose_calling(target, crib.config.model.protocol, environ))
        way = f"in its text, as {chosen.protocol}" if chosen.protocol else "natively"
        yield CheckFinding("ok", f"model {endpoint.model} at {endpoint.server} calls tools {way} ({chosen.why})")


def _unreached(base_url: str) -> str:
    """Return why nothing can be connected to there, "" where it can, or where a proxy stands between."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(base_url)
    host = url.hostname or ""
    if not host or (url.scheme in getproxies() and not proxy_bypass(host)):
        return ""
    try:
        socket.create_connection((host, url.port or (443 if url.scheme == "https" else 80)), _PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
