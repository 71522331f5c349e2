"""Log in at a server's authorization server: in the browser, with a code on another device, or with client credentials.

The SDK finds the authorization server, registers toolcrib there, and runs the flows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from agent.mcp.logins import Login, LoginFailed, Logins, new_login
from agent.mcp.reaching import filled
from toolcrib.contract.dataclass import replace

if TYPE_CHECKING:
    from agent.config import Config

_CLIENT = "toolcrib"
SECONDS = 30.0
"""Seconds that a request may take."""
_MOST = 300
"""Characters of an error of an authorization server."""

ShowDevice = Callable[[str, str], None]
"""(address, code) -> None."""


class _Memory:
    """See the SDK's TokenStorage. It holds one login until that is complete."""

    def __init__(self, client: Mapping[str, Any] | None = None) -> None:
        self.client = None if client is None else OAuthClientInformationFull.model_validate(client)
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def log_in_by_browser(
    logins: Logins,
    redirect: str,
    show: Callable[[str], Awaitable[None]],
    answer: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> Login:
    """Log in with a browser. ``show`` gets the address to open, ``answer`` returns what the browser brings to ``redirect``.

    Raises LoginFailed.
    """
    metadata = OAuthClientMetadata(client_name=_CLIENT, redirect_uris=[AnyUrl(redirect)])
    known = logins.client()
    is_same = known is not None and redirect in (known.get("redirect_uris") or ())
    storage = _Memory(known if is_same else None)
    return await _log_in(OAuthClientProvider(logins.server.url, metadata, storage, show, answer), logins)


async def log_in_by_device(logins: Logins, show: ShowDevice) -> Login:
    """Log in with a browser on any device, where the user enters a code. Raises LoginFailed."""
    from agent.mcp.device import GRANT, DeviceProvider

    metadata = OAuthClientMetadata(client_name=_CLIENT, redirect_uris=None, grant_types=[GRANT, "refresh_token"])
    return await _log_in(DeviceProvider(logins.server.url, metadata, _Memory(), show), logins)


async def log_in_by_credentials(config: Config, logins: Logins) -> Login:
    """Get a token for the client credentials that the server's section names. Raises LoginFailed and ExecutionFailed."""
    server = logins.server
    if logins.principal and not server.shared:
        raise LoginFailed(f"its client credentials are the owner's; to share them, set mcp.servers.{logins.name}.shared")
    client_id, client_secret = (filled(config, f"${{{name}}}") for name in (server.client_id, server.client_secret))
    provider = ClientCredentialsOAuthProvider(server.url, _Memory(), client_id, client_secret, issuer=server.issuer)
    login = await _log_in(provider, logins)
    return replace(login, owner="", client={})  # the file of tokens needs no copy of the secret


async def _log_in(provider: OAuthClientProvider, logins: Logins) -> Login:
    """Send a request without a token, so that the server asks for one, and let the SDK answer. Raises LoginFailed."""
    logging.getLogger("mcp.client.auth.oauth2").addFilter(_no_record)
    context = provider.context
    method, body = ("GET", None) if logins.server.transport == "sse" else ("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    try:
        async with (
            httpx2.AsyncClient(timeout=SECONDS) as client,
            client.stream(method, logins.server.url, json=body, headers=_ACCEPT, auth=provider) as response,
        ):
            status = response.status_code
    except (OAuthFlowError, httpx2.HTTPError, ValueError) as error:
        raise LoginFailed(_reason(error, context)) from None  # a cause would quote what the servers sent
    tokens, client_info = context.current_tokens, context.client_info
    if tokens is None or client_info is None:
        raise LoginFailed(f"it did not ask for a login (it answered {status} to a request without one)")
    if status == httpx2.codes.UNAUTHORIZED:
        raise LoginFailed("it refuses the token that its own authorization server issued")
    endpoint = str(context.oauth_metadata.token_endpoint) if context.oauth_metadata else f"{_origin(context)}/token"
    resource = resource_of(context).get("resource", "")
    return new_login(logins.principal, _plain(tokens), _plain(client_info), endpoint, resource)


_ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def _no_record(record: logging.LogRecord) -> bool:
    """Drop the SDK's records of failures: they quote what servers answer."""
    return False


def resource_of(context: OAuthContext) -> dict[str, str]:
    """Return the parameter that names the server to the authorization server (RFC 8707)."""
    is_sent = context.should_include_resource_param(context.protocol_version)
    return {"resource": context.get_resource_url()} if is_sent else {}


def _origin(context: OAuthContext) -> str:
    return context.get_authorization_base_url(context.server_url)


def _plain(model: OAuthToken | OAuthClientInformationFull) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def _reason(error: Exception, context: OAuthContext) -> str:
    """Return why a login failed, for users: no token, and not more of an answer than its error."""
    if isinstance(error, httpx2.HTTPError):
        return f"{_place(error, context)} does not answer: {_said(error)}"
    if isinstance(error, OAuthRegistrationError | OAuthTokenError) and context.oauth_metadata is None:
        if context.protected_resource_metadata is None:
            return f"{_origin(context)} has no metadata for OAuth. If the server takes a key, name it in the server's headers"
        return f"the authorization server {context.auth_server_url} has no metadata, or its metadata is invalid"
    if not isinstance(error, OAuthFlowError):
        return "an answer is not in the form of OAuth"
    head, brace, body = str(error).partition("{")
    return f"{head.rstrip(': ')}: {error_in(brace + body)}" if brace else head.split("\n")[0][:_MOST]


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _place(error: httpx2.HTTPError, context: OAuthContext) -> str:
    try:
        url = error.request.url
    except RuntimeError:
        return _origin(context)
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def error_in(body: str) -> str:
    """Return the error in an answer of an authorization server (RFC 6749, 5.2)."""
    try:
        found = json.loads(body)
        name, about = found["error"], found.get("error_description")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "an answer without an error's name"
    return f"{name} ({about})"[:_MOST] if about else str(name)[:_MOST]


async def ask_for_token(context: OAuthContext, endpoint: str, grant: Mapping[str, str]) -> httpx2.Response:
    """Send a request for a token as the registered client. Raises LoginFailed if there is no answer."""
    url = httpx2.URL(endpoint)
    client_id = context.client_info.client_id if context.client_info is not None else ""
    data, headers = context.prepare_token_auth({**grant, "client_id": client_id}, {})
    try:
        async with httpx2.AsyncClient(timeout=SECONDS) as client:
            return await client.post(url, data=data, headers=headers)
    except httpx2.HTTPError as error:
        raise LoginFailed(f"{url.scheme}://{url.netloc.decode()} does not answer: {_said(error)}") from None


async def refreshed(login: Login) -> Login | None:
    """Return the renewed login; None if it has ended. Raises LoginFailed if the authorization server can't be asked."""
    token = login.token.get("refresh_token")
    if not token:
        return None
    context = OAuthContext("", OAuthClientMetadata(redirect_uris=None), _Memory(), None, None)
    context.client_info = OAuthClientInformationFull.model_validate(login.client)
    grant = {"grant_type": "refresh_token", "refresh_token": token, **({"resource": login.resource} if login.resource else {})}
    answer = await ask_for_token(context, login.token_endpoint, grant)
    if answer.status_code in (httpx2.codes.BAD_REQUEST, httpx2.codes.UNAUTHORIZED):
        return None
    try:
        new = _plain(OAuthToken.model_validate_json(answer.content))
    except ValidationError:
        raise LoginFailed(f"the login has expired, and the request to renew it is answered with {answer.status_code}") from None
    kept = {key: login.token[key] for key in ("refresh_token", "scope") if key in login.token}
    return new_login(login.owner, {**kept, **new}, login.client, login.token_endpoint, login.resource)
