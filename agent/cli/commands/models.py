"""``toolcrib models``: the models of the configured servers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, open_crib
from agent.cli.escape import one_line, tame
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, ProviderError, ToolcribError
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.model_choice.catalog import Offer
    from agent.process import Crib
    from agent.providers.factory import ModelTarget
    from agent.providers.listing import ModelInfo

HELP = "List the models of the configured servers, their limits, and whether they support tool calls."
_EPILOG = """\
examples:
  toolcrib models
  toolcrib models qwen                      only models with qwen in their name
  toolcrib models qwen3-coder --probe       ask the model whether it supports tool calls, with one tiny request
  toolcrib models --json --refresh

toolcrib asks the servers of model and model.fallback, and vendors whose keys are set. Other servers on this machine are listed,
but used only if you configure them. `tools` is yes or no if the server reports it; if it is no, or the provider is text, the
text protocol for the model follows. Answers are cached for an hour.

The exit code is 1 if no server answered.
"""
_SHOWN = ("name", "context", "tools", "protocol")
"""Fields of a model in --json."""

_PROBES = 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="only models whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--refresh", action="store_true", help="ignore cached answers")
    parser.add_argument(
        "--probe", action="store_true", help=f"ask the models themselves, {_PROBES} at most; this may cost a little"
    )


def run(args: argparse.Namespace) -> int:
    with open_crib(args) as crib:
        offers, told = run_async(_ask(crib, args))
    if args.json:
        print(json.dumps([_as_json(offer, args.name) for offer in offers], ensure_ascii=False, indent=2))
    else:
        _show(offers, args.name)
    for line in told:
        print(f"toolcrib: {tame(line)}", file=sys.stderr)
    answered = any(not offer.fault for offer in offers)
    return OK if answered else FAILED


async def _ask(crib: Crib, args: argparse.Namespace) -> tuple[list[Offer], list[str]]:
    """Return the offers, and the errors of probes."""
    from agent.model_choice.catalog import ask_servers, configured_servers, local_servers
    from agent.model_choice.models import environment

    environ = environment(crib.config)
    servers = configured_servers(crib.config, environ, crib.providers)
    servers += await local_servers(servers)
    offers = await ask_servers(servers, environ, refresh=args.refresh)
    return await _probe(offers, args.name, environ) if args.probe else (offers, [])


async def _probe(offers: Sequence[Offer], name: str, environ: Mapping[str, str]) -> tuple[list[Offer], list[str]]:
    from agent.model_choice.catalog import FOUND, probe_tools

    chosen = [_to_probe(offer, name) for offer in offers if FOUND not in offer.server.source]
    count = sum(map(len, chosen))
    if not count:
        raise ToolcribError("no model to probe: name one, as in `toolcrib models NAME --probe`")
    if count > _PROBES:
        raise ToolcribError(f"{count} models have {name!r} in their name; a probe takes {_PROBES} at most: use a longer name")
    told: list[str] = []

    async def ask(target: ModelTarget, model: ModelInfo) -> ModelInfo:
        try:
            answer = await probe_tools(target, model.name, environ)
        except (ProviderError, ConfigError) as error:
            told.append(f"{model.name}: {error}")
            return model
        return model if answer is None else replace(model, tools=answer)

    found = []
    for offer in offers:
        asked: dict[str, ModelInfo] = {}
        if offer.server.target is not None and FOUND not in offer.server.source:
            asked = {one.name: await ask(offer.server.target, one) for one in _to_probe(offer, name)}
        found.append(replace(offer, models=tuple(asked.get(one.name, one) for one in offer.models)))
    return found, told


def _to_probe(offer: Offer, name: str) -> list[ModelInfo]:
    """Return the model with that name, else the models whose names contain it; without a name, the configured model."""
    endpoint = offer.server.endpoint
    exact = name or (endpoint.model if endpoint is not None else "")
    same = [one for one in offer.models if one.name == exact]
    return same or (_matching(offer, name) if name else [])


def _matching(offer: Offer, name: str) -> list[ModelInfo]:
    return [one for one in offer.models if name.lower() in one.name.lower()]


# -- output ----------------------------------------------------------------------------------------------------------------


def _show(offers: Sequence[Offer], name: str) -> None:
    from agent.cli.render import table

    if not offers:
        from agent.cli.offer import HOW

        print(f"no server is configured.\n{HOW.format(command='chat')}")
    for offer in offers:
        server = offer.server
        where = server.endpoint.server if server.endpoint is not None else ""
        provider = server.target.provider if server.target is not None else ""
        age = f"; cached {offer.age / 60:.0f} min ago, --refresh asks again" if offer.age else ""
        print(" ".join(filter(None, (provider, where))) + ("  " if provider else "") + f"({server.source}{age})")
        if offer.fault:
            print(f"  ✗ {tame(offer.fault)}")
        rows = [_row(one, offer) for one in _matching(offer, name)]
        if rows:
            table([("", "model", "context", "tools"), *rows])
        elif not offer.fault:
            print(f"  no model with {name!r} in its name" if name else "  no models")


def _row(model: ModelInfo, offer: Offer) -> tuple[str, str, str, str]:
    used = offer.server.endpoint is not None and offer.server.endpoint.model == model.name
    context = "unknown" if model.context is None else f"{model.context:,}"
    tools = {True: "yes", False: "no", None: "unknown"}[model.tools]
    protocol = _protocol(model, offer)
    return "*" if used else "", one_line(model.name, 80), context, f"{tools}; in text as {protocol}" if protocol else tools


def _protocol(model: ModelInfo, offer: Offer) -> str:
    """Return the text protocol that this model would get here if none is configured; "" if its calls are native."""
    from agent.model_choice.call_style import text_protocol
    from agent.providers.rows import DEFAULT, IN_TEXT

    provider = offer.server.target.provider if offer.server.target is not None else ""
    if provider == IN_TEXT or (provider == DEFAULT and model.tools is False):
        return text_protocol(model.name, template=model.protocol)[0]
    return ""


def _as_json(offer: Offer, name: str) -> dict[str, Any]:
    from agent.model_choice.catalog import FOUND

    server = offer.server
    return {
        "source": server.source,
        "provider": server.target.provider if server.target is not None else None,
        "base_url": server.endpoint.base_url if server.endpoint is not None else None,
        "configured": FOUND not in server.source,
        "model": (server.endpoint.model or None) if server.endpoint is not None else None,
        "error": offer.fault or None,
        "age": round(offer.age),
        "models": [{field: getattr(one, field) for field in _SHOWN} for one in _matching(offer, name)],
    }
