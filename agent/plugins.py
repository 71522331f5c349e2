"""Old name of ``agent.plugin_host.plugins``, for programs that use it."""

from __future__ import annotations

import warnings

from agent.plugin_host.plugins import (
    PluginInfo,
    canonical,
    discover,
    load_plugins,
    project_digest,
)

__all__ = [
    "PluginInfo",
    "canonical",
    "discover",
    "load_plugins",
    "project_digest",
]
warnings.warn("agent.plugins is an old name: import agent.plugin_host.plugins", DeprecationWarning, stacklevel=2)
