"""The part of the schema about scheduled jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent.config._rules import OperatorToolRule
from agent.config._setting import SECONDS, above_zero, at_least_one, setting
from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RuleSetConfig:
    tools: tuple[OperatorToolRule, ...] = setting(
        (), "Rules, as in approval.tools.", expect="a list of rules, each with tool, decision and why"
    )


def _own_names(sets: Mapping[str, RuleSetConfig]) -> bool:
    return not {"deny", "park"}.intersection(sets)


@dataclass(frozen=True, slots=True)
class CronConfig:
    """Jobs that run by a schedule, when nobody looks"""

    zone: str | None = setting(
        None,
        "Time zone of schedules that name none, by its IANA name (Europe/Berlin). null takes this machine's.",
        expect="a name",
    )
    unattended: str = setting(
        "deny",
        "What becomes of a call that needs approval, where the job says nothing else. deny: it is refused. park: the run waits,\n"
        "and whoever may agree is asked in the creator's chat, or by `toolcrib approvals`. The name of one of rule_sets: that\n"
        "decides, and what it does not allow is refused. Nothing here says yes by itself to what is asked every time.",
        expect="deny, park or the name of a rule set",
        check=bool,
    )
    rule_sets: Mapping[str, RuleSetConfig] = setting(
        dict,
        "Rules by name, for jobs; approval.tools count besides, and the strictest that fits decides:\n"
        "  rule_sets:\n"
        "    backup:\n"
        "      tools:\n"
        "        - {tool: terminal, decision: allow, why: the nightly copy, args: {command: 'rsync -a --delete data/ copy/'}}",
        expect="names, none of them deny or park, each with tools",
        check=_own_names,
    )
    missed: Literal["once", "skip"] = setting(
        "once",
        "What becomes of times at which nobody ran jobs, where the job says nothing else. once: the last of them is caught up.\n"
        "skip: none.",
        expect="once or skip",
    )
    most_jobs: int = setting(
        20,
        "Jobs that one person may have at once; the local person has ten times as many.",
        expect="a whole number above 0",
        check=at_least_one,
    )
    shortest_interval: float = setting(
        300.0, "Seconds that must lie between two times of a job.", expect=SECONDS, check=above_zero
    )
    keep_days: float = setting(
        30.0,
        "Days for which the history of jobs is kept, with its sessions (but those with tags), and jobs that are over.",
        expect="a number of days",
        check=above_zero,
    )
