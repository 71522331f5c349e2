"""Checks of `toolcrib doctor`. Each yields findings; an exception that a check raises is reported as a finding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding, Level
from agent.cli.guarding import guarded, isolated
from agent.config import BrokenConfig, Config, config_path, load_config, state_dir
from toolcrib.contract.errors import ConfigError, StoreFailed, ToolcribError
from toolcrib.contract.paths import with_home
from toolcrib.contract.registry import registry
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.api import Crib

_ROOM = 1024 * 1024
_STORE_SECONDS = 900.0
"""Seconds that a check of the whole store may take: some stores are large."""
_PATIENCE = 2.0
"""Seconds to wait for a connection to a model server."""


def examine(config_file: Path | None, project_dir: Path, *, offline: bool = False) -> Iterator[CheckFinding]:
    """Yield the findings of all checks. If the configuration is broken, skip the checks that depend on it, and yield a note
    about that.

    ``offline`` skips checks that ask a server or another host.
    """
    told = list[str]()
    for one in _examined(config_file, project_dir, offline=offline):
        if one.id == "check.failed" and one.text.startswith(tuple(told)):
            yield _unchecked("fix the problem above first")  # the fault was reported already
            continue
        told += [one.text] if one.level == "wrong" else []
        yield one


def _unchecked(fix: str) -> CheckFinding:
    return CheckFinding("config.unchecked", "note", "plugins, toolsets and approvals were not checked", fix)


def _examined(config_file: Path | None, project_dir: Path, *, offline: bool) -> Iterator[CheckFinding]:
    from agent.cli.leftover_checks import check_leftovers
    from agent.cli.machine_checks import check_disk, check_python, check_zone
    from agent.cli.permission_checks import check_permissions
    from agent.cli.program_checks import check_programs
    from agent.cli.sandbox_checks import check_sandbox

    yield from guarded("Python", check_python)
    config, faults = read_config(config_file)
    yield from faults
    yield from guarded("permissions", lambda: check_permissions(config_path(config_file)))
    yield from guarded("the programs", check_programs)
    yield from guarded("the sandbox", lambda: check_sandbox(config))
    yield from guarded("the state folder", check_state)
    yield from guarded("the disk", check_disk)
    yield from guarded("the time zone", check_zone)
    yield from guarded("the installation", check_installation, 120.0)
    yield from guarded("the tools", check_tools)
    if config is None:
        yield _unchecked("fix the configuration first")
        return
    yield from isolated("the configured parts", check_assembled(config, project_dir, offline=offline))
    # last: a check that opens a backend also removes the leftovers that a session's start would remove
    yield from guarded("remains of ended processes", lambda: check_leftovers(config), 60.0)


def read_config(config_file: Path | None) -> tuple[Config | None, list[CheckFinding]]:
    """Return the configuration, or None if it is broken, and findings about the file."""
    try:
        config = load_config(config_file)
    except BrokenConfig as error:
        fix = "fix that line; `toolcrib docs KEY` explains a key, `toolcrib docs settings` lists all keys"
        return None, [CheckFinding("config.broken", "wrong", str(fault), fix) for fault in error.faults]
    except ConfigError as error:
        return None, [CheckFinding("config.broken", "wrong", str(error), "follow the message")]
    if config_file is not None and not config.path.exists():
        return config, [
            CheckFinding("config.missing", "wrong", f"--config: {config.path} does not exist", "give an existing file")
        ]
    if not config.path.exists():
        return config, [CheckFinding("config.none", "ok", f"no configuration at {config.path}: every key has its default")]
    return config, [CheckFinding("config.sound", "ok", f"configuration {config.path}")]


def check_state() -> Iterator[CheckFinding]:
    folder = state_dir()
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{folder} cannot be written" if nearest == folder else f"{folder} cannot be created in {nearest}"
        yield CheckFinding("state.unwritable", "wrong", what, "make it writable by you, or set TOOLCRIB_STATE to another folder")
    elif why := _unwritable(nearest):
        yield CheckFinding(
            "state.full",
            "wrong",
            f"nothing can be written to the state folder {folder}: {why}",
            "free some space; until then no tool runs",
        )
    else:
        yield CheckFinding("state.folder", "ok", f"state folder {folder}")


def _unwritable(folder: Path) -> str:
    """Return why a file of some size can't be written in the folder, or "". Permissions don't show a full disk or a quota."""
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

    for problem in registry.problems:
        yield CheckFinding(
            "tools.broken",
            "wrong",
            f"{problem.subject}: {problem.reason}",
            "reinstall toolcrib, or fix or disable the plugin that registers it",
        )
    reasons = registry.availability()
    for name, reason in reasons.items():
        if reason is not None:
            yield CheckFinding("tools.missing", "note", f"tool {name} is missing: {reason}", "see the reason")
    available = sum(reason is None for reason in reasons.values())
    level: Level = "ok" if available else "wrong"
    fix = "" if available else "reinstall toolcrib"
    yield CheckFinding(
        "tools.count",
        level,
        f"{available} of {len(reasons)} built-in tools of {len(model_tools.BUILT_IN)} modules are available",
        fix,
    )


def check_assembled(config: Config, project_dir: Path, *, offline: bool = False) -> Iterator[CheckFinding]:
    from agent.api import assemble, open_store
    from agent.cli.storing import check_files
    from agent.policy.confirmation import UnconfirmedConfig, unconfirmed

    before = len(registry.problems)
    damage = list(guarded("the store", lambda: check_files(config), _STORE_SECONDS))
    yield from damage
    if changes := unconfirmed(config):
        text = str(UnconfirmedConfig(config, changes))
        yield CheckFinding("config.unconfirmed", "wrong", text, "toolcrib config confirm, at a terminal")
        yield _unchecked("confirm the configuration first")
        return
    with ExitStack() as stack:
        made: list[Crib] = []

        def start() -> Iterator[CheckFinding]:
            store = open_store(config, late=True, looks=True)
            made.append(stack.enter_context(assemble(config=config, project_dir=project_dir, store=store)))
            yield from ()

        yield from guarded("the configured parts", start, 60.0)
        for crib in made:
            yield from _in_use(crib, project_dir, before, is_broken=any(one.level == "wrong" for one in damage), offline=offline)


def _in_use(crib: Crib, project_dir: Path, before: int, *, is_broken: bool, offline: bool) -> Iterator[CheckFinding]:
    """Check everything that a session uses. ``before`` is the registry's number of problems before plugins were loaded."""
    from agent.cli.cron_checks import check_cron
    from agent.cli.gateway_checks import check_gateway
    from agent.cli.key_checks import check_servers
    from agent.cli.leftover_checks import check_containers
    from agent.cli.plugin_checks import check_plugins, without_told

    if not is_broken:
        failed = list(guarded("the store", lambda: _store(crib), _STORE_SECONDS))
        yield from failed
        is_broken = bool(failed)
    yield from guarded("the start of plugins", lambda: _started(crib), 90.0)
    plugins = list(guarded("the plugins", lambda: check_plugins(crib)))
    yield from plugins
    yield from guarded("the toolsets", lambda: _named(crib, before))
    yield from guarded("the allowlist", lambda: _allowlist(crib))
    yield from guarded("approval.smart", lambda: check_smart(crib))
    if crib.platforms and not offline:
        lacking = [one for one in plugins if one.id == "plugin.extra-missing"]
        found = guarded("the gateway", lambda: check_gateway(crib), 30.0 + 20.0 * len(crib.platforms))
        yield from without_told(found, lacking)
    if not is_broken:
        yield from guarded("jobs", lambda: check_cron(crib))
    yield from guarded("the backends", lambda: _backends(crib, project_dir, offline=offline), 180.0)
    # after the backends: opening one removes the leftovers of its kind from its engine
    yield from guarded("containers", lambda: check_containers(crib.config), 60.0)
    if offline:
        what = "model servers, keys, the clock, chat platforms and backends on other hosts were not checked"
        yield CheckFinding("offline", "note", what, "run doctor without --offline")
        return
    yield from guarded("the model", lambda: _model(crib))
    yield from guarded("the keys and the clock", lambda: check_servers(crib), 60.0)


def _started(crib: Crib) -> Iterator[CheckFinding]:
    run_async(crib.start())
    yield from ()


def _named(crib: Crib, before: int) -> Iterator[CheckFinding]:
    from agent.cli.names import name_findings

    yield from check_added(crib)
    crib.registry.get_definitions()  # this reveals slow availability checks and broken schemas
    for problem in crib.registry.problems[before:]:
        yield CheckFinding("tools.problem", "note", f"{problem.subject}: {problem.reason}", problem.fix)
    named = list(name_findings(crib))
    yield from named
    if all(finding.level != "wrong" for finding in named):
        yield from check_granted(crib)


def _store(crib: Crib) -> Iterator[CheckFinding]:
    try:
        run_async(_first(crib))
    except StoreFailed as error:
        yield CheckFinding("store.unreadable", "wrong", str(error), "follow the message; until then no session can be opened")


async def _first(crib: Crib) -> None:
    await crib.store.sessions.list(1)


def check_added(crib: Crib) -> Iterator[CheckFinding]:
    """Yield a finding for each command of a plugin that is unreachable because toolcrib has a command of that name."""
    from agent.cli.app import built_in
    from agent.desk.commands import SLASH_COMMANDS

    for name, command in crib.slash.items():
        own = SLASH_COMMANDS.get(f"/{name}")
        if own is not None and set(own.surfaces).intersection(command.surfaces):
            fix = "rename the plugin's command"
            yield CheckFinding("plugin.slash", "wrong", f"a plugin adds /{name}, which is a command of the chat", fix)
    for name in crib.commands:
        if name in built_in():
            yield CheckFinding(
                "plugin.command",
                "wrong",
                f"a plugin adds a command {name!r}, which is a command of toolcrib",
                "rename the plugin's command",
            )


def check_granted(crib: Crib) -> Iterator[CheckFinding]:
    """Yield a finding for each platform that can't open a session for some user, and name the first such user.

    Call this only if name_findings found no unknown name in the settings of platforms and users.
    """
    for platform in sorted({"cli", *crib.config.platforms}):
        for user in ("", *sorted(crib.config.users)):
            try:
                crib.granted(platform, user=user)
            except ToolcribError as error:
                who = f"platform {platform}" + (f", user {user}" if user else "")
                yield CheckFinding(
                    "platform.closed",
                    "wrong",
                    f"{who}: {error}",
                    f"fix {crib.config.path}; until then no session can be opened there",
                )
                break


def _allowlist(crib: Crib) -> Iterator[CheckFinding]:
    if crib.grants.problem is not None:
        yield CheckFinding(
            "allowlist.broken", "wrong", str(crib.grants.problem), "follow the message; until then no session can be opened"
        )
    for fault in crib.grants.faults:
        yield CheckFinding(
            "allowlist.entry", "wrong", f"command_allowlist: {fault.entry.shown!r} does not apply: {fault.reason}", "remove it"
        )
    waiting = crib.grants.unconfirmed()
    if waiting:
        yield CheckFinding(
            "allowlist.unconfirmed",
            "note",
            f"unconfirmed entries of command_allowlist: {len(waiting)}",
            "start `toolcrib chat`, which asks",
        )


def check_smart(crib: Crib) -> Iterator[CheckFinding]:
    if not crib.config.approval.smart.enabled:
        return
    from agent.policy.smart import Auxiliary

    try:
        auxiliary = Auxiliary.of(crib.config, crib.providers)
    except ConfigError as error:
        yield CheckFinding("smart.broken", "wrong", str(error), f"fix {crib.config.path}; until then no session can be opened")
        return
    endpoint = auxiliary.target.endpoint
    where = f" at {endpoint.server}" if endpoint is not None and endpoint.server else ""
    yield CheckFinding(
        "smart.asked", "ok", f"{auxiliary.name or 'the only model'}{where} is asked before the user (approval.smart)"
    )


def _backends(crib: Crib, project_dir: Path, *, offline: bool) -> Iterator[CheckFinding]:
    """Open each configured backend, and run a command in it."""
    from agent.backend_check import try_backends

    start = crib.config.terminal.cwd or str(project_dir)
    wanted = [one for one in crib.backends.configured() if not (offline and one.is_remote)]
    for tried in try_backends(crib.backends, wanted, str(with_home(start)), briefly=True):
        what = f"backend {tried.name}" + (", where sessions run" if tried.name == crib.backends.default else "")
        if tried.problem:
            fix = f"follow the message, then run `toolcrib env test {tried.name}`; until then no command runs there"
            yield CheckFinding("backend.broken", "wrong", f"{what}: {tried.problem}", fix)
        else:
            yield CheckFinding("backend.works", "ok", f"{what}: {tried.where}")
            if tried.note:
                yield CheckFinding("backend.note", "note", f"backend {tried.name}: {tried.note}")


def _model(crib: Crib) -> Iterator[CheckFinding]:
    """Check whether the server of a configured model that no vendor hosts answers, and find out how the model calls tools. How it
    calls them is cached for an hour.
    """
    from agent.cli.key_checks import blank_keys
    from agent.model_choice.call_style import choose_calling, is_hosted
    from agent.model_choice.models import ModelChoice, choose_provider, environment
    from agent.providers.rows import MANUAL

    environ = environment(crib.config)
    if any(key == "model.api_key_env" for _, key in blank_keys(crib.config, environ)):
        return  # reported with the other keys
    target = choose_provider(crib.config, ModelChoice(), environ)
    endpoint = target.endpoint
    if endpoint is None:
        if crib.config.model.provider != MANUAL:
            fix = "toolcrib config set model '{base_url: \"http://127.0.0.1:11434/v1\", name: qwen3}'"
            yield CheckFinding("model.none", "note", "no model is configured, so `toolcrib run` cannot work", fix)
        return
    if not endpoint.base_url or is_hosted(endpoint):
        return
    if why := _unreached(endpoint.base_url):
        fix = "start the server, or set another: toolcrib config set model.base_url URL"
        yield CheckFinding("model.unreached", "wrong", f"the model server {endpoint.server} does not answer: {why}", fix)
        return
    if endpoint.model:
        chosen = run_async(choose_calling(target, crib.config.model.protocol, environ))
        way = f"in its text, as {chosen.protocol}" if chosen.protocol else "natively"
        yield CheckFinding("model.calling", "ok", f"model {endpoint.model} at {endpoint.server} calls tools {way} ({chosen.why})")


def _unreached(base_url: str) -> str:
    """Return why no connection to the URL's host is possible; "" if one is, or if a proxy is configured."""
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
