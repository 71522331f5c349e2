"""The configuration: the only reader and writer of config.yaml. Other packages receive values.

    config = load_config()
    config.tools.timeout

Loading collects every error of the file and raises them together. A file with errors is not used at all, so that no setting that
restricts something is lost.

``_schema`` has every key, with ``_model``, ``_environments``, ``_platforms``, ``_snapshots``, ``_chat_keys``, ``_cron`` and
``_rules`` for its larger parts; ``_setting`` declares a key. ``_layers`` merges defaults, file, profile and project
(``_project``), ``_read`` finds errors with their lines, ``_sound`` returns the valid part of a broken file, ``_keys`` resolves
dotted names, ``_write`` changes the file, ``_example`` writes config.example.yaml, ``_described`` describes every key;
``_paths``, ``_files`` and ``_secrets`` are the lowest layer; ``_foreign`` reads YAML of other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.config._chat_keys import KeysConfig, key_label, key_table
from agent.config._environments import SandboxSettings, TerminalConfig
from agent.config._files import locked, write_private
from agent.config._keys import NotSet, all_keys, find_key, leaves, plain, value_at
from agent.config._layers import load_config
from agent.config._model import DisplayConfig, ModelConfig, RetryConfig, RunConfig, SmartConfig, StoreConfig, UndoConfig
from agent.config._paths import cache_dir, config_path, contents_path, sandbox_records, state_dir
from agent.config._platforms import GatewayConfig, PlatformConfig
from agent.config._read import BrokenConfig, ConfigFault, parse_config
from agent.config._rules import OperatorRule, OperatorToolRule
from agent.config._schema import (
    AllowlistEntry,
    ApprovalConfig,
    Config,
    CustomToolset,
    PluginsConfig,
    Profile,
    ToolsConfig,
    ToolsetsConfig,
    UserConfig,
)
from agent.config._secrets import Secrets, read_secrets, secret, secrets_path, values_in, write_secret
from agent.config._snapshots import SnapshotsConfig
from agent.config._tokens import read_tokens, token_values, tokens_path, write_tokens
from toolcrib.contract.late import late

if TYPE_CHECKING:
    from agent.config._described import DescribedSetting, settings
    from agent.config._example import example_text
    from agent.config._sound import sound_part
    from agent.config._write import (
        UNSET,
        append_allowlist,
        edit_config,
        parse_value,
        preview,
        remove_allowlist,
        set_value,
        set_values,
        text_with,
        unset_value,
    )
else:  # imported on first use, because most processes only read the file
    _WRITERS = (
        "append_allowlist", "edit_config", "parse_value", "preview", "remove_allowlist", "set_value", "set_values", "unset_value",
    )  # fmt: skip
    __getattr__ = late(
        __name__,
        {
            "DescribedSetting": "agent.config._described",
            "settings": "agent.config._described",
            "example_text": "agent.config._example",
            "sound_part": "agent.config._sound",
            **dict.fromkeys(("UNSET", "text_with", *_WRITERS), "agent.config._write"),
        },
    )

__all__ = [
    "UNSET",
    "AllowlistEntry",
    "ApprovalConfig",
    "BrokenConfig",
    "Config",
    "ConfigFault",
    "CustomToolset",
    "DescribedSetting",
    "DisplayConfig",
    "GatewayConfig",
    "KeysConfig",
    "ModelConfig",
    "NotSet",
    "OperatorRule",
    "OperatorToolRule",
    "PlatformConfig",
    "PluginsConfig",
    "Profile",
    "RetryConfig",
    "RunConfig",
    "SandboxSettings",
    "Secrets",
    "SmartConfig",
    "SnapshotsConfig",
    "StoreConfig",
    "TerminalConfig",
    "ToolsConfig",
    "ToolsetsConfig",
    "UndoConfig",
    "UserConfig",
    "all_keys",
    "append_allowlist",
    "cache_dir",
    "config_path",
    "contents_path",
    "edit_config",
    "example_text",
    "find_key",
    "key_label",
    "key_table",
    "leaves",
    "load_config",
    "locked",
    "parse_config",
    "parse_value",
    "plain",
    "preview",
    "read_secrets",
    "read_tokens",
    "remove_allowlist",
    "sandbox_records",
    "secret",
    "secrets_path",
    "set_value",
    "set_values",
    "settings",
    "sound_part",
    "state_dir",
    "text_with",
    "token_values",
    "tokens_path",
    "unset_value",
    "value_at",
    "values_in",
    "write_private",
    "write_secret",
    "write_tokens",
]
