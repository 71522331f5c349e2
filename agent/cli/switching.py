"""``/model`` in the chat: find the model and the server that a name refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.model_choice.catalog import ModelServer, Offer, ask_servers, configured_servers
from agent.model_choice.models import ModelChoice, choose_provider, environment
from agent.providers._history import same_model
from agent.providers.factory import ModelTarget, check_name
from agent.providers.rows import MANUAL, PROVIDERS
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, ToolcribError
from toolcrib.contract.suggest import near

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.cli.itemreader import ItemReader

_SECONDS = 4.0
_SHOWN = 10


async def offers(chat: Conversation, *, refresh: bool = False) -> list[Offer]:
    """Return the models of this session's server, then those of the other configured servers. Waits a few seconds at most."""
    crib = chat.opening.crib
    environ = environment(crib.config)
    current = _current(chat)
    others = configured_servers(crib.config, environ, crib.providers)
    if current is not None:
        others = [server for server in others if _base(server) != current.endpoint.base_url] if current.endpoint else others
        others.insert(0, ModelServer("this session", current))
    return await ask_servers(others, environ, refresh=refresh, seconds=_SECONDS)


def also_there(found: Sequence[Offer], model: str) -> list[str]:
    """Return lines about the models of each server, except the current ``model``."""
    lines = []
    for offer in found:
        here = offer.server.source == "this session"
        names = [one.name for one in offer.models if not (here and one.name == model)]
        where = "" if here or offer.server.endpoint is None else f" at {offer.server.endpoint.server} ({offer.server.source})"
        if names:
            more = f", ... ({len(names)} in total; list them: toolcrib models)" if len(names) > _SHOWN else ""
            lines.append(f"also there{where}: {', '.join(names[:_SHOWN])}{more}")
        elif not here and offer.fault:
            lines.append(f"{offer.server.source}: {offer.fault}")
    return lines or ["the server lists no other models"]


async def pick_model(chat: Conversation, found: Sequence[Offer], reader: ItemReader) -> ModelChoice | None:
    """Return the model that the user picks from a list of all servers' models, or None if they leave the list."""
    from agent.cli.screen.list_picker import PickItem

    items: list[PickItem] = []
    choices: list[ModelChoice] = []
    for offer in found:
        target = offer.server.target
        if target is None or target.endpoint is None:
            continue
        is_current = offer.server.source == "this session"
        for model in offer.models:
            context = "" if model.context is None else f"{model.context:,} tokens of context"
            source = "" if is_current else offer.server.source
            about = " · ".join(part for part in (context, target.endpoint.server, source) if part)
            value = "current" if is_current and model.name == chat.model else str(len(choices))
            items.append(PickItem(value, model.name, f"{about} · in use" if value == "current" else about))
            choices.append(_choice(target, model.name))
    if (picked := await reader.pick(items, "Switch the model", "current")) is None or picked == "current":
        return None
    return choices[int(picked)]


async def choose(chat: Conversation, words: Sequence[str]) -> ModelChoice:
    """Return the model of ``/model NAME`` or ``/model PROVIDER NAME``. Raises ToolcribError with the nearest name if unknown."""
    if list(words) == [MANUAL]:
        return ModelChoice(provider=MANUAL)
    if len(words) == 2:
        return _of_provider(chat, *words)
    if len(words) != 1:
        raise ToolcribError("use /model NAME, or /model PROVIDER NAME")
    (name,) = words
    found = await offers(chat)
    choice = _listed(found, name)
    if choice is None and any(offer.age for offer in found):
        found = await offers(chat, refresh=True)
        choice = _listed(found, name)
    if choice is not None:
        return choice
    current = _current(chat)
    if current is not None and found[0].fault:  # the server does not list its models, so the name may be right
        return _choice(current, name)
    raise ToolcribError(_no_such(found, name, current))


def _listed(found: Sequence[Offer], name: str) -> ModelChoice | None:
    """Return the model with exactly this name, at the first server that has it; else one with a similar name, or None."""
    closest: ModelChoice | None = None
    for offer in found:
        target = offer.server.target
        if target is None or target.endpoint is None:
            continue
        names = {target.endpoint.model, *(model.name for model in offer.models)}
        if name in names:
            return _choice(target, name)
        alike = [one for one in sorted(names) if one and (same_model(name, one) or one.startswith(f"{name}:"))]
        if closest is None and alike:  # a server accepts a name without date or tag, but not without the vendor
            closest = _choice(target, alike[0] if "/" in alike[0] else name)
    return closest


def _no_such(found: Sequence[Offer], name: str, current: ModelTarget | None) -> str:
    if current is None and not found:
        return f"no server for {name!r}: none is configured"
    alike = near(name, [one.name for offer in found for one in offer.models], cutoff=0.4)
    hint = f"did you mean {alike[0]!r}?" if alike else "list models: /model."
    provider = "PROVIDER" if current is None else current.provider
    words = f"the server does not list {name!r}" if len(found) == 1 else f"no configured server lists {name!r}"
    return f"{words}; {hint} To use it anyway: /model {provider} {name}"


def _of_provider(chat: Conversation, provider: str, name: str) -> ModelChoice:
    """Return the model at the first server that supports the provider: this session's, a configured one, or the vendor's."""
    crib = chat.opening.crib
    check_name(provider, crib.providers)
    if provider == MANUAL:
        raise ToolcribError("/model manual takes no model name")
    current = _current(chat)
    if current is not None and _speak_alike(current.provider, provider):
        return replace(_choice(current, name), provider=provider)
    for server in configured_servers(crib.config, environment(crib.config), crib.providers):
        if server.target is not None and _speak_alike(server.target.provider, provider):
            return replace(_choice(server.target, name), provider=provider)
    choice = ModelChoice(name, provider=provider)
    choose_provider(crib.config, choice)  # raises if the key is not set
    return choice


def _speak_alike(one: str, other: str) -> bool:
    """Return whether a server for one provider also supports the other."""
    if one == other:
        return True
    return one in PROVIDERS and other in PROVIDERS and PROVIDERS[one].vendor == PROVIDERS[other].vendor


def _current(chat: Conversation) -> ModelTarget | None:
    # A user who types calls by hand has no current server: use the one that was named when the chat began.
    choice = chat.named if chat.choice.provider == MANUAL else chat.choice
    try:
        target = choose_provider(chat.opening.crib.config, choice)
    except ConfigError:
        return None
    if target.endpoint is None:
        return None
    return replace(target, endpoint=replace(target.endpoint, model=chat.model or target.endpoint.model))


def _choice(target: ModelTarget, name: str) -> ModelChoice:
    """Return the choice of the model ``name`` at the target's server, with that server's key."""
    assert target.endpoint is not None  # noqa: S101 - the manual provider has no endpoint, and callers exclude it
    return ModelChoice(name, target.endpoint.base_url, target.endpoint.key_env or "", target.provider)


def _base(server: ModelServer) -> str:
    return "" if server.endpoint is None else server.endpoint.base_url
