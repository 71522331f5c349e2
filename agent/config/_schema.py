"""All keys with type, default and description: the one table for the reader, its errors and the example file.

A nested dataclass is a section. To add a key, add a field; to add a section, add a class. The only other file to change is
config.example.yaml, which ``example_text()`` writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any, Literal

from agent.config._cron import CronConfig
from agent.config._environments import EnvironmentsConfig, SandboxSettings, TerminalConfig
from agent.config._mcp import McpConfig
from agent.config._model import (
    COUNT,
    CompressionConfig,
    DelegatesConfig,
    DisplayConfig,
    InstructionsConfig,
    MemoryConfig,
    ModelConfig,
    RetryConfig,
    RunConfig,
    SessionsConfig,
    SmartConfig,
    StoreConfig,
    UndoConfig,
)
from agent.config._paths import config_path, expanded, state_dir
from agent.config._platforms import GatewayConfig, PlatformConfig
from agent.config._rules import RULES_DOC, TOOLS_DOC, OperatorRule, OperatorToolRule
from agent.config._setting import (
    NAMES,
    SECONDS,
    above_zero,
    all_text,
    at_least_one,
    digests,
    profile_names,
    setting,
)
from agent.config._snapshots import SnapshotsConfig
from toolcrib.contract.dataclass import dataclass

_INTERNAL = {"internal": True}


@dataclass(frozen=True, slots=True)
class CustomToolset:
    description: str = setting("", "Its purpose, shown to users.", expect="text")
    tools: tuple[str, ...] = setting((), "Names of tools.", expect=NAMES, check=all_text)
    includes: tuple[str, ...] = setting((), "Names of other toolsets to include.", expect=NAMES, check=all_text)


@dataclass(frozen=True, slots=True)
class ToolsetsConfig:
    """Bundles of tools that a session gets"""

    enabled: tuple[str, ...] | None = setting(
        None,
        "Toolsets to use, such as [terminal, file]. null uses the platform's preset; [] uses none.",
        expect=f"{NAMES}, or null",
        check=all_text,
    )
    disabled: tuple[str, ...] = setting((), "Toolsets that are never used, even if enabled.", expect=NAMES, check=all_text)
    custom: Mapping[str, CustomToolset] = setting(
        dict,
        "Your own toolsets by name:\n"
        "  custom:\n"
        "    research:\n"
        "      description: Read only\n"
        "      tools: [read_file, search_files]\n"
        "      includes: [todo]",
        expect="names, each with description, tools and includes",
    )


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """All tools"""

    disabled: tuple[str, ...] = setting((), "Names of tools that are never offered or run.", expect=NAMES, check=all_text)
    timeout: float = setting(
        300.0, "Seconds that an async tool may take, unless the tool has a limit of its own.", expect=SECONDS, check=above_zero
    )
    max_result_chars: int = setting(
        40_000,
        "Maximum characters of a result for the model, which gets the beginning and end of a longer one; the session keeps all.",
        expect="a whole number of 100 or more",
        check=lambda value: value >= 100,
    )


@dataclass(frozen=True, slots=True)
class PluginsConfig:
    """Third-party code that runs inside toolcrib, with all your rights"""

    enabled: tuple[str, ...] = setting(
        (),
        "Names of plugins to load; `toolcrib plugins` lists all that are installed. Their hooks are called in this order; if\n"
        "two hooks decide the same call, the decision of the first applies.",
        expect=NAMES,
        check=all_text,
    )
    allow_override: Mapping[str, str] = setting(
        dict,
        "Tools that a plugin may replace, each with the name of that plugin:\n  allow_override: {search_files: my_search}",
        expect="names of tools, each with the name of a plugin",
        check=lambda value: all(value.values()),
    )
    settings: Mapping[str, Mapping[str, str]] = setting(
        dict,
        "Settings of plugins, by the plugin's name; see its documentation:\n  settings: {audit: {required: 'true'}}",
        expect="names of plugins, each with names and texts",
    )
    trusted_projects: Mapping[str, str] = setting(
        dict,
        "Projects whose own plugins (in .toolcrib/plugins) may load, each with the digest of that folder as you reviewed it.\n"
        "Any change of the folder ends the trust. `toolcrib plugins` shows the digest:\n"
        "  trusted_projects: {/home/me/project: 5f2b...}",
        expect="absolute paths of projects, each with a digest of 64 characters of 0-9 and a-f",
        check=digests,
    )


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """Approval of calls before they run"""

    gate_timeout: float = setting(
        10.0, "Seconds that a gate may take to decide; after that the call is blocked.", expect=SECONDS, check=above_zero
    )
    answer_timeout: float = setting(
        300.0, "Seconds to wait for a person's answer; after that the call is denied.", expect=SECONDS, check=above_zero
    )
    park_timeout: float = setting(
        604_800.0,
        "Seconds that a parked run waits for an answer (`toolcrib run --park`); after that its call is denied. 604800 is 7 days.",
        expect=SECONDS,
        check=above_zero,
    )
    reminders: float | None = setting(
        86_400.0,
        "Seconds between reminders to the users who must answer a parked run. null sends no reminders.",
        expect=f"{SECONDS}, or null",
        check=above_zero,
    )
    rules: tuple[OperatorRule, ...] = setting(
        (), RULES_DOC, expect="a list of rules, each with key, level, command, why and example"
    )
    tools: tuple[OperatorToolRule, ...] = setting(
        (), TOOLS_DOC, expect="a list of rules, each with tool or toolset, decision and why"
    )
    mode: Literal["default", "cautious", "confirm-edits", "plan"] = setting(
        "default",
        "Mode that sessions begin in. default: findings of the rules are asked about or denied, unless a sandbox contains their\n"
        "effects or an undo reverts them. cautious: contained and reversible effects are asked about too. confirm-edits: every\n"
        "edit, and every command that may write, is asked about. plan: all edits and such commands are denied. --mode sets the\n"
        "mode for one session, /mode switches it.",
    )
    develop_toolcrib: bool = setting(
        False,
        "Let tools change toolcrib's own sources, if it runs from a checkout that you work on. The changed code takes effect in\n"
        "the next session. Other installed code stays read-only. --develop-toolcrib sets it for one session.",
        expect="true or false",
    )
    smart: SmartConfig = field(default_factory=SmartConfig)
    notify_command: tuple[str, ...] = setting(
        (),
        "A command that runs if a question waits in the chat and you have not typed for 5 seconds, such as [notify-send].\n"
        "Its last argument is a short text.",
        expect="a list of words, the command first",
        check=all_text,
    )


@dataclass(frozen=True, slots=True)
class AllowlistEntry:
    argv: tuple[str, ...] = setting(
        ...,
        "The words of one simple command.",
        expect="a list of words, the command first",
        check=lambda words: bool(words and words[0]),
    )
    cwd: str = setting(
        ..., "The folder below which it is allowed.", expect="an absolute path", check=lambda path: path.startswith("/")
    )
    version: int = setting(..., "Version of this entry's form.", expect=COUNT, check=at_least_one)
    links: tuple[str, ...] = setting(
        (),
        "Paths in the command that are links, each followed by the link's target when the command was allowed; and files that\n"
        "the command depends on, each followed by a digest of its content.",
        expect="a list of absolute paths, each followed by another or by a digest",
        check=lambda paths: (
            len(paths) % 2 == 0 and all(path.startswith(("/", "sha256:") if at % 2 else "/") for at, path in enumerate(paths))
        ),
    )
    text: str | None = field(default=None, metadata=_INTERNAL)
    """The whole entry, if it is plain text: then ``argv`` and ``cwd`` are empty, and ``version`` is 0."""

    @classmethod
    def of_text(cls, text: str) -> AllowlistEntry:
        """Return an entry of plain text: a command, or the description of a pattern. See agent.policy.allowlist."""
        return cls((), "", 0, text=text)

    @property
    def shown(self) -> str:
        """Return the entry's words, for people."""
        return " ".join(self.argv) if self.text is None else self.text


@dataclass(frozen=True, slots=True)
class UserConfig:
    disabled_toolsets: tuple[str, ...] = setting(
        (), "Toolsets to disable for this user, besides the platform's.", expect=NAMES, check=all_text
    )
    disabled_tools: tuple[str, ...] = setting(
        (), "Tools to disable for this user, besides the platform's.", expect=NAMES, check=all_text
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """A partial configuration: dotted key -> checked value, for the keys that it sets."""

    values: Mapping[str, Any] = field(default_factory=dict, metadata=_INTERNAL)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, checked. ``path`` is the file that they were read from, which need not exist.

    ``profile`` is the name of the active profile, or empty. ``notices`` are warnings, such as about ignored settings of the
    project's file. ``digest`` is the SHA-256 of the file's bytes, in hexadecimal, or empty if there is no file.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    compression: CompressionConfig = field(default_factory=CompressionConfig)
    run: RunConfig = field(default_factory=RunConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    delegates: DelegatesConfig = field(default_factory=DelegatesConfig)
    toolsets: ToolsetsConfig = field(default_factory=ToolsetsConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    platforms: Mapping[str, PlatformConfig] = setting(
        dict,
        "Settings of one platform (cli, gateway, telegram, api, cron, acp). Keys from allowed_users on are for gateways only:\n"
        "  platforms:\n"
        "    telegram:\n"
        "      enabled_toolsets: [coding]\n"
        "      disabled_toolsets: []\n"
        "      disabled_tools: [terminal]\n"
        "      smart_approval: false\n"
        "      allowed_users: ['12345', 'role:staff']  # besides those who paired; '*' is everybody\n"
        "      allowed_chats: ['-100123']  # groups\n"
        "      roles: {owner: ['12345']}\n"
        "      strangers: silent  # or `told`\n"
        "      groups: addressed  # or all messages\n"
        "      busy: queue  # or steer, interrupt\n"
        "      renew_hours: 0\n"
        "      streams: true\n"
        "      backend: docker\n"
        "      allow_local: false\n"
        "      folders: {'-100123': /srv/app}\n"
        "      messages_to: []\n"
        "      messages_per_hour: 0\n"
        "      runs_at_once: 0\n"
        "      tokens_per_day: 0\n"
        "      cost_per_day: 0\n"
        "      settings: {}",
        expect="names of platforms, each with enabled_toolsets, disabled_tools, allowed_users, roles ...",
    )
    users: Mapping[str, UserConfig] = setting(
        dict,
        "Restrictions of one user, by the platform's user id, or for one platform only as 'telegram:12345':\n"
        "  users:\n"
        "    '12345':\n"
        "      disabled_toolsets: [terminal]\n"
        "      disabled_tools: []",
        expect="ids of users, each with disabled_toolsets and disabled_tools",
    )
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    cron: CronConfig = field(default_factory=CronConfig)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)
    instructions: InstructionsConfig = field(default_factory=InstructionsConfig)
    terminal: TerminalConfig = field(default_factory=TerminalConfig)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    environments: EnvironmentsConfig = field(default_factory=EnvironmentsConfig)
    approval: ApprovalConfig = field(default_factory=ApprovalConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    undo: UndoConfig = field(default_factory=UndoConfig)
    snapshots: SnapshotsConfig = field(default_factory=SnapshotsConfig)
    display: DisplayConfig = field(default_factory=DisplayConfig)
    profiles: Mapping[str, Profile] = setting(
        dict,
        "Named settings that override the rest of this file if --profile or $TOOLCRIB_PROFILE selects them:\n"
        "  profiles:\n"
        "    local:\n"
        "      model: {provider: chat, base_url: 'http://127.0.0.1:11434/v1', name: qwen3}\n"
        "A profile may have every key of this file except profiles, command_allowlist and plugins.trusted_projects.\n"
        "A profile that sets model.base_url does not inherit model.api_key_env: a key is only for the server it was set for.",
        expect="names (letters, digits, _ and -), each with keys as in this file",
        check=profile_names,
    )
    command_allowlist: tuple[AllowlistEntry, ...] = setting(
        (),
        "Commands that run without asking, because you answered `always`. toolcrib writes this list. An entry that you add\n"
        "yourself applies only after you confirm it. Plain text is one command, in the project's folder only, or the\n"
        "description of a dangerous pattern, below that folder only; each project asks you separately. `links` are paths that\n"
        "were links when you approved, each followed by its target: the entry applies only while they are the same links to the\n"
        "same targets. `links` also lists files with a remote's address or with ignored paths, each with a digest of its\n"
        "content.\n"
        "  command_allowlist:\n"
        "    - argv: [systemctl, restart, nginx]\n"
        "      cwd: /srv/site\n"
        "      version: 1\n"
        "    - argv: [rm, -r, build]\n"
        "      cwd: /srv/site\n"
        "      version: 1\n"
        "      links: [/srv/site/build, /data/build]\n"
        "    - make clean\n"
        "    - recursive delete",
        expect="a list of entries, each with argv, cwd and version, or plain text",
    )
    max_turns: int = setting(
        10,
        "Maximum turns of one run. In the chat the default is 50; after that, the chat asks whether to continue.",
        expect=COUNT,
        check=at_least_one,
    )
    path: Path = field(default_factory=config_path, compare=False, metadata=_INTERNAL)
    profile: str = field(default="", compare=False, metadata=_INTERNAL)
    notices: tuple[str, ...] = field(default=(), compare=False, metadata=_INTERNAL)
    digest: str = field(default="", compare=False, metadata=_INTERNAL)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False, metadata=_INTERNAL)
    mcp: McpConfig = field(default_factory=McpConfig)

    @property
    def folder(self) -> Path:
        """Return the folder of the configuration file, which also holds ``plugins/`` and ``secrets.env``."""
        return self.path.parent

    @property
    def store_path(self) -> Path:
        """Return the absolute path of the database. It need not exist."""
        return expanded(self.store.path, "store.path") if self.store.path else state_dir() / "toolcrib.db"

    @property
    def remembers(self) -> bool:
        """Return whether models keep notes for later sessions."""
        return self.memory.enabled and self.store.enabled

    @property
    def store_name(self) -> str:
        """A name for the store that no other store has, on this machine or another: sessions of two stores may have equal ids."""
        import hashlib
        import socket

        where = f"{socket.gethostname()} {self.store_path}" if self.store_url is None else self.store_url
        return hashlib.sha256(where.encode()).hexdigest()[:16]

    @property
    def store_url(self) -> str | None:
        """Return the URL of the PostgreSQL server that stores sessions, with the password if it has one; None for a file."""
        return self.store.url or os.environ.get("TOOLCRIB_STORE_URL") or None

    @property
    def store_secrets(self) -> Mapping[str, str]:
        """Return the password in ``store_url``, in each form that it can have, under names for the redactor."""
        if self.store_url is None:
            return {}
        from agent.store.postgres.address import Address

        return {f"TOOLCRIB_STORE_URL {number}": secret for number, secret in enumerate(Address(self.store_url).secrets(), 1)}

    def origin(self, key: str) -> str:
        """Return the origin of a value: ``default``, ``FILE:LINE``, ``profile NAME FILE:LINE``, ``project FILE:LINE``,
        ``environment NAME``; several are joined by "; ". Raises ConfigError for an unknown key."""
        from agent.config._keys import find_key

        dotted = ".".join(find_key(key)[0])
        below = [origin for name, origin in self.origins.items() if name.startswith(f"{dotted}.")]
        found = [self.origins[dotted]] if dotted in self.origins else list(dict.fromkeys(below))
        return "; ".join(found) or "default"


def is_required(entry: Any) -> bool:
    """Return whether a dataclass field has no default."""
    return entry.default is MISSING and entry.default_factory is MISSING
