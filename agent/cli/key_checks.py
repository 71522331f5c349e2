"""Checks of keys and of the clock for `toolcrib doctor`: one short request to each configured model server."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding, Repair
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.config import Config
    from agent.model_choice.catalog import ModelServer
    from agent.process import Crib
    from agent.providers.endpoint import Endpoint
    from agent.providers.factory import Plugins
    from agent.providers.http import ServerAnswer

_SECONDS = 5.0
"""Seconds to wait for a server's answer."""
_WRONG = 60.0
"""Seconds that the clock may differ from a server's."""
_BAD_KEY = ("api_key_invalid", "api key not valid", "api key expired")
"""Words in answers of servers that refuse a key with a status other than 401 and 403."""


def check_servers(crib: Crib) -> Iterator[CheckFinding]:
    """Yield findings about the configured keys and about the clock, after one request to each server with its key."""
    yield from check_keys(crib.config, crib.providers)


def check_keys(config: Config, plugins: Plugins) -> Iterator[CheckFinding]:
    from agent.model_choice.call_style import is_hosted
    from agent.model_choice.catalog import configured_servers
    from agent.model_choice.models import environment

    environ = environment(config)
    for name, key in blank_keys(config, environ):
        what = "is set but empty" if name in environ else "is missing"
        where = f"put it into {config.folder / 'secrets.env'} (mode 0600) as a line {name}=..., or set the variable"
        yield CheckFinding(
            "key.empty" if name in environ else "key.missing", "wrong", f"the key {name}, which {key} names, {what}", where
        )
    is_told = False
    for server in configured_servers(config, environ, plugins):
        endpoint = server.endpoint
        if server.target is None or endpoint is None or not endpoint.base_url:
            continue
        if endpoint.key_env is None and is_hosted(endpoint):
            continue  # the server would refuse a request without a key
        try:
            answer = run_async(_ask(server, endpoint, environ))
        except Exception as error:  # noqa: BLE001 - a failing server must not keep the others from being checked
            yield CheckFinding("key.unchecked", "note", f"{server.source}: {endpoint.server} could not be reached: {error}")
            continue
        yield _told(config, server, endpoint, answer)
        clock = _clock(config, plugins, endpoint, answer)
        if clock is not None and not is_told:
            is_told = True
            yield clock


def blank_keys(config: Config, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that the configuration names for keys and that are unset or empty, each with its configuration key."""
    named = [("model.api_key_env", config.model.api_key_env), ("compression.api_key_env", config.compression.api_key_env)]
    named += [(f"model.fallback, entry {number},", one.api_key_env) for number, one in enumerate(config.model.fallback, 1)]
    if config.approval.smart.enabled:
        named.append(("approval.smart.api_key_env", config.approval.smart.api_key_env))
    return [(name, key) for key, name in named if name and not environ.get(name, "").strip()]


async def _ask(server: ModelServer, endpoint: Endpoint, environ: Mapping[str, str]) -> ServerAnswer:
    from agent.providers.http import HttpClient, HttpLimits
    from agent.providers.rows import PROVIDERS, load

    client = HttpClient(endpoint, environ, HttpLimits(_SECONDS, _SECONDS, _SECONDS, total=_SECONDS))
    provider = server.target.provider if server.target is not None else ""
    if provider in PROVIDERS:
        load(PROVIDERS[provider].wire.session).prepare(client)
    try:
        return await client.ask("models")
    finally:
        await client.aclose()


def _told(config: Config, server: ModelServer, endpoint: Endpoint, answer: ServerAnswer) -> CheckFinding:
    status, body = answer.status, answer.body.lower()
    where, key = endpoint.server, endpoint.key_env
    if status in (401, 403) or (status == 400 and any(words in body for words in _BAD_KEY)):
        if key is None:
            text = f"{server.source}: {where} requires a key ({status}), but no key is configured for it"
            return CheckFinding("key.missing", "wrong", text, "set model.api_key_env to the variable with the key")
        how = "reports it as expired" if "expired" in body else "refuses it"
        fix = f"create a new key there, and {_place(config, key)}"
        return CheckFinding("key.refused", "wrong", f"{server.source}: the key in {key}: {where} {how} ({status})", fix)
    if key is None:
        return CheckFinding("key.none", "ok", f"{server.source}: {where} accepts requests without a key")
    if status == 200:
        return CheckFinding("key.taken", "ok", f"{server.source}: {where} accepts the key in {key}")
    return CheckFinding(
        "key.unchecked", "note", f"{server.source}: {where} answers {status}, so the key in {key} could not be checked"
    )


def _place(config: Config, key: str) -> str:
    if os.environ.get(key, "").strip():
        return f"set the variable {key}, which overrides secrets.env"
    return f"put it into {config.folder / 'secrets.env'} as the line {key}=..."


def _clock(config: Config, plugins: Plugins, endpoint: Endpoint, answer: ServerAnswer) -> CheckFinding | None:
    """Compare the clock with the server's. Return None if the answer has no date; the age of a cached answer is subtracted."""
    from email.utils import parsedate_to_datetime

    try:
        told = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
    except ValueError:
        return None
    off = answer.at - told - (int(answer.headers["age"]) if answer.headers.get("age", "").isdecimal() else 0)
    if abs(off) <= _WRONG:
        return CheckFinding("clock.right", "ok", f"the clock agrees with {endpoint.server}")
    way = "ahead of" if off > 0 else "behind"
    text = f"the clock is {_span(abs(off))} {way} that of {endpoint.server}; it shows {time.strftime('%F %T %Z')}"
    return CheckFinding("clock.wrong", "wrong", text, "timedatectl set-ntp true", _clock_repair(config, plugins))


def _clock_repair(config: Config, plugins: Plugins) -> Repair | None:
    from agent.cli.program_checks import install

    if os.geteuid() != 0 or not shutil.which("timedatectl"):  # only root needs no password
        return None
    words = ["timedatectl", "set-ntp", "true"]
    loses = "the machine's clock is set, which takes a while"
    return Repair(" ".join(words), partial(install, words), partial(check_keys, config, plugins), loses, is_outside=True)


def _span(seconds: float) -> str:
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
