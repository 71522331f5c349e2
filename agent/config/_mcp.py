"""The schema of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from agent.config._model import COUNT
from agent.config._setting import NAMES, SECONDS, above_zero, absolute, all_text, at_least_one, env_names, is_base_url, setting
from toolcrib.contract.dataclass import dataclass

_TEXTS = "names, each with a text"
_NAME = "the name of a secret"


def _sound(values: Mapping[str, McpServer]) -> bool:
    """Accept names that toolsets and names of tools can contain, and servers that are either a program or an address."""
    return all(
        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name)
        and bool(server.command) != bool(server.url)
        and len({bool(server.client_id), bool(server.client_secret), bool(server.issuer)}) == 1
        for name, server in values.items()
    )


def _env_name(value: str) -> bool:
    return not value or env_names((value,))


def _headers(values: Mapping[str, str]) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9-]+", name) and value.isprintable() for name, value in values.items())


def _variables(values: Mapping[str, str]) -> bool:
    return env_names(tuple(values)) and not any("\0" in value for value in values.values())


def _hosts(values: tuple[str, ...]) -> bool:
    from agent.config._environments import _all_hosts

    return _all_hosts(values)


@dataclass(frozen=True, slots=True)
class McpServer:
    command: tuple[str, ...] = setting(
        (), "The program that is the server, with its arguments.", expect="a list of words", check=all_text
    )
    url: str = setting(
        "", "Address of a server that is reached over HTTP, instead of command.", expect="an http(s) URL", check=is_base_url
    )
    transport: Literal["http", "sse"] = setting(
        "http", "How url is used. http: streamable HTTP. sse: the older transport of servers from before 2025-03."
    )
    protocol: Literal["auto", "legacy"] = setting(
        "auto", "Version of the protocol. auto: the newest that the server speaks. legacy: those before 2026."
    )
    enabled: bool = setting(True, "Whether sessions may have its tools.", expect="true or false")
    tools: tuple[str, ...] | None = setting(
        None,
        "Tools of the server that sessions may have, by its own names. null: all.",
        expect=f"{NAMES}, or null",
        check=all_text,
    )
    env: Mapping[str, str] = setting(
        dict,
        "Environment variables of its program. Put secrets into secrets.env, and name them in secrets.",
        expect=_TEXTS,
        check=_variables,
    )
    secrets: tuple[str, ...] = setting(
        (),
        "Names of secrets (in the environment or in secrets.env) that its program gets as environment variables.",
        expect=NAMES,
        check=env_names,
    )
    headers: Mapping[str, str] = setting(
        dict,
        "Headers of each request to url. ${NAME} is replaced by the secret of that name.",
        expect="names of headers, each with a text",
        check=_headers,
    )
    shared: bool = setting(
        False,
        "Whether users of chat platforms use your login (`toolcrib mcp login`) if they have none of their own.",
        expect="true or false",
    )
    client_id: str = setting(
        "",
        "Name of the secret with the client id, for a server that takes client credentials instead of a user's login.",
        expect=_NAME,
        check=_env_name,
    )
    client_secret: str = setting("", "Name of the secret with the client secret.", expect=_NAME, check=_env_name)
    issuer: str = setting(
        "",
        "Address of the authorization server that issued the client credentials. They are sent to no other.",
        expect="an http(s) URL",
        check=is_base_url,
    )
    backend: str = setting(
        "", "Backend that its program runs in. Empty: terminal.backend.", expect="the name of a backend, or nothing"
    )
    hosts: tuple[str, ...] = setting(
        (),
        "Hosts that its program may reach in the sandbox, besides sandbox.hosts.",
        expect="a list of hosts, such as [example.org, 'localhost:5432']",
        check=_hosts,
    )
    write: tuple[str, ...] = setting(
        (),
        "Folders that its program may change in the sandbox, besides the project and sandbox.write.",
        expect="a list of paths, absolute or from ~",
        check=lambda values: all(map(absolute, values)),
    )
    timeout: float = setting(60.0, "Seconds that a call may take.", expect=SECONDS, check=above_zero)
    start_timeout: float = setting(30.0, "Seconds that its start may take.", expect=SECONDS, check=above_zero)
    idle: float = setting(300.0, "Seconds without a call after which its program is stopped.", expect=SECONDS, check=above_zero)
    sampling: Literal["ask", "never", "allow"] = setting(
        "ask",
        "Whether the server may ask the session's model during a call. ask: you are asked each time. never: no. allow: yes.",
    )

    @property
    def has_key(self) -> bool:
        """True if each request has the header Authorization, so that no login is used."""
        return any(name.casefold() == "authorization" for name in self.headers)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """MCP servers, whose tools sessions can have. `toolcrib mcp add` adds one"""

    servers: Mapping[str, McpServer] = setting(
        dict,
        "The servers, by names of your own. Only tools that you have seen and locked (`toolcrib mcp lock`) are offered.\n"
        "  servers:\n"
        "    files:\n"
        "      command: [npx, -y, '@modelcontextprotocol/server-filesystem@2026.8.31', /srv/data]\n"
        "      protocol: auto  # or legacy: before 2026\n"
        "      enabled: true\n"
        "      tools: null  # all\n"
        "      env: {LANG: C}\n"
        "      secrets: [FILES_TOKEN]\n"
        "      backend: ''  # terminal.backend\n"
        "      hosts: [api.example.org]  # besides sandbox.hosts\n"
        "      write: [/srv/data]\n"
        "      timeout: 60\n"
        "      start_timeout: 30\n"
        "      idle: 300\n"
        "      sampling: ask  # or never, allow\n"
        "    mail:\n"
        "      url: https://mcp.example.org/mcp\n"
        "      transport: http  # or sse\n"
        "      headers: {X-Team: '${MAIL_TEAM}'}\n"
        "      shared: false\n"
        "      client_id: MAIL_CLIENT_ID\n"
        "      client_secret: MAIL_CLIENT_SECRET\n"
        "      issuer: https://auth.example.org",
        expect="names (letters, digits, _ and -), each with either command or url; client_id, client_secret and issuer together",
        check=_sound,
    )
    starts_at_once: int = setting(4, "Servers that may start at the same time.", expect=COUNT, check=at_least_one)
