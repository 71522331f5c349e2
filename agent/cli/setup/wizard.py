"""Answers so far, what of them is to be written, and the configuration as it would be then."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.setup.person import Option, Person
from agent.config import UNSET, Config, load_config, plain, preview, value_at
from toolcrib.contract.dataclass import dataclass

if TYPE_CHECKING:
    import argparse

    from agent.cli.setup.detection import SetupFound
    from agent.process import Crib

BACK = "back"
KEEP = "keep"
STOP = "stop"


class StoppedError(Exception):
    """A trial failed, and what was answered is not to be written."""


@dataclass(slots=True)
class Wizard:
    """``values`` are the answers by their keys, as the configuration would have them. ``before`` is what counts now by the
    person's file, under ``profile``.
    """

    args: argparse.Namespace
    person: Person
    file: Path
    profile: str
    project_dir: Path
    before: Config
    environ: Mapping[str, str]
    found: SetupFound
    values: dict[str, Any] = field(default_factory=dict)
    secret: tuple[str, str] | None = None
    """A key that was typed, and the line of secrets.env that is to hold it."""
    asks: bool = False
    """True where what a flag or the only sensible answer said is asked for all the same: the person went back."""

    def begin_anew(self) -> None:
        """Forget what was answered; from now on everything is asked."""
        self.values, self.secret, self.asks = {}, None, True

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the environment, secrets.env, and a key that was typed."""
        return self.environ if self.secret is None else ChainMap(dict([self.secret]), dict(self.environ))

    def changes(self) -> list[tuple[str, Any, Any]]:
        """List the keys that change: (key, what it was, what it would be)."""
        found = [(key, plain(value_at(self.before, key.split("."))), value) for key, value in self.values.items()]
        return [(key, old, new) for key, old, new in found if old != new]

    def edits(self) -> list[tuple[tuple[str, ...], Any]]:
        """List what is to be set in the file, or taken out of it where the default says the same."""
        prefix = ("profiles", self.profile) if self.profile else ()
        edits: list[tuple[tuple[str, ...], Any]] = []
        for key, _old, new in self.changes():
            parts = (*prefix, *key.split("."))
            # What is at its default now, and was not, stands in the file. A profile says so itself: it does not inherit all.
            is_default = not self.profile and new == plain(value_at(Config(), key.split(".")))
            edits.append((parts, UNSET if is_default else new))
        return edits

    def config(self) -> Config:
        """Return what would count in this folder. Raises ConfigError."""
        return preview(self.file, self.edits(), profile=self.profile, project_dir=self.project_dir)

    @contextmanager
    def crib(self) -> Iterator[Crib]:
        """Give a crib of what would count, which stores nothing."""
        with crib_of(self.config(), self.project_dir) as crib:
            yield crib

    def lines(self) -> list[str]:
        """Return a line for each key that changes: the key, what it was, what it would be."""
        begin = f"profiles.{self.profile}." if self.profile else ""
        return [f"{begin}{key}: {_shown(old)} -> {_shown(new)}" for key, old, new in self.changes()]

    def after_failure(self, fix: str) -> str:
        """Return BACK or KEEP: what becomes of an answer whose trial failed. Raises StoppedError."""
        if not self.person.is_there:
            raise StoppedError(f"{fix}; --no-test writes it all the same")
        options = [
            Option("back: answer this anew", BACK),
            Option("keep it all the same", KEEP),
            Option("stop, and write nothing", STOP),
        ]
        chosen = self.person.choose("What now?", options, 0, "--no-test")
        if chosen == STOP:
            raise StoppedError("stopped")
        return chosen


@contextmanager
def crib_of(config: Config, project_dir: Path) -> Iterator[Crib]:
    """Give a crib that stores nothing."""
    from agent.api import assemble
    from agent.store.memory import MemoryStore

    with assemble(config=config, project_dir=project_dir, store=MemoryStore()) as crib:
        yield crib


def persons_config(file: Path, profile: str) -> Config:
    """Return what counts now by the file alone; of a profile that is not there yet, what it would begin with."""
    whole = load_config(file, profile="")
    return load_config(file, profile=profile) if profile in whole.profiles else whole


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def names(values: Sequence[str], most: int = 8) -> str:
    """Return the first of some names, with commas."""
    return ", ".join(values[:most]) + (", ..." if len(values) > most else "")
