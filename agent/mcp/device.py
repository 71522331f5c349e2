"""The device grant (RFC 8628): the user enters a code in a browser on any device."""

from __future__ import annotations

import asyncio
import time

import httpx2
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls, create_oauth_metadata_request
from mcp.shared.auth import OAuthClientMetadata, OAuthToken

from agent.mcp.logins import LoginFailed
from agent.mcp.oauth import SECONDS, ShowDevice, ask_for_token, error_in, resource_of

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = 5.0
"""Seconds between requests, if the authorization server names no others; also what slow_down adds."""


class DeviceProvider(OAuthClientProvider):
    """The device grant, instead of the authorization code."""

    def __init__(self, url: str, metadata: OAuthClientMetadata, storage: TokenStorage, show: ShowDevice) -> None:
        super().__init__(url, metadata, storage)
        self._show = show

    async def _perform_authorization(self) -> httpx2.Request:
        """Return the request for a code. The SDK sends it."""
        context = self.context
        if context.client_info is None or context.oauth_metadata is None:
            raise LoginFailed("its authorization server has no metadata")
        endpoint = await _device_endpoint(context)
        data = {"client_id": context.client_info.client_id, **resource_of(context)}
        if context.client_metadata.scope:
            data["scope"] = context.client_metadata.scope
        data, headers = context.prepare_token_auth(data, {})
        return httpx2.Request("POST", endpoint, data=data, headers=headers)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        """Show the code in the response, and wait until the user has entered it."""
        await response.aread()
        if response.status_code != httpx2.codes.OK:
            raise LoginFailed(f"the authorization server gives no code: {error_in(response.text)}")
        given = response.json()
        try:
            device, code, address = (str(given[key]) for key in ("device_code", "user_code", "verification_uri"))
            ends, interval = time.monotonic() + float(given["expires_in"]), float(given.get("interval", _INTERVAL))
        except (KeyError, TypeError, ValueError):
            raise LoginFailed("the authorization server gives no code in the form of RFC 8628") from None
        self._show(address, code)
        tokens = await self._wait(device, ends, max(interval, 0.1))
        self.context.current_tokens = tokens
        await self.context.storage.set_tokens(tokens)

    async def _wait(self, device: str, ends: float, interval: float) -> OAuthToken:
        grant = {"grant_type": GRANT, "device_code": device, **resource_of(self.context)}
        while time.monotonic() < ends:
            await asyncio.sleep(interval)
            answer = await ask_for_token(self.context, self._get_token_endpoint(), grant)
            if answer.status_code == httpx2.codes.OK:
                return OAuthToken.model_validate_json(answer.content)
            error = error_in(answer.text)
            if error.startswith("slow_down"):
                interval += _INTERVAL
            elif error.startswith("expired_token"):
                break
            elif not error.startswith("authorization_pending"):
                raise LoginFailed(f"refused: {error}")
        raise LoginFailed("the code has expired; start again")


async def _device_endpoint(context: OAuthContext) -> str:
    """Return the endpoint in the authorization server's metadata, which the SDK's model does not have."""
    urls = build_oauth_authorization_server_metadata_discovery_urls(context.auth_server_url, context.server_url)
    async with httpx2.AsyncClient(timeout=SECONDS) as client:
        for url in urls:
            answer = await client.send(create_oauth_metadata_request(url))
            found = answer.json().get("device_authorization_endpoint") if answer.status_code == httpx2.codes.OK else None
            if isinstance(found, str):
                return found
    raise LoginFailed("its authorization server does not offer codes for other devices; log in without --device")
