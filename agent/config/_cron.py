"""The schema of scheduled jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent.config._rules import OperatorToolRule
from agent.config._setting import SECONDS, above_zero, at_least_one, setting
from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RuleSetConfig:
    tools: tuple[OperatorToolRule, ...] = setting(
        (), "Rules, as in approval.tools.", expect="a list of rules, each with tool or toolset, decision and why"
    )


def _own_names(sets: Mapping[str, RuleSetConfig]) -> bool:
    return not {"deny", "park"}.intersection(sets)


@dataclass(frozen=True, slots=True)
class CronConfig:
    """Scheduled jobs, which run unattended"""

    zone: str | None = setting(
        None,
        "Time zone of schedules that name none, by its IANA name (Europe/Berlin). null uses this machine's.",
        expect="the name of a time zone, such as Europe/Berlin, or null",
    )
    unattended: str = setting(
        "deny",
        "What happens to a call that needs approval, unless the job sets it. deny: the call is denied. park: the run waits, and\n"
        "those who may approve are asked in the creator's chat or by `toolcrib approvals`. The name of one of rule_sets: its\n"
        "rules decide, and calls that they do not allow are denied. No setting here approves a call that always needs approval.",
        expect="deny, park or the name of a rule set",
        check=bool,
    )
    rule_sets: Mapping[str, RuleSetConfig] = setting(
        dict,
        "Rules by name, for jobs. approval.tools apply too; of several rules that match, the strictest decides:\n"
        "  rule_sets:\n"
        "    backup:\n"
        "      tools:\n"
        "        - {tool: terminal, decision: allow, why: the nightly copy, args: {command: 'rsync -a --delete data/ copy/'}}",
        expect="names other than deny and park, each with tools",
        check=_own_names,
    )
    missed: Literal["once", "skip"] = setting(
        "once",
        "What happens to runs that were missed while no scheduler was running, unless the job sets it. once: the latest one\n"
        "runs. skip: none runs.",
        expect="once or skip",
    )
    most_jobs: int = setting(
        20,
        "Jobs that one user may have at a time; the local user may have ten times as many.",
        expect="a whole number above 0",
        check=at_least_one,
    )
    shortest_interval: float = setting(
        300.0, "Minimum seconds between two scheduled times of a job.", expect=SECONDS, check=above_zero
    )
    keep_days: float = setting(
        30.0,
        "Days that finished jobs and the history of jobs are kept. Sessions of jobs are deleted too, except those with tags.",
        expect="a number of days",
        check=above_zero,
    )
