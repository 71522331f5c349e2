"""Chooses model server, model and key in one module, so that a key never reaches a host that it is not for."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent.providers.vendor import OPENAI, Vendor
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model of a server. ``context`` (tokens) and ``tools`` (it makes native calls) are None if the server reports none.

    ``protocol`` is the text protocol of the model's chat template; ``opens_thinking``: the template opens a thinking block.
    """

    name: str
    context: int | None = None
    tools: bool | None = None
    protocol: str | None = None
    opens_thinking: bool = False


_PATHS = ("/chat/completions", "/responses", "/messages")
_PORTS = {"http": 80, "https": 443}
_KEY = 8
"""Minimum number of characters of a key that is treated as secret."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server. ``key_env`` names the variable that holds the key. ``model`` "": the server's only model."""

    base_url: str
    model: str = ""
    key_env: str | None = None

    @property
    def server(self) -> str:
        """Return the host, and the port unless it is the default one: safe to show."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def is_loopback(self) -> bool:
        return is_loopback(urlsplit(self.base_url).hostname or "")

    def url(self, path: str) -> str:
        """Return the address of ``path`` under the base; a query in the base (an API version) is kept before that of ``path``."""
        parts = urlsplit(self.base_url)
        path, _, query = path.partition("?")
        query = "&".join(filter(None, (parts.query, query)))
        return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}", query=query))


@dataclass(frozen=True, slots=True)
class Configured:
    """The server as the configuration describes it; "" for nothing. Its key goes only to its own server."""

    base_url: str = ""
    model: str = ""
    api_key_env: str = ""


def resolve_endpoint(
    base_url: str | None,
    model: str | None,
    api_key_env: str | None,
    environ: Mapping[str, str],
    configured: Configured | None = None,
    vendor: Vendor = OPENAI,
) -> Endpoint | None:
    """Return the endpoint: from the options, else the vendor's variables, else the configuration.

    If they name only a model, or the options only a key, the server is the vendor's. If they name nothing, return None.

    OPENAI_API_KEY goes only to OPENAI_BASE_URL's server (the vendor's if that is unset), and likewise for each vendor. Another
    server gets a key only if ``api_key_env`` names it, or if the configuration names that server and the key. Raises
    ConfigError, with the fix, for an unusable address, an empty variable, and a key that would be sent unencrypted.
    """
    configured = configured or Configured()
    url_name, key_name = f"{vendor.prefix}_BASE_URL", f"{vendor.prefix}_API_KEY"
    own = environ.get(url_name, "").strip()
    vendor_key = vendor.key_in(environ)
    chosen_model = model or environ.get(f"{vendor.prefix}_MODEL", "").strip() or configured.model
    if base_url:
        base, source = base_url, "--base-url"
    elif own:
        base, source = own, url_name
    elif configured.base_url:
        base, source = configured.base_url, "the configuration's base_url"
    elif chosen_model or api_key_env:
        base, source = vendor.base_url, "the default server"
        if vendor_key is None and not api_key_env:
            raise ConfigError(f"no server is configured for the model {chosen_model}: use --base-url URL, or set {key_name}")
    else:
        return None
    base = _checked(base, source, vendor)
    key_env = api_key_env or None
    if key_env is None and configured.api_key_env and configured.base_url and same_server(base, configured.base_url):
        key_env = configured.api_key_env
    if key_env is None and vendor_key and same_server(base, own or vendor.base_url):
        key_env = vendor_key
    endpoint = Endpoint(base, chosen_model, key_env)
    if key_env is not None:
        read_key(endpoint, environ)
        if urlsplit(base).scheme == "http" and not endpoint.is_loopback:
            raise ConfigError(
                f"{source} is {base}: the key in {key_env} would be sent unencrypted to {endpoint.server}; use https, or a"
                f" tunnel to a local port, or send no key (unset {key_env})"
            )
    return endpoint


def read_key(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """Return the key to send, None without ``key_env``. Raises ConfigError, without the key, if it is empty or invalid."""
    if endpoint.key_env is None:
        return None
    key = environ.get(endpoint.key_env, "").strip()
    if not key:
        whose = endpoint.server or "the provider"
        raise ConfigError(f"the environment variable {endpoint.key_env} is not set; set it to the key for {whose}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{endpoint.key_env} does not contain a key: it has spaces or special characters")
    return key


def without_key(text: str, key: str | None) -> str:
    """Return ``text`` without the key, which some servers repeat.

    A key of fewer than 8 characters stays: it is a placeholder, such as "none", that may be part of any word.
    """
    return text.replace(key, "[key]") if key and len(key) >= _KEY else text


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    return _is_number(host) and ipaddress.ip_address(host).is_loopback


def _is_number(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _checked(base_url: str, source: str, vendor: Vendor) -> str:
    base_url = base_url.strip()
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as error:
        shown = "" if "@" in base_url else f" ({base_url!r})"  # it may hold a password
        raise ConfigError(f"{source} is not an address{shown}: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname or any(character.isspace() for character in base_url):
        raise ConfigError(f"{source} is {base_url!r}; write a full address, such as http://127.0.0.1:11434/v1")
    if not (_PLAIN_HOST.fullmatch(parts.hostname) or _is_number(parts.hostname)) or not base_url.isprintable():
        _check_unusual(base_url, source)
    if "@" in parts.netloc:
        raise ConfigError(f"{source} has a name or password in it; put the key into a variable and name it with --api-key-env")
    path = parts.path.rstrip("/")
    for ending in _PATHS:
        path = path.removesuffix(ending)
    path = path if path.endswith(vendor.root) else path + vendor.root
    path = path or vendor.bare
    return urlunsplit(parts._replace(path=path, fragment=""))


_PLAIN_HOST = Regex(r"(?!.*xn--)(?:[a-z0-9_-]{1,63}\.){0,9}[a-z_-][a-z0-9_-]{0,62}", re.IGNORECASE)
"""Hosts that httpx is known to accept, so that it need not be loaded to check them."""


def _check_unusual(base_url: str, source: str) -> None:
    """Raise ConfigError if httpx can't use the address."""
    import httpx

    try:
        host = httpx.URL(base_url).raw_host.decode("ascii")
        _ = httpx.URL(base_url).host  # decodes the host
        host.encode("idna")  # as asyncio does when it looks up the name
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigError(f"{source} is {base_url!r}, which is not a usable address: {error}") from None


def same_server(one: str, other: str) -> bool:
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts: SplitResult = urlsplit(url.strip())
        return parts.scheme, (parts.hostname or "").lower().rstrip("."), parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return "", url, None
