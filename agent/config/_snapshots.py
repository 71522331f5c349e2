"""The schema of snapshots, which let an undo revert changes that commands made in the project."""

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
        "Whether a snapshot is taken before and after each call that may write. Needs undo.enabled. Your home folder is not\n"
        "covered.",
        expect="true or false",
    )
    max_mb: int = setting(
        2000,
        "Size in MiB of the largest project that gets snapshots. The snapshots of one project may use twice as much.",
        expect=COUNT,
        check=at_least_one,
    )
    skip: tuple[str, ...] = setting(
        (),
        "Folders to leave out, by name, by their path in the project, or absolute. Caches are always left out. So are large\n"
        "folders that a tool can rebuild (node_modules, .venv, target, ...), if git ignores them and the project has the file\n"
        "that the tool builds them from (package.json, pyproject.toml, Cargo.toml, a Makefile, ...).",
        expect="a list of names and paths of folders",
        check=all_text,
    )
    rebuildable: Literal["allow", "ask"] = setting(
        "ask",
        "Whether commands may delete or change large folders that a tool can rebuild. ask: commands that may reach them are\n"
        "asked about, as without snapshots. allow: they are not, although an undo does not restore these folders.",
    )
    keep: float = setting(14.0, "Days to keep a snapshot.", expect="a number of days above 0", check=above_zero)
