"""The wizard's answers so far, the changes to write, and the resulting configuration."""

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
    """Raised if a test failed and the answers must not be written."""


@dataclass(slots=True)
class Wizard:
    """The wizard's state. ``values`` are the answers by configuration key. ``before`` is the current configuration of the user's
    file under ``profile``.
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
    """The line of secrets.env that will hold a typed key, and the key."""
    asks: bool = False
    """True after the user went back. Then all questions are asked, even if a flag gives the answer or only one makes sense."""

    def begin_anew(self) -> None:
        """Discard all answers; from now on all questions are asked."""
        self.values, self.secret, self.asks = {}, None, True

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of the environment and of secrets.env, and the typed key."""
        return self.environ if self.secret is None else ChainMap(dict([self.secret]), dict(self.environ))

    def changes(self) -> list[tuple[str, Any, Any]]:
        """Return the keys that change: (key, old value, new value)."""
        found = [(key, plain(value_at(self.before, key.split("."))), value) for key, value in self.values.items()]
        return [(key, old, new) for key, old, new in found if old != new]

    def edits(self) -> list[tuple[tuple[str, ...], Any]]:
        """Return the values to set in the file, by path of keys; UNSET removes a key whose new value is the default."""
        prefix = ("profiles", self.profile) if self.profile else ()
        edits: list[tuple[tuple[str, ...], Any]] = []
        for key, _old, new in self.changes():
            parts = (*prefix, *key.split("."))
            # A value equal to the default is removed from the file. A profile states it, because it inherits the file's values.
            is_default = not self.profile and new == plain(value_at(Config(), key.split(".")))
            edits.append((parts, UNSET if is_default else new))
        return edits

    def config(self) -> Config:
        """Return the resulting configuration for this folder. Raises ConfigError."""
        return preview(self.file, self.edits(), profile=self.profile, project_dir=self.project_dir)

    @contextmanager
    def crib(self) -> Iterator[Crib]:
        """Yield a crib that has the resulting configuration and stores nothing."""
        with crib_of(self.config(), self.project_dir) as crib:
            yield crib

    def lines(self) -> list[str]:
        """Return a line for each key that changes: the key, its old value, its new value."""
        begin = f"profiles.{self.profile}." if self.profile else ""
        return [f"{begin}{key}: {_shown(old)} -> {_shown(new)}" for key, old, new in self.changes()]

    def after_failure(self, fix: str) -> str:
        """Ask what to do after a failed test. Return BACK or KEEP. Raises StoppedError."""
        if not self.person.is_there:
            raise StoppedError(f"{fix}; to write it anyway: --no-test")
        options = [
            Option("back: change this answer", BACK),
            Option("keep it anyway", KEEP),
            Option("stop, write nothing", STOP),
        ]
        chosen = self.person.choose("What now?", options, 0, "--no-test")
        if chosen == STOP:
            raise StoppedError("stopped")
        return chosen


@contextmanager
def crib_of(config: Config, project_dir: Path) -> Iterator[Crib]:
    """Yield a crib that stores nothing."""
    from agent.api import assemble
    from agent.store.memory import MemoryStore

    with assemble(config=config, project_dir=project_dir, store=MemoryStore()) as crib:
        yield crib


def persons_config(file: Path, profile: str) -> Config:
    """Return the configuration of the file alone, under the profile; if the profile does not exist yet, without a profile."""
    whole = load_config(file, profile="")
    return load_config(file, profile=profile) if profile in whole.profiles else whole


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def names(values: Sequence[str], most: int = 8) -> str:
    """Return the first of some names, separated by commas."""
    return ", ".join(values[:most]) + (", ..." if len(values) > most else "")
