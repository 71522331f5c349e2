"""The configuration: the only reader and writer of config.yaml. Everything else is handed values.

    config = load_config()
    config.tools.timeout

Loading collects every fault of the file and raises them together: nothing in a broken file may loosen anything.
"""

from __future__ import annotations

from agent.config._example import example_text
from agent.config._files import locked, write_private
from agent.config._paths import config_path, state_dir
from agent.config._read import BrokenConfig, Fault, load_config, parse_config
from agent.config._schema import (
    AllowlistEntry,
    ApprovalConfig,
    Config,
    CustomToolset,
    PlatformConfig,
    PluginsConfig,
    TerminalConfig,
    ToolsConfig,
    ToolsetsConfig,
)
from agent.config._write import append_allowlist, edit_config, remove_allowlist, set_value

__all__ = [
    "AllowlistEntry",
    "ApprovalConfig",
    "BrokenConfig",
    "Config",
    "CustomToolset",
    "Fault",
    "PlatformConfig",
    "PluginsConfig",
    "TerminalConfig",
    "ToolsConfig",
    "ToolsetsConfig",
    "append_allowlist",
    "config_path",
    "edit_config",
    "example_text",
    "load_config",
    "locked",
    "parse_config",
    "remove_allowlist",
    "set_value",
    "state_dir",
    "write_private",
]
