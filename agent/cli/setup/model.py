"""The wizard's model: choose the server, the model and the key, and test them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from agent.cli.escape import one_line
from agent.cli.setup.detection import NAMES
from agent.cli.setup.person import Option, UnansweredError
from agent.cli.setup.wizard import BACK, Wizard, names
from agent.config import ModelConfig
from agent.config._setting import is_env_name
from agent.model_choice.catalog import ModelServer, ask_servers
from agent.model_choice.models import ModelChoice, choose_provider
from agent.providers.discover import LocalServer
from agent.providers.endpoint import Endpoint, same_server
from agent.providers.factory import ModelRequest, ModelTarget, find_target, name_for_model, name_for_server
from agent.providers.rows import DEFAULT, MANUAL, PROVIDERS, share_servers
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from tools.dispatch.bridge import run_async

_FLAGS = "use --model NAME and --base-url URL, or --provider manual for no model"
_MODEL = "use --model NAME"
_KEY = "use --key-env NAME"
_LISTED = 30
"""Maximum number of models that are listed as choices; others can be typed."""
_SHOWN = 200
_NAMED = "the name of the model"
_WIRES = tuple(name for name in PROVIDERS if share_servers(name, DEFAULT))
"""Providers for servers that belong to no vendor."""


def configure_model(wizard: Wizard) -> None:
    """Choose and test the model. Repeat until it works, or until the user keeps it anyway.

    Raises UnansweredError, StoppedError, and ToolcribError for a flag with an unknown value.
    """
    asks = wizard.asks
    while True:
        try:
            _keep(wizard, _choose(wizard, asks=asks))
            problem = _tried(wizard)
            if not problem or wizard.after_failure("the model does not work") != BACK:
                return
        except ConfigError as error:  # the answer can't be stored
            if not wizard.person.is_there:
                raise
            wizard.person.print_text(f"✗ {error}")
        asks = True
        wizard.secret = None


# -- the choice --------------------------------------------------------------------------------------------------------


def _choose(wizard: Wizard, *, asks: bool) -> ModelRequest:
    given = ModelRequest(*(getattr(wizard.args, name) for name in ("provider", "model", "base_url", "key_env")))
    request = _by_question(wizard, asks=asks) if asks or given == ModelRequest() else _by_flags(wizard, given)
    if request.provider == MANUAL or request == _now(wizard):
        return request
    request = _with_key(wizard, request)
    return request if request.model or request.provider not in ("", *PROVIDERS) else _with_model(wizard, request)


def _now(wizard: Wizard) -> ModelRequest:
    model = wizard.before.model
    return ModelRequest(model.provider, model.name, model.base_url, model.api_key_env)


def _by_flags(wizard: Wizard, given: ModelRequest) -> ModelRequest:
    """Return the current answers, changed by the flags. A key is kept only for the server that it belongs to."""
    now = _now(wizard)
    if given.provider == MANUAL:
        return replace(now, provider=MANUAL)
    standing = "" if now.provider == MANUAL else now.provider
    if given.base_url:
        same = bool(now.base_url) and same_server(given.base_url, now.base_url)
        kept = replace(now, provider=standing) if same else ModelRequest()
        return _laid_over(replace(kept, base_url=given.base_url), given)
    if given.provider:
        speaks = standing or (name_for_server(now.base_url, wizard.variables) if now.base_url else DEFAULT)
        same = speaks == given.provider or share_servers(speaks, given.provider)
        request = _laid_over(now if same else ModelRequest(), given)
    else:
        request = _laid_over(replace(now, provider=standing), given)
    changed = given.model and not request.base_url and request.provider in ("", *_WIRES, standing)
    return _placed(wizard, request, given) if changed else request


def _laid_over(under: ModelRequest, over: ModelRequest) -> ModelRequest:
    return ModelRequest(
        over.provider or under.provider,
        over.model or under.model,
        over.base_url or under.base_url,
        over.api_key_env or under.api_key_env,
    )


def _placed(wizard: Wizard, request: ModelRequest, given: ModelRequest) -> ModelRequest:
    """Return the request with a server for its model, which was named without one: a detected server that has the model, its
    vendor's server, or an address that the user types.
    """
    having = [server for server in wizard.found.servers if request.model in server.models]
    if given.provider in ("", *_WIRES) and having:
        options = [Option(f"{one.kind} at {one.base_url}", one) for one in having]
        server = options[0].value if len(having) == 1 else None
        server = server or wizard.person.choose(f"Several servers have {request.model}.", options, None, "use --base-url URL")
        wizard.person.print_text(f"{server.kind} at {server.base_url} has {request.model}")
        return ModelRequest(given.provider, request.model, server.base_url, given.api_key_env)
    if not given.provider and (named := name_for_model(request.model, wizard.variables)) and named != request.provider:
        return ModelRequest(named, request.model, "", given.api_key_env)
    is_vendors = any(request.model.startswith(one.models) for one in PROVIDERS.values() if one.models)
    if request.provider not in ("", *_WIRES) or request.api_key_env or is_vendors or _target(wizard, request) is not None:
        return request
    prompt = f"address of the server that has {one_line(request.model, 60)}"
    return replace(request, base_url=wizard.person.line(prompt, "use --base-url URL"))


def _by_question(wizard: Wizard, *, asks: bool) -> ModelRequest:
    """Return the server and model that the user chooses. Do not ask if none is set and only one server or key was detected.

    If no user can be asked, return the current model, or raise UnansweredError if none is set.
    """
    now = _now(wizard)
    is_set = now != ModelRequest() or _target(wizard, now) is not None
    servers = [server for server in wizard.found.servers if server.models]
    sensible = [_of_server(server) for server in servers] + [_of_vendor(name) for name in wizard.found.keys]
    if not asks and not is_set and len(sensible) == 1:
        wizard.person.print_text("using the only server or key that was detected")
        return sensible[0]
    options: list[Option[ModelRequest | None]] = [Option(f"current: {_words(wizard, now)}", now)] if is_set else []
    options += [Option(f"{one.kind} at {one.base_url}: {names(one.models)}", _of_server(one)) for one in servers]
    options += [Option(f"{NAMES[name]}, with {key}", _of_vendor(name)) for name, key in wizard.found.keys.items()]
    options += [Option(f"{title}, with a key that you type now", _of_vendor(name)) for name, title in NAMES.items()
                if name not in wizard.found.keys]  # fmt: skip
    options += [Option("another server, by address", None)]
    options += [Option("none: call tools by hand", replace(now, provider=MANUAL))] if now.provider != MANUAL else []
    if not wizard.person.is_there:
        if is_set:
            return now
        raise UnansweredError(f"the model is not specified{_there(wizard, servers)}: {_FLAGS}")
    default = 0 if is_set or sensible else len(options) - 1  # no model
    chosen = wizard.person.choose("Which model do you want to use?", options, default, _FLAGS)
    return _another(wizard) if chosen is None else chosen


def _another(wizard: Wizard) -> ModelRequest:
    """Ask for a server's address, and about its key. Raises ConfigError for an invalid address."""
    person = wizard.person
    request = ModelRequest(base_url=person.line("its address, such as http://127.0.0.1:8080/v1", _FLAGS))
    find_target(ModelRequest(), request, wizard.variables)  # raises if the address is invalid
    named = Option("a key in a variable or in secrets.env", "named")
    how = person.choose("Does it need a key?", [Option("no", ""), Option("a key that you type now", "typed"), named], 0, _KEY)
    if not how:
        return request
    own = re.sub(r"[^A-Z0-9]", "_", (urlsplit(request.base_url).hostname or "").upper())
    name = f"KEY_OF_{own}" if how == "typed" else person.line("the variable's name, in capitals", _KEY)
    if not is_env_name(name):
        raise ConfigError("this is not a variable's name in capitals, such as MY_API_KEY")
    return replace(request, api_key_env=name)


def _there(wizard: Wizard, servers: Sequence[LocalServer]) -> str:
    found = [f"{one.base_url} has {names(one.models)}" for one in servers]
    found += [f"{key} is set" for key in wizard.found.keys.values()]
    return f" ({'; '.join(found)})" if found else ", and no model server was found on this machine"


def _of_server(server: LocalServer) -> ModelRequest:
    return ModelRequest(model=server.models[0] if len(server.models) == 1 else "", base_url=server.base_url)


def _of_vendor(name: str) -> ModelRequest:
    return ModelRequest(provider=name)


def _words(wizard: Wizard, request: ModelRequest) -> str:
    if request.provider == MANUAL:
        return "none, call tools by hand"
    target = _target(wizard, request)
    where = target.endpoint.server if target is not None and target.endpoint is not None else request.base_url
    return f"{request.model or 'its only model'} at {where or request.provider or '?'}"


def _target(wizard: Wizard, request: ModelRequest) -> ModelTarget | None:
    """Return the target of a request, or None for the manual provider and for an invalid request."""
    try:
        found = find_target(ModelRequest(), request, wizard.variables)
    except ConfigError:
        return None
    return None if found.provider == MANUAL else found


# -- the key and the model's name --------------------------------------------------------------------------------------


def _with_key(wizard: Wizard, request: ModelRequest) -> ModelRequest:
    """Ask for a key if one is needed and missing. Raises UnansweredError if no user can be asked."""
    vendor = PROVIDERS[request.provider].vendor if request.provider in PROVIDERS else PROVIDERS[DEFAULT].vendor
    own = f"{vendor.prefix}_API_KEY"
    key = request.api_key_env or ("" if request.base_url or vendor.key_in(wizard.variables) else own)
    if not key or wizard.variables.get(key, "").strip() or request.provider not in ("", *PROVIDERS):
        return request
    if not wizard.person.is_there:
        if key == own and not request.base_url and wizard.variables.get(f"{vendor.prefix}_BASE_URL", "").strip():
            return request  # another server replaces the vendor's, and may need no key
        raise UnansweredError(f"{key} is not set: put it into the environment or secrets.env, or name another with --key-env")
    _typed(wizard, key)
    return request


def _typed(wizard: Wizard, name: str) -> None:
    from agent.config._secrets import is_secret

    while True:
        value = wizard.person.hidden(f"the key, stored as {name} in secrets.env", _KEY)
        if is_secret(value):
            wizard.secret = (name, value)
            return
        wizard.person.print_text("  this is not a key: it is empty, or has spaces, quotes or special characters; Ctrl-C cancels")


def _with_model(wizard: Wizard, request: ModelRequest) -> ModelRequest:
    """Ask the server for its models, and the user for a choice."""
    probe = replace(request, model="?") if not request.base_url else request
    target = find_target(ModelRequest(), probe, wizard.variables)
    listed, fault = _listed(wizard, target)
    if len(listed) == 1:
        wizard.person.print_text(f"its only model is {one_line(listed[0])}")
        return replace(request, model=listed[0])
    if not listed:
        wizard.person.print_text(f"its models are unknown: {fault or 'it lists none'}")
        return replace(request, model=wizard.person.line(_NAMED, _MODEL))
    now = _now(wizard).model
    options = [Option(name, name) for name in listed[:_LISTED]]
    default = next((at for at, one in enumerate(options) if one.value == now), None)
    more = f"{len(listed)} models; these are the first" if len(listed) > _LISTED else f"{len(listed)} models"
    chosen = wizard.person.choose_or_type(f"It has {more}. Which one?", options, default, _MODEL, free="a name")
    return replace(request, model=chosen if isinstance(chosen, str) else chosen.value)


def _listed(wizard: Wizard, target: ModelTarget) -> tuple[list[str], str]:
    """Return the models of a server, and the reason if they are unknown, else ""."""
    endpoint = target.endpoint or Endpoint("")
    for server in wizard.found.servers:
        if server.base_url == endpoint.base_url and server.models:
            return list(server.models), ""
    with wizard.person.waits(f"asking {endpoint.server} for its models"):
        target = replace(target, endpoint=replace(endpoint, model=""))
        (offer,) = run_async(ask_servers([ModelServer("setup", target)], wizard.variables, refresh=True, remembers=False))
    return [one.name for one in offer.models], offer.fault


# -- storing and testing -----------------------------------------------------------------------------------------------


def _keep(wizard: Wizard, request: ModelRequest) -> None:
    wizard.values |= {
        "model.provider": request.provider,
        "model.name": request.model,
        "model.base_url": request.base_url,
        "model.api_key_env": request.api_key_env,
    }
    model: ModelConfig = wizard.config().model  # raises if the name or the address is invalid
    if request.provider == MANUAL:
        wizard.person.print_text("model: none; call tools by hand")
        return
    target = choose_provider(wizard.config(), ModelChoice(), wizard.variables)
    where = "" if target.endpoint is None else f"{target.endpoint.model or 'its only model'} at {target.endpoint.server}"
    wizard.person.print_text(f"model: {where or model.provider} ({target.provider})")
    meant = _target(wizard, request)
    if meant is not None and meant != target:
        wizard.person.print_text("  settings of the project or environment variables override this choice in sessions")


def _tried(wizard: Wizard) -> str:
    """Test the model. Return why it does not work; "" if it works, or if it is not tested."""
    from agent.model_choice.model_check import try_model

    if wizard.args.no_test or wizard.values["model.provider"] == MANUAL:
        return ""
    config = wizard.config()
    target = choose_provider(config, ModelChoice(), wizard.variables)
    if target.endpoint is not None and not target.endpoint.model and target.provider in PROVIDERS:
        listed, fault = _listed(wizard, target)
        if len(listed) != 1:
            problem = fault or f"{target.endpoint.server} has {len(listed)} models: choose one with --model ({names(listed)})"
            wizard.person.print_text(f"✗ {problem}")
            return problem
        target = replace(target, endpoint=replace(target.endpoint, model=listed[0]))
    with wizard.crib() as crib, wizard.person.waits("asking the model for a call"):
        tried = run_async(
            try_model(
                target, wizard.variables, protocol=config.model.protocol, stream=config.model.stream, plugins=crib.providers
            )
        )
    how = f"in text as {tried.protocol}" if tried.protocol else "natively"
    said = f', and wrote "{one_line(tried.text, _SHOWN)}"' if tried.text else ""
    if not tried.problem:
        wizard.person.print_text(f"✓ it called a tool {how}, after {tried.seconds:.1f} s{said}")
    else:
        wizard.person.print_text(f"✗ {tried.problem}{said.removeprefix(', and').replace(' wrote', '; it wrote', 1)}")
    return tried.problem
