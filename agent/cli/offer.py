"""Advice if no model is configured: how to configure one, and which servers answer on this machine. None of them is used unless
the user chooses it.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping

from toolcrib.contract.errors import ConfigError
from tools.dispatch.bridge import run_async

_PATIENCE = 0.3
HOW = """\
Set one with options, for example
  toolcrib {command} --base-url http://127.0.0.1:11434/v1 --model qwen3
or with OPENAI_BASE_URL and OPENAI_API_KEY, or in the configuration:
  toolcrib config set model '{{base_url: "http://127.0.0.1:11434/v1", name: qwen3}}'
or with the wizard: toolcrib setup"""


def no_model(command: str) -> ConfigError:
    """Return the error of a command that needs a model and has none. It lists servers found on loopback."""
    found = offers(command)
    return ConfigError("\n".join(["no model is configured.", HOW.format(command=command), *found]))


def offers(command: str, ports: Mapping[int, str] | None = None, *, seconds: float = _PATIENCE) -> list[str]:
    """Return lines about the model servers on loopback that answer in ``seconds``. Return almost at once if none listens."""
    from agent.providers.discover import PORTS, find_local_servers

    named = PORTS if ports is None else ports
    listening = {port: kind for port, kind in named.items() if _listens(port)}
    if not listening:
        return []
    lines = []
    for server in run_async(find_local_servers(seconds, listening)):
        models = ", ".join(server.models[:8]) + (", ..." if len(server.models) > 8 else "")
        option = f" --model {shlex.quote(server.models[0])}" if server.models else ""
        lines.append(f"{server.kind} answers at {server.base_url}, models: {models or 'none yet'}")
        lines.append(f"  toolcrib {command} --base-url {server.base_url}{option}")
    return lines


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.05)
        return probe.connect_ex(("127.0.0.1", port)) == 0
