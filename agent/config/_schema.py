"""Every key, its type, its default and what it is for: the one table that reading, its errors and the example file follow.

A nested dataclass is a section. To add a key, add a field; to add a section, add a class. Nothing else needs to change
but config.example.yaml, which ``example_text()`` writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any, Literal

from agent.config._cron import CronConfig
from agent.config._environments import EnvironmentsConfig, SandboxSettings, TerminalConfig
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
    description: str = setting("", "What it is for.", expect="text")
    tools: tuple[str, ...] = setting((), "Names of tools.", expect=NAMES, check=all_text)
    includes: tuple[str, ...] = setting((), "Names of other toolsets whose tools it has too.", expect=NAMES, check=all_text)


@dataclass(frozen=True, slots=True)
class ToolsetsConfig:
    """Bundles of tools that a session gets"""

    enabled: tuple[str, ...] | None = setting(
        None,
        "Toolsets to use, such as [terminal, file]. null takes the preset of the platform; [] takes none.",
        expect=f"{NAMES}, or null",
        check=all_text,
    )
    disabled: tuple[str, ...] = setting((), "Toolsets never to use, whatever is enabled.", expect=NAMES, check=all_text)
    custom: Mapping[str, CustomToolset] = setting(
        dict,
        "Your own toolsets by name:\n"
        "  custom:\n"
        "    research:\n"
        "      description: Look, do not touch\n"
        "      tools: [read_file, search_files]\n"
        "      includes: [todo]",
        expect="names, each with description, tools and includes",
    )


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """All tools"""

    disabled: tuple[str, ...] = setting((), "Tools never to offer nor run, by name.", expect=NAMES, check=all_text)
    timeout: float = setting(
        300.0, "Seconds that an async tool may take, where the tool itself sets no limit.", expect=SECONDS, check=above_zero
    )
    max_result_chars: int = setting(
        40_000,
        "Characters of a result that reach the model; of a longer one the head and the tail; the whole stays with the session.",
        expect="a whole number of 100 or more",
        check=lambda value: value >= 100,
    )


@dataclass(frozen=True, slots=True)
class PluginsConfig:
    """Code of others that runs inside toolcrib, with all your rights"""

    enabled: tuple[str, ...] = setting(
        (),
        "Plugins to load, by name; `toolcrib plugins` lists what there is. Their hooks are called in this order, and where two\n"
        "decide alike, the first one's decision stands.",
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
        "Settings of plugins, by the plugin's name; its documentation names them:\n  settings: {audit: {required: 'true'}}",
        expect="names of plugins, each with names and texts",
    )
    trusted_projects: Mapping[str, str] = setting(
        dict,
        "Projects whose own plugins (in .toolcrib/plugins) may load, each with the digest of that folder as you read it.\n"
        "Any change of the folder ends the trust. `toolcrib plugins` shows the digest:\n"
        "  trusted_projects: {/home/me/project: 5f2b...}",
        expect="absolute paths of projects, each with a digest of 64 characters of 0-9 and a-f",
        check=digests,
    )


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """Who must agree before a call runs"""

    gate_timeout: float = setting(
        10.0, "Seconds that a gate may take to decide; a later one blocks the call.", expect=SECONDS, check=above_zero
    )
    answer_timeout: float = setting(
        300.0, "Seconds that a person has to answer; after that the answer is no.", expect=SECONDS, check=above_zero
    )
    park_timeout: float = setting(
        604_800.0,
        "Seconds that a parked run waits for an answer (`toolcrib run --park`); then its call is not run. 604800 are 7 days.",
        expect=SECONDS,
        check=above_zero,
    )
    reminders: float | None = setting(
        86_400.0,
        "Seconds after which whoever must answer a parked run is reminded, again and again. null reminds nobody.",
        expect=f"{SECONDS}, or null",
        check=above_zero,
    )
    rules: tuple[OperatorRule, ...] = setting(
        (), RULES_DOC, expect="a list of rules, each with key, level, command, why and example"
    )
    tools: tuple[OperatorToolRule, ...] = setting((), TOOLS_DOC, expect="a list of rules, each with tool, decision and why")
    mode: Literal["default", "cautious", "confirm-edits", "plan"] = setting(
        "default",
        "Mode that sessions begin in. default: what the rules find is asked or refused, but not what a sandbox stops or an undo\n"
        "takes back. cautious: that is asked about as well. confirm-edits: every edit, and every command that may write, is\n"
        "asked about. plan: these are refused. --mode says it for one session, /mode switches it.",
    )
    develop_toolcrib: bool = setting(
        False,
        "Let tools change toolcrib's own sources, where it runs from a checkout that you work on. What they change judges the\n"
        "next session. Anything else that is installed stays closed. --develop-toolcrib says it for one session.",
        expect="true or false",
    )
    smart: SmartConfig = field(default_factory=SmartConfig)


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
    version: int = setting(..., "Form of this entry.", expect=COUNT, check=at_least_one)
    links: tuple[str, ...] = setting(
        (),
        "Paths of the command that lead elsewhere by links, each followed by where it led when the command was allowed;\n"
        "and files that say what it works on, each followed by a digest of what they said.",
        expect="a list of absolute paths, each followed by another or by a digest",
        check=lambda paths: (
            len(paths) % 2 == 0 and all(path.startswith(("/", "sha256:") if at % 2 else "/") for at, path in enumerate(paths))
        ),
    )
    text: str | None = field(default=None, metadata=_INTERNAL)
    """The whole entry, where it is plain text: then ``argv`` and ``cwd`` are empty, and ``version`` is 0."""

    @classmethod
    def of_text(cls, text: str) -> AllowlistEntry:
        """An entry as the specification writes it: a command, or the description of a pattern; see agent.policy.allowlist."""
        return cls((), "", 0, text=text)

    @property
    def shown(self) -> str:
        """The entry's words, for people."""
        return " ".join(self.argv) if self.text is None else self.text


@dataclass(frozen=True, slots=True)
class UserConfig:
    disabled_toolsets: tuple[str, ...] = setting(
        (), "Toolsets that this user does not get, besides the platform's.", expect=NAMES, check=all_text
    )
    disabled_tools: tuple[str, ...] = setting(
        (), "Tools that this user does not get, besides the platform's.", expect=NAMES, check=all_text
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """A partial configuration: dotted key -> checked value, of the keys that it gives."""

    values: Mapping[str, Any] = field(default_factory=dict, metadata=_INTERNAL)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, checked. ``path`` is the file that they came from, which need not exist.

    ``profile`` is the name of the profile in force, or empty. ``notices`` are what the project's file says and may not.
    ``digest`` is the SHA-256 of the file's bytes, in hexadecimal; empty where there is no file.
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
        "What differs on one platform (cli, gateway, telegram, api, cron, acp); from allowed_users on for the gateway's:\n"
        "  platforms:\n"
        "    telegram:\n"
        "      enabled_toolsets: [coding]\n"
        "      disabled_toolsets: []\n"
        "      disabled_tools: [terminal]\n"
        "      smart_approval: false\n"
        "      allowed_users: ['12345', 'role:staff']  # besides those who paired; '*' is everybody\n"
        "      allowed_chats: ['-100123']  # groups\n"
        "      roles: {owner: ['12345']}\n"
        "      strangers: silent  # or told\n"
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
        "What one user does not get, by the id that the platform knows the user by, or on one platform by 'telegram:12345':\n"
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
        "Other settings by name, each laid over the rest of this file when it is chosen by --profile or $TOOLCRIB_PROFILE:\n"
        "  profiles:\n"
        "    local:\n"
        "      model: {provider: chat, base_url: 'http://127.0.0.1:11434/v1', name: qwen3}\n"
        "A profile may have all that stands in this file, but profiles, command_allowlist and plugins.trusted_projects.\n"
        "One that sets model.base_url does not inherit model.api_key_env: a key goes to the server that it was given for.",
        expect="names (letters, digits, _ and -), each with keys as in this file",
        check=profile_names,
    )
    command_allowlist: tuple[AllowlistEntry, ...] = setting(
        (),
        "Commands that run unasked: what you answered `always` to. toolcrib writes it. An entry that you write yourself\n"
        "counts only after you have confirmed it. Plain text is one command, in the project's folder only, or the description\n"
        "of a dangerous pattern, below that folder only; each project asks you for itself. `links` are paths that led elsewhere\n"
        "when you agreed, each followed by where: an entry counts while that is so, and without links while there are none.\n"
        "Files that say where a remote lies, or what is ignored, stand there too, with a digest of what they said.\n"
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
        "Times that the model may be asked again before a run ends. Where it is not set, they are 50 in the chat, which then\n"
        "asks whether to go on.",
        expect=COUNT,
        check=at_least_one,
    )
    path: Path = field(default_factory=config_path, compare=False, metadata=_INTERNAL)
    profile: str = field(default="", compare=False, metadata=_INTERNAL)
    notices: tuple[str, ...] = field(default=(), compare=False, metadata=_INTERNAL)
    digest: str = field(default="", compare=False, metadata=_INTERNAL)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False, metadata=_INTERNAL)

    @property
    def folder(self) -> Path:
        """The folder of the configuration file, which also holds ``plugins/`` and ``secrets.env``."""
        return self.path.parent

    @property
    def store_path(self) -> Path:
        """Return the database's absolute path; it need not exist."""
        return expanded(self.store.path, "store.path") if self.store.path else state_dir() / "toolcrib.db"

    @property
    def remembers(self) -> bool:
        """True if models keep notes for later sessions."""
        return self.memory.enabled and self.store.enabled

    @property
    def store_url(self) -> str | None:
        """The PostgreSQL server that keeps sessions, with its password where $TOOLCRIB_STORE_URL has one; None for a file."""
        return self.store.url or os.environ.get("TOOLCRIB_STORE_URL") or None

    @property
    def store_secrets(self) -> Mapping[str, str]:
        """The password in ``store_url``, in each way of writing it, by a name for the redactor."""
        if self.store_url is None:
            return {}
        from agent.store.postgres.address import Address

        return {f"TOOLCRIB_STORE_URL {number}": secret for number, secret in enumerate(Address(self.store_url).secrets(), 1)}

    def origin(self, key: str) -> str:
        """Return where a value was set: ``default``, ``FILE:LINE``, ``profile NAME FILE:LINE``, ``project FILE:LINE``,
        ``environment NAME``; several are joined by "; ". Raises ConfigError for an unknown key."""
        from agent.config._keys import find_key

        dotted = ".".join(find_key(key)[0])
        below = [origin for name, origin in self.origins.items() if name.startswith(f"{dotted}.")]
        found = [self.origins[dotted]] if dotted in self.origins else list(dict.fromkeys(below))
        return "; ".join(found) or "default"


def is_required(entry: Any) -> bool:
    """Return whether a dataclass field has no default."""
    return entry.default is MISSING and entry.default_factory is MISSING
