"""The workspaces of a process, found by their folder, and dropped when they are no longer used.

A gateway has thousands of chats, each with its own folder. ``Setup`` is everything that depends only on a configuration; all
folders with this configuration share it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

import model_tools
from agent.backends import Backends
from agent.config import Config, contents_path, load_config, secrets_path, state_dir, tokens_path
from agent.mcp.lock import lock_path
from agent.policy.allowlist import PermanentGrants
from agent.policy.confirmation import require_confirmed
from agent.policy.tool_selection import Granting
from agent.workspace import Workspace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import real_path, with_home
from tools.approval.policy import RuleSays, ToolRules
from tools.environments.own_files import OwnFiles
from tools.installed import installed
from tools.judge.setting import Setting, person_home
from toolsets import ToolsetCatalog

if TYPE_CHECKING:
    from agent.process import Crib
    from tools.approval.operator_rules import ToolRule
    from tools.judge.table import Rule
    from tools.undo.keeper import UndoStore

_log = logging.getLogger(__name__)

_ARTIFACTS = ("", "-wal", "-shm", "-backup", "-backup-before", "-repaired")
_STORE_ENDS = ("", "-wal", "-shm", "-backup", "-backup-before", "-repaired", "-search", "-search-wal", "-search-shm")
"""Endings of the store's file and of the files beside it."""


class Setup:
    """The parts of a configuration that are the same in every folder: toolsets, operator's rules, closed files, backends."""

    def __init__(self, crib: Crib, config: Config, protected: Sequence[str]) -> None:
        """Raise ConfigError for invalid operator's rules, and for two backends with one name."""
        self.config = config
        self.windows_learned: dict[tuple[str, str], int] = {}
        """Context windows estimated from refusals, by base_url and model name, for servers that report none."""
        self.catalog = ToolsetCatalog(crib.registry)
        for name, bundle in config.toolsets.custom.items():
            definition = {"description": bundle.description, "tools": bundle.tools, "includes": bundle.includes}
            self.catalog.add(name, definition, source=str(config.path))
        for name, added in crib.toolsets.items():
            self.add_toolset(name, added)
        self.granting = Granting(config, crib.registry, self.catalog)
        self._rules, self.tool_rules = _operators(config)
        self._own = OwnFiles()
        self.protect(protected)

    def protect(self, paths: Sequence[str]) -> None:
        """Protect these files of toolcrib from now on; in open sessions from their next run on."""
        develop = self.config.approval.develop_toolcrib
        self.setting = Setting(protected=paths, home=person_home(), rules=self._rules, installed=installed(develop=develop))
        self._own.know(paths, self.setting.installed.closed)
        self.backends = Backends(self.config, paths, self._own, self.setting.installed.closed)

    def add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        """Add a plugin's toolset, unless the configuration uses the name for its own toolset."""
        if name in self.catalog.added:
            _log.warning("%s defines another toolset %r; the plugin's is ignored", self.config.path, name)
        else:
            self.catalog.add(name, definition, source="plugin")


class ProjectFolder:
    """A folder and the data that its workspaces share; it lives as long as one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.grants: dict[Path, PermanentGrants] = {}
        """The local user's permanent grants, by configuration file."""
        self.workspaces: WeakValueDictionary[int, Workspace] = WeakValueDictionary()
        """Workspaces by their ``id()``, in the order of creation."""


class Workspaces:
    """The workspaces of one Crib. ``default`` stays; any other exists while it is in use or has an open session.

    ``pinned`` is the content of the configuration file that applies until ``reconfigure``. Thread-safe.
    """

    def __init__(self, crib: Crib, config: Config, project_dir: Path) -> None:
        self._crib = crib
        self._lock = threading.RLock()
        self.pinned: bytes | None = None
        self._protected: Sequence[str] = ()
        """Our files and every workspace's configuration: no tool may change them, in any workspace."""
        self._folders: WeakValueDictionary[Path, ProjectFolder] = WeakValueDictionary()
        self._derived: WeakValueDictionary[Path, Workspace] = WeakValueDictionary()
        """Workspaces whose configuration is the Crib's, narrowed by the folder's own file."""
        self._setups: WeakValueDictionary[int, Setup] = WeakValueDictionary()
        """Setups by the ``id()`` of their configuration: reading an unchanged configuration again returns the same object."""
        self._in_use: WeakSet[Setup] = WeakSet()
        """All setups, including those of earlier configurations."""
        self._grants: dict[Path, PermanentGrants] = {}
        """The first PermanentGrants of each configuration file; those of other folders use the entries that it has read."""
        self._undo: dict[Hashable, UndoStore | None] = {}
        """Stores of old contents, by their configuration."""
        self.default = self._new(project_dir, config)

    def find(self, folder: Path, config: Config | None = None) -> Workspace:
        """Return the workspace of a resolved folder and a configuration; see Crib.workspace."""
        with self._lock:
            if config is None:
                return self._derived.get(folder) or self._derive(folder)
            there = self._folder(folder).workspaces.values()
            return next((one for one in there if _is_same(one.config, config)), None) or self._new(folder, config)

    def _derive(self, folder: Path) -> Workspace:
        own = self._crib.config
        derived = load_config(own.path, profile=own.profile, project_dir=folder, instead=self.pinned)
        if derived.digest != own.digest:
            require_confirmed(derived)
        found = self._derived[folder] = self._new(folder, derived)
        return found

    def reconfigure(self, config: Config, pinned: bytes) -> None:
        """Use another configuration for everything opened from now on. Raises ConfigError, and then nothing has changed."""
        with self._lock:
            self.default = self._new(self.default.project_dir, config, anew=True)
            self.pinned = pinned
            self._derived.clear()

    def undo_store(self, config: Config) -> UndoStore | None:
        """Return the store of old contents, shared by equal configurations; None if it is disabled."""
        from agent.undo import open_undo

        key = (config.undo, config.store.synchronous, contents_path())
        with self._lock:
            if key not in self._undo:
                self._undo[key] = open_undo(config, self._crib.store)
            return self._undo[key]

    def close(self) -> None:
        """Close the stores of old contents."""
        for keeps in self._undo.values():
            if keeps is not None:
                keeps.close()

    def _new(self, folder: Path, config: Config, *, anew: bool = False) -> Workspace:
        here = self._folder(folder)
        grants = self._grants_in(here, config)
        self._protect(own_files(config))
        setup = None if anew else self._setups.get(id(config))
        if setup is None:
            setup = self._setups[id(config)] = Setup(self._crib, config, self._protected)
            self._in_use.add(setup)
        workspace = Workspace(self._crib, setup, here, grants)
        here.workspaces[id(workspace)] = workspace
        return workspace

    def _folder(self, path: Path) -> ProjectFolder:
        found = self._folders.get(path)
        if found is None:
            found = self._folders[path] = ProjectFolder(path)
        return found

    def _grants_in(self, here: ProjectFolder, config: Config) -> PermanentGrants:
        file = real_path(config.path)
        if file not in here.grants:
            inner, like = self._crib.store.grants, self._grants.get(file)
            made = PermanentGrants(inner, config.path, project_root=str(here.path), instead=self.pinned, like=like)
            here.grants[file] = made
            self._grants.setdefault(file, made)
        return here.grants[file]

    def _protect(self, own: Sequence[str]) -> None:
        if not set(own).issubset(self._protected):
            self._protected = [*self._protected, *(path for path in own if path not in self._protected)]
            for setup in self._in_use:
                setup.protect(self._protected)


def own_files(config: Config) -> list[str]:
    """Return our own files and those of this configuration, which no tool may change and no container may see."""
    beside = config.path.parent
    path = str(config.store_path)
    store = [f"{path}{end}" for end in (*_STORE_ENDS, *(f"-artifacts{end}" for end in _ARTIFACTS))]
    sockets = [with_home(one.settings["socket"]) for one in config.platforms.values() if one.settings.get("socket")]
    private = [secrets_path(beside), tokens_path(beside), lock_path(config.path)]
    return model_tools.own_paths([config.path, beside / "plugins", *private, state_dir(), *store, *sockets])


def _is_same(one: Config, other: Config) -> bool:
    """Return whether two configurations are equal and from the same file."""
    return (one.path, one.profile) == (other.path, other.profile) and one == other


def _operators(config: Config) -> tuple[Sequence[Rule], ToolRules | None]:
    """Return the operator's rules for commands and decisions about tools. Raises ConfigError."""
    approval = config.approval
    if not approval.rules and not approval.tools:
        return (), None
    from tools.approval.operator_rules import operator_rules, tool_rules

    key = "approval.rules"
    try:
        rows = operator_rules([asdict(entry) for entry in approval.rules])
        key = "approval.tools"
        decisions = tool_rules([asdict(entry) for entry in approval.tools])
    except ConfigError as error:
        item = str(error).partition("]")[0] + "]"
        where = config.origins.get(item, config.origins.get(key, config.path))
        raise ConfigError(f"{where}: {error}") from error

    return rows, _saying(decisions) if decisions else None


def _saying(decisions: Sequence[ToolRule]) -> ToolRules:
    from tools.approval.operator_rules import decide

    def says(name: str, args: Any, paths: Sequence[str], toolset: str) -> RuleSays | None:
        rule = decide(decisions, name, args if isinstance(args, Mapping) else {}, paths, toolset)
        return None if rule is None else RuleSays(rule.decision, rule.subject, rule.why)

    return says


def rules_with(config: Config, name: str) -> ToolRules:
    """Return the tool rules of approval.tools together with those of a rule set for jobs; the strictest match applies.

    Raises ConfigError for an unknown set, and for invalid rules.
    """
    from tools.approval.operator_rules import tool_rules

    if (found := config.cron.rule_sets.get(name)) is None:
        raise ConfigError(
            f"{config.origin('cron.rule_sets')}: cron.rule_sets: a job uses the rule set {name!r}, which does not exist"
        )
    try:
        rules = tool_rules([asdict(entry) for entry in found.tools])
    except ConfigError as error:
        raise ConfigError(f"{config.origin('cron.rule_sets')}: cron.rule_sets.{name}, as in {error}") from error
    return _saying([*tool_rules([asdict(entry) for entry in config.approval.tools]), *rules])
