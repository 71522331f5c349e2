"""The SDK of MCP, which the extra ``mcp`` installs."""

from __future__ import annotations

from importlib.util import find_spec

from toolcrib.contract.errors import ConfigError


def require_sdk() -> None:
    """Raise ConfigError if the SDK is not installed."""
    if find_spec("mcp") is None:
        raise ConfigError("MCP servers need the extra mcp: pip install 'toolcrib[mcp]'")
