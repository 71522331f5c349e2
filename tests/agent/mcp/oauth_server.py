"""An MCP server of the SDK that needs a login, and its authorization server, in one process: ``http PORT`` or ``sse PORT``.

``/control`` takes settings as JSON (see ``Settings``) and returns what was asked of the authorization server.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

TRANSPORT, PORT = sys.argv[1], int(sys.argv[2])
ISSUER = f"http://127.0.0.1:{PORT}"
RESOURCE = f"{ISSUER}/{'sse' if TRANSPORT == 'sse' else 'mcp'}"
CREDENTIALS = ("robot", "r0b0t-secret/+")


@dataclass
class Settings:
    """What the servers do. ``seconds``: how long a token is valid. ``refuses``: the user refuses. ``state``: sent instead of the
    right one. ``down``: the endpoint for tokens answers 503. ``without``: what is missing (metadata, resource, issuer,
    registration, device, tokens). ``pending``: requests before the user has entered the device's code, then ``device`` is the
    error.
    """

    seconds: float = 3600
    refuses: bool = False
    state: str = ""
    down: bool = False
    without: str = ""
    pending: int = 1
    device: str = ""
    scopes: list[str] = field(default_factory=lambda: ["tools"])


settings = Settings()
asked: list[dict[str, Any]] = []
clients: dict[str, dict[str, Any]] = {CREDENTIALS[0]: {"client_secret": CREDENTIALS[1]}}
codes: dict[str, dict[str, str]] = {}
devices: dict[str, int] = {}
tokens: dict[str, AccessToken] = {}
refreshing: dict[str, str] = {}


async def control(request: Request) -> Response:
    for name, value in (await request.json()).items():
        setattr(settings, name, value)
    if settings.without == "tokens":
        tokens.clear()
    return JSONResponse({"asked": asked, "tokens": list(tokens), "refresh": list(refreshing)})


async def resource_metadata(request: Request) -> Response:
    if settings.without in ("resource", "metadata"):
        return Response(status_code=404)
    return JSONResponse({"resource": RESOURCE, "authorization_servers": [ISSUER], "scopes_supported": settings.scopes})


async def metadata(request: Request) -> Response:
    if settings.without in ("metadata", "issuer"):
        return Response(status_code=404)
    found = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/as/authorize",
        "token_endpoint": f"{ISSUER}/as/token",
        "registration_endpoint": f"{ISSUER}/as/register",
        "code_challenge_methods_supported": ["S256"],
    }
    if settings.without != "device":
        found["device_authorization_endpoint"] = f"{ISSUER}/as/device"
    return JSONResponse(found)


async def register(request: Request) -> Response:
    given = await request.json()
    asked.append({"at": "register", **given})
    if settings.without == "registration":
        return JSONResponse({"error": "access_denied", "error_description": "by hand only"}, 403)
    name = secrets.token_hex(8)
    clients[name] = {**given, "client_id": name, "client_secret": secrets.token_hex(16)}
    return JSONResponse({**clients[name], "token_endpoint_auth_method": "client_secret_basic"}, 201)


async def authorize(request: Request) -> Response:
    given = dict(request.query_params)
    asked.append({"at": "authorize", **given})
    if given["redirect_uri"] not in clients[given["client_id"]]["redirect_uris"]:
        return Response("unregistered address", 400)
    state = settings.state or given["state"]
    if settings.refuses:
        refusal = {"error": "access_denied", "error_description": "the user said no", "state": state}
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(refusal)}", 302)
    code = secrets.token_hex(16)
    codes[code] = given
    return RedirectResponse(f"{given['redirect_uri']}?{urlencode({'code': code, 'state': state})}", 302)


async def device(request: Request) -> Response:
    given = dict(await request.form())
    asked.append({"at": "device", **given})
    code = secrets.token_hex(16)
    devices[code] = settings.pending
    return JSONResponse(
        {
            "device_code": code,
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{ISSUER}/enter",
            "expires_in": 0.3 if settings.device == "late" else 60,
            "interval": 0.1,
        }
    )


def _client_of(request: Request) -> str | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    name, _, secret = base64.b64decode(given).decode().partition(":") if scheme == "Basic" else ("", "", "")
    known = clients.get(unquote(name), {}).get("client_secret")
    return unquote(name) if known is not None and secrets.compare_digest(known, unquote(secret)) else None


async def token(request: Request) -> Response:
    given = {key: str(value) for key, value in (await request.form()).items()}
    asked.append({"at": "token", **given})
    if settings.down:
        return Response(status_code=503)
    client = _client_of(request)
    if client is None:
        return JSONResponse({"error": "invalid_client"}, 401)
    error = _fault(given, client)
    if error:
        return JSONResponse({"error": error}, 400)
    access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
    ends = int(time.time() + settings.seconds + 1)
    tokens[access] = AccessToken(
        token=access, client_id=client, scopes=settings.scopes, expires_at=ends, resource=given.get("resource")
    )
    answer = {"access_token": access, "token_type": "bearer", "expires_in": int(settings.seconds)}
    if given["grant_type"] != "client_credentials":
        refreshing[refresh] = client
        answer["refresh_token"] = refresh
    return JSONResponse(answer)


def _fault(given: dict[str, str], client: str) -> str:
    """Check a grant. Return the error, "" for none."""
    match given["grant_type"]:
        case "authorization_code":
            known = codes.pop(given["code"], None)
            challenge = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).decode().rstrip("=")
            good = known is not None and (known["client_id"], known["redirect_uri"]) == (client, given["redirect_uri"])
            return "" if good and known is not None and known["code_challenge"] == challenge else "invalid_grant"
        case "refresh_token":
            return "" if refreshing.pop(given["refresh_token"], None) == client else "invalid_grant"
        case "client_credentials":
            return "" if client == CREDENTIALS[0] else "unauthorized_client"
        case _:
            devices[given["device_code"]] -= 1
            if devices[given["device_code"]] >= 0:
                return "authorization_pending"
            return settings.device


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        return tokens.get(token)


server = MCPServer(
    "guarded",
    auth=AuthSettings(issuer_url=ISSUER, resource_server_url=RESOURCE, required_scopes=["tools"], validate_token_resource=True),  # type: ignore[arg-type]  # pydantic converts the addresses
    token_verifier=Verifier(),
)


@server.tool()
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


app = server.sse_app() if TRANSPORT == "sse" else server.streamable_http_app()
app.router.routes[:0] = [
    Route("/control", control, methods=["POST"]),
    Route(f"/.well-known/oauth-protected-resource/{RESOURCE.rsplit('/', 1)[1]}", resource_metadata),
    Route("/.well-known/oauth-authorization-server", metadata),
    Route("/as/register", register, methods=["POST"]),
    Route("/as/authorize", authorize),
    Route("/as/device", device, methods=["POST"]),
    Route("/as/token", token, methods=["POST"]),
]
logging.disable(logging.WARNING)
uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="error")
