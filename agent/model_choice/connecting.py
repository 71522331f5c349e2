"""Connect a session to a model: the recorded one or another, with its fallbacks, continuing from the recorded messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent.model_choice.fallback import Fallback, FallbackSession
from agent.model_choice.models import ModelChoice, choose_provider, environment, find_endpoint, via_of
from agent.model_choice.prices import Prices
from agent.providers.abilities import model_of
from agent.providers.endpoint import Endpoint, same_server
from agent.providers.factory import ModelRequest, ModelTarget, ProviderOpening, check_name, find_target, open_session
from agent.providers.rows import MANUAL, PROVIDERS, thinking_options, wire_of
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError
from tools.dispatch.threads import in_daemon_thread

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.providers.http import HttpClient
    from toolcrib.contract.session import ProviderSession


async def connect(
    session: SessionCore, choice: ModelChoice, *, instructions: str = "", allows_manual: bool = False
) -> ProviderSession:
    """Return an open provider session for a session's model.

    A resumed session keeps its model and provider, unless the user names another.

    Raises ConfigError if there is no model and the user may not type the calls, and what open_provider raises.
    """
    choice, environ = await own_choice(session, choice), environment(session.config)
    endpoint = find_endpoint(session.config, choice, environ)
    if endpoint is None and not allows_manual:
        raise ConfigError(
            "no model is connected: choose one (model=... or --model), and its server if it is not the vendor's (base_url=... or"
            " --base-url); list models: toolcrib models"
        )
    if endpoint is not None and not endpoint.model:
        via = await session.transcript.talked_to()
        if via and same_server(str(via["base_url"]), endpoint.base_url):
            choice = replace(choice, model=str(via["model"]))
    return await open_provider(session, choice, instructions=instructions, environ=environ)


async def own_choice(session: SessionCore, choice: ModelChoice) -> ModelChoice:
    """Return ``choice`` or, if it is empty, the last model, provider and server of a resumed session.

    The key for that server comes from the configuration and the environment, never from the record. Raises ConfigError if that
    key or the provider no longer exists.
    """
    via = {} if choice.model or choice.base_url or choice.provider else await session.transcript.talked_to()
    if not via:
        return choice
    config, base_url = session.config, str(via.get("base_url", ""))
    keys = [entry.api_key_env for entry in config.model.fallback if entry.api_key_env and same_server(entry.base_url, base_url)]
    own = ModelChoice(str(via.get("model", "")), base_url, choice.api_key_env, str(via.get("provider", "")))
    try:
        check_name(own.provider, session.providers)
        target = choose_provider(config, own)
        if target.endpoint is not None and target.endpoint.key_env is None and (key := via.get("key_env")):
            if not keys:
                raise ConfigError(
                    f"its key was in {key}, which is not set or not for {target.endpoint.server}; give a key with --api-key-env"
                )
            own = replace(own, api_key_env=keys[0])
            choose_provider(config, own)
    except ConfigError as error:
        raise ConfigError(f"this session used {own.model}: {error}; to continue with another model: --model NAME") from None
    return own


async def open_provider(
    session: SessionCore, choice: ModelChoice, *, instructions: str = "", environ: Mapping[str, str] | None = None
) -> ProviderSession:
    """Return an open provider session that continues from the session's records, with the configured fallback models, if any.

    Raises ConfigError, and a subclass of ProviderError if listing the server's models fails.
    """
    config, environ = session.config, environment(session.config, environ)
    target = choose_provider(config, choice, environ)
    opener = _Opener(session, instructions, environ)
    check_name(target.provider, session.providers)
    if target.endpoint is None or not config.model.fallback:
        return await opener.open(target)
    others = [opener.fallback(place) for place in range(len(config.model.fallback))]
    return FallbackSession(await opener.open(target), others)


@dataclass(frozen=True, slots=True)
class _Opener:
    session: SessionCore
    instructions: str
    environ: Mapping[str, str]

    async def open(self, target: ModelTarget, *, fallback: bool = False) -> ProviderSession:
        """Return a provider session with the conversation so far. Later records of the session name its model."""
        session, plugins = self.session, self.session.providers
        check_name(target.provider, plugins)
        if target.endpoint is not None:
            await session.prompt.fix_surroundings()
        if target.endpoint is None or target.provider not in PROVIDERS:
            records = await in_daemon_thread(lambda: list(session.transcript.model_records())) if session.transcript.count else ()
            provider = open_session(target, self._conversation(target, records), self.environ, plugins=plugins)
        else:
            target, provider = await self._over_http(target, target.endpoint)
        via = via_of(target, model_of(provider))
        session.link.via = {**via, "fallback": True} if via and fallback else via
        await session.note_model(via, for_good=not fallback)
        session.link.wire = wire_of(target.provider)
        return provider

    def _conversation(self, target: ModelTarget, records: Iterable[Mapping[str, Any]]) -> ProviderOpening:
        session, model = self.session, self.session.config.model
        return ProviderOpening(
            system="" if target.endpoint is None else session.prompt.text(self.instructions),
            tools=session.definitions,
            records=records,
            stream=model.stream,
            max_tokens=model.max_output_tokens,
            protocol=model.protocol,
            options=self._options(target),
        )

    def _options(self, target: ModelTarget) -> dict[str, Any]:
        """Return the configured options that only some providers have."""
        model = self.session.config.model
        options = thinking_options(target.provider, model.thinking)
        if target.provider in PROVIDERS and PROVIDERS[target.provider].wire.in_text and model.session_mode != "stateless":
            options["session_mode"] = model.session_mode
            options["session_id"] = self.session.id if model.session_mode == "resume" else None
        return options

    async def _over_http(self, target: ModelTarget, endpoint: Endpoint) -> tuple[ModelTarget, ProviderSession]:
        """Return the target and its provider session over HTTP, with calls in text for a model without native calls."""
        from agent.model_choice.call_style import Calling, choose_calling
        from agent.providers.http import HttpClient, HttpLimits

        model = self.session.config.model
        limits = HttpLimits(first_byte=model.first_byte_timeout, between=model.between_bytes_timeout, total=model.reply_timeout)
        client = HttpClient(endpoint, self.environ, limits)
        try:
            if not endpoint.model and not PROVIDERS[target.provider].lists:
                raise ConfigError(f"{endpoint.server} has many models; choose one with --model NAME, or set model.name")
            name = endpoint.model or await _only_model(client)
            target = ModelTarget(target.provider, Endpoint(endpoint.base_url, name, endpoint.key_env))
            chosen = Calling(target, model.protocol, "")
            if self.session.definitions:
                chosen = await choose_calling(target, model.protocol, self.environ)
                target = chosen.target
            transcript = self.session.transcript
            conversation = replace(
                self._conversation(target, transcript.model_records() if transcript.count else ()),
                protocol=chosen.protocol,
                opens_thinking=chosen.opens_thinking,
            )
            return target, await in_daemon_thread(lambda: open_session(target, conversation, self.environ, client=client))
        except BaseException:
            await client.aclose()
            raise

    def fallback(self, place: int) -> Fallback:
        """Return a fallback of the configuration. Raises ConfigError now if it could not be opened later."""
        entry = self.session.config.model.fallback[place]
        wanted = ModelRequest(entry.provider, entry.name, entry.base_url, entry.api_key_env)
        try:
            target = find_target(wanted, ModelRequest(), self.environ)
            check_name(target.provider, self.session.providers)
            if target.provider == MANUAL:
                raise ConfigError("it has no model, server or provider")
        except ConfigError as error:
            raise ConfigError(f"model.fallback, entry {place + 1}: {error}") from None
        prices = Prices.of(entry.prices)
        where = target.endpoint.server if target.endpoint is not None else ""
        shown = " at ".join(part for part in (entry.name or "the model", where or target.provider) if part)
        return Fallback(shown, lambda: self.open(target, fallback=True), prices)


async def _only_model(client: HttpClient) -> str:
    from agent.providers.discover import choose_model

    return await choose_model(client)
