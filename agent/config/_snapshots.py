"""Settings of snapshots: what commands changed in the project, for an undo."""

from __future__ import annotations

from typing import Literal

from agent.config._model import COUNT
from agent.config._setting import above_zero, all_text, at_least_one, setting
from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotsConfig:
    """Snapshots of the project on this machine, so that `toolcrib undo` and /undo also revert what commands changed in it"""

    enabled: bool = setting(
        True,
        "Whether a snapshot is taken before and after each call that may write. It needs undo.enabled. Your home folder is not\n"
        "covered.",
        expect="true or false",
    )
    max_mb: int = setting(
        2000,
        "MiB that a project may hold; no snapshots are taken of a larger one. The snapshots of one may take twice as much.",
        expect=COUNT,
        check=at_least_one,
    )
    skip: tuple[str, ...] = setting(
        (),
        "Folders that are left out, by name, by their path in the project, or absolute. Caches are left out, and large folders\n"
        "that a tool makes again (node_modules, .venv, target, ...) if git ignores them and the project has the file that the\n"
        "tool makes them by (package.json, pyproject.toml, Cargo.toml, a Makefile, ...).",
        expect="a list of names and paths of folders",
        check=all_text,
    )
    rebuildable: Literal["allow", "ask"] = setting(
        "ask",
        "Whether commands may delete or change large folders that a tool makes again. ask: commands that may reach them are\n"
        "asked about as without snapshots. allow: they are not, although no undo brings these folders back.",
    )
    keep: float = setting(14.0, "Days that a snapshot is kept.", expect="a number of days above 0", check=above_zero)
