"""Every key, its type, its default and what it is for: the one table that reading, its errors and the example file follow.

A nested dataclass is a section. To add a key, add a field; to add a section, add a class. Nothing else needs to change
but config.example.yaml, which ``example_text()`` writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from agent.config._paths import config_path

Check = Callable[[Any], bool]


def setting(default: Any, doc: str, *, expect: str = "", check: Check | None = None) -> Any:
    """A key. ``expect`` tells people what a good value is, and ``check`` refuses others of the right type.

    A list or mapping is given as its class, and starts empty. ``...`` makes the key required.
    """
    metadata = {"doc": doc, "expect": expect, "check": check}
    if default is ...:
        return field(metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _above_zero(value: float) -> bool:
    return value > 0


def _at_least_one(value: int) -> bool:
    return value >= 1


def _all_text(values: tuple[str, ...]) -> bool:
    return all(values)


def _env_names(values: tuple[str, ...]) -> bool:
    return all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) for value in values)


def _absolute(value: str) -> bool:
    return value.startswith(("/", "~"))


def _digests(values: Mapping[str, str]) -> bool:
    return all(_absolute(path) and re.fullmatch(r"[0-9a-f]{64}", digest) for path, digest in values.items())


_SECONDS = "a number of seconds above 0"
_NAMES = "a list of names"


@dataclass(frozen=True, slots=True)
class CustomToolset:
    description: str = setting("", "What it is for.", expect="text")
    tools: tuple[str, ...] = setting((), "Names of tools.", expect=_NAMES, check=_all_text)
    includes: tuple[str, ...] = setting((), "Names of other toolsets whose tools it has too.", expect=_NAMES, check=_all_text)


@dataclass(frozen=True, slots=True)
class ToolsetsConfig:
    """Which bundles of tools a session gets"""

    enabled: tuple[str, ...] | None = setting(
        None,
        "Toolsets to use, such as [terminal, file]. null takes the preset of the platform; [] takes none.",
        expect=f"{_NAMES}, or null",
        check=_all_text,
    )
    disabled: tuple[str, ...] = setting((), "Toolsets never to use, whatever is enabled.", expect=_NAMES, check=_all_text)
    custom: Mapping[str, CustomToolset] = setting(
        dict,
        "Your own toolsets by name:\n"
        "  custom:\n"
        "    research:\n"
        "      description: Look, do not touch\n"
        "      tools: [read_file, search_files]\n"
        "      includes: [web]",
        expect="names, each with description, tools and includes",
    )


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """All tools"""

    disabled: tuple[str, ...] = setting((), "Tools never to offer nor run, by name.", expect=_NAMES, check=_all_text)
    timeout: float = setting(
        300.0, "Seconds that an async tool may take, where the tool itself sets no limit.", expect=_SECONDS, check=_above_zero
    )
    max_result_chars: int = setting(
        40_000,
        "Characters of a result that reach the model; of a longer one the head and the tail, and the rest goes to a file.",
        expect="a whole number of 100 or more",
        check=lambda value: value >= 100,
    )


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    enabled_toolsets: tuple[str, ...] | None = setting(
        None,
        "Toolsets on this platform, instead of toolsets.enabled. null leaves that as it is.",
        expect=f"{_NAMES}, or null",
        check=_all_text,
    )
    disabled_toolsets: tuple[str, ...] = setting(
        (), "Toolsets not on this platform, besides toolsets.disabled.", expect=_NAMES, check=_all_text
    )
    disabled_tools: tuple[str, ...] = setting(
        (), "Tools not on this platform, besides tools.disabled.", expect=_NAMES, check=_all_text
    )


@dataclass(frozen=True, slots=True)
class PluginsConfig:
    """Code of others that runs inside toolcrib, with all your rights"""

    enabled: tuple[str, ...] = setting(
        (), "Plugins to load, by name; `toolcrib plugins` lists what there is.", expect=_NAMES, check=_all_text
    )
    allow_override: Mapping[str, str] = setting(
        dict,
        "Tools that a plugin may replace, each with the name of that plugin:\n  allow_override: {web_search: my_search}",
        expect="names of tools, each with the name of a plugin",
        check=lambda value: all(value.values()),
    )
    trusted_projects: Mapping[str, str] = setting(
        dict,
        "Projects whose own plugins (in .toolcrib/plugins) may load, each with the digest of that folder as you read it.\n"
        "Any change of the folder ends the trust. `toolcrib plugins` shows the digest:\n"
        "  trusted_projects: {/home/me/project: 5f2b...}",
        expect="absolute paths of projects, each with a digest of 64 characters of 0-9 and a-f",
        check=_digests,
    )


@dataclass(frozen=True, slots=True)
class TerminalConfig:
    """The terminal tool"""

    cwd: str | None = setting(
        None,
        "Folder that sessions start in, absolute or from ~. null takes the folder that toolcrib was started in.",
        expect="an absolute path, or null",
        check=_absolute,
    )
    timeout: float = setting(
        120.0, "Seconds that a command may take, where the call sets no limit.", expect=_SECONDS, check=_above_zero
    )
    pass_env: tuple[str, ...] = setting(
        (),
        "Environment variables that commands see besides a short safe list. Do not name secrets here: the model can print them.",
        expect="a list of names of environment variables",
        check=_env_names,
    )


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """Who must agree before a call runs"""

    gate_timeout: float = setting(
        10.0, "Seconds that a gate may take to decide; a later one blocks the call.", expect=_SECONDS, check=_above_zero
    )
    answer_timeout: float = setting(
        300.0, "Seconds that a person has to answer; after that the answer is no.", expect=_SECONDS, check=_above_zero
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
    version: int = setting(..., "Form of this entry.", expect="a whole number of 1 or more", check=_at_least_one)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, checked. ``path`` is the file that they came from, which need not exist."""

    toolsets: ToolsetsConfig = field(default_factory=ToolsetsConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    platforms: Mapping[str, PlatformConfig] = setting(
        dict,
        "What differs on one platform (cli, gateway, telegram, api, cron, acp):\n"
        "  platforms:\n"
        "    telegram:\n"
        "      enabled_toolsets: [web]\n"
        "      disabled_toolsets: []\n"
        "      disabled_tools: [terminal]",
        expect="names of platforms, each with enabled_toolsets, disabled_toolsets and disabled_tools",
    )
    plugins: PluginsConfig = field(default_factory=PluginsConfig)
    terminal: TerminalConfig = field(default_factory=TerminalConfig)
    approval: ApprovalConfig = field(default_factory=ApprovalConfig)
    command_allowlist: tuple[AllowlistEntry, ...] = setting(
        (),
        "Commands that run unasked: what you answered `always` to. toolcrib writes it. An entry that you write yourself\n"
        "counts only after you have confirmed it.\n"
        "  command_allowlist:\n"
        "    - argv: [systemctl, restart, nginx]\n"
        "      cwd: /srv/site\n"
        "      version: 1",
        expect="a list of entries, each with argv, cwd and version",
    )
    max_turns: int = setting(
        10,
        "Times that the model may be asked again before a run ends.",
        expect="a whole number of 1 or more",
        check=_at_least_one,
    )
    path: Path = field(default_factory=config_path, compare=False, metadata={"internal": True})

    @property
    def folder(self) -> Path:
        """The folder of the configuration file, which also holds ``plugins/``."""
        return self.path.parent


def is_required(entry: Any) -> bool:
    """Whether a dataclass field has no default."""
    return entry.default is MISSING and entry.default_factory is MISSING
