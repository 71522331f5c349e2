"""Repairs of `toolcrib doctor --fix`: show each repair, ask, run it, and check again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.cli.escape import tame
from agent.cli.finding import CheckFinding, Repair
from agent.cli.guarding import guarded
from agent.cli.terminal import confirm_by_word, is_interactive
from agent.policy.self_protection import is_below_any
from toolcrib.contract.errors import ToolcribError

_BELOW = "not done: the repair is outside of toolcrib's folders, and a session's command started doctor; use your own terminal"
_NO_USER = "not done: no user can be asked here"


@dataclass(slots=True)
class Mending:
    """Runs repairs. With ``agreed``, repairs that lose nothing run without a question. With ``quiet``, nothing is printed or
    asked.

    ``outcomes`` maps the number of each finding to the outcome of its repair; ``done`` counts the repairs that were tried.
    """

    agreed: bool
    quiet: bool = False
    outcomes: dict[int, str] = field(default_factory=dict)
    done: int = 0

    def mend(self, findings: Sequence[CheckFinding]) -> None:
        """Offer the repair of each finding that has one."""
        for number, finding in enumerate(findings):
            if finding.repair is None or finding.level == "ok":
                continue
            self._say(f"\n{finding.text}")
            self._say(f"    repair: {finding.repair.does}")
            if finding.repair.loses:
                self._say(f"    cost: {finding.repair.loses}")
            why = self._refusal(finding.repair)
            self.outcomes[number] = why or self._done(finding, finding.repair)
            self.done += not why
            self._say(f"    {self.outcomes[number]}")

    def _refusal(self, repair: Repair) -> str:
        """Return why the repair must not run, or "" if it may."""
        if repair.is_outside and is_below_any():
            return _BELOW
        if self.agreed and not repair.loses:
            return ""
        if self.quiet or not is_interactive():
            return f"{_NO_USER}{'; --yes runs only repairs that lose nothing' if self.agreed else ''}"
        return "" if confirm_by_word("    Run this repair?") else "not done"

    def _done(self, finding: CheckFinding, repair: Repair) -> str:
        try:
            for line in repair.act():
                self._say(f"    {line}")
        except (ToolcribError, OSError) as error:
            return f"failed: {error}"
        except Exception as error:  # noqa: BLE001 - a failing repair must not keep the others from being offered
            return f"failed: {type(error).__name__}: {error}"
        found = list(guarded("the repaired part", repair.again))
        broken = next((one for one in found if one.id.startswith("check.")), None)
        if broken is not None:
            return f"done, but the check failed: {broken.text}"
        return "done, but the problem is still there" if finding.is_among(found) else "done; checked again: the problem is gone"

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(tame(text))
