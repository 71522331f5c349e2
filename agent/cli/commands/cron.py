"""``toolcrib cron``: jobs that run on a schedule."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, PARKED, open_crib
from agent.cli.options import count
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cron.service import PrincipalJobs
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

HELP = "Run tasks later or repeatedly, on a schedule: list, add, run, stop, pause, resume and remove jobs."
_EPILOG = """\
examples:
  toolcrib cron add "every weekday at 9" "summarise what changed in this repository since yesterday"
  toolcrib cron add "in 20 minutes" "remind me of the oven" --to telegram:12345
  toolcrib cron add "on the 1st of each month at 07:30" "check the backups" --zone Europe/Berlin --unattended park --name backups
  toolcrib cron add "*/30 9-17 * * 1-5" "look at the queue" --missed skip
  toolcrib cron                              your jobs, when each is due, and whether a scheduler runs; --all: of all users
  toolcrib cron run backups                  run it once now, here, in addition to its schedule
  toolcrib cron pause backups                until: toolcrib cron resume backups
  toolcrib cron stop backups                 end its current run, in any process; later runs are not affected
  toolcrib cron history backups              its runs and their results; to read one: toolcrib sessions show ID
  toolcrib cron remove backups               its history stays for a while: toolcrib cron list --removed

  toolcrib cron serve                        run jobs until Ctrl-C; `toolcrib gateway run` runs them too

A schedule has one of these forms: in 20 minutes; tomorrow at 8am; on friday at 17:00; 2026-12-24 18:00; every 2 hours;
every day at 9 and 17:30; every weekday at 9; every monday and thursday at 18:30; every 3 days at 8; on the 1st of each month at
07:30; 0 9 * * 1-5, a cron expression of five fields.

If a clock change skips or repeats a job's local time, the job runs once. Jobs run in your current folder, as you, with the tools
that both you and jobs may use on that day (toolset toolcrib-cron). No user can be asked during the run: a call that needs
approval is denied (deny), waits for `toolcrib approvals` (park), or follows a rule set of the configuration (cron.rule_sets). The
answer is stored as a session, or sent to one of your chats (--to).

exit codes: 0 done, 1 a run failed, 2 wrong command line, name or configuration, 7 run: the run waits for an answer.
"""
_ACTIONS = ("list", "add", "run", "stop", "pause", "resume", "remove", "history", "serve")
_LOOKING = ("list", "history")
_NEEDS_A_JOB = ("run", "stop", "pause", "resume", "remove", "history")


def configure(parser: argparse.ArgumentParser) -> None:
    from agent.cli.options import add_model_options

    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list)")
    parser.add_argument("job", metavar="JOB", nargs="?", default="", help="the job's id or name; add: the schedule")
    parser.add_argument("task", metavar="TASK", nargs="?", default="", help="add: what to do")
    add = parser.add_argument_group("add")
    add.add_argument("--name", default="", help="a short name")
    add.add_argument("--zone", default="", help="time zone by its IANA name (default: cron.zone)")
    add.add_argument("--to", metavar="PLATFORM:CHAT", default="", help="a chat of yours for the answers (default: a session)")
    add.add_argument("--unattended", metavar="POLICY", default="", help="deny, park or a rule set (default: cron.unattended)")
    add.add_argument(
        "--missed", choices=("once", "skip"), default="", help="runs missed while no scheduler ran (default: cron.missed)"
    )
    parser.add_argument("--all", action="store_true", help="list: jobs of all users, including users of chats")
    parser.add_argument("--removed", action="store_true", help="list: also removed jobs whose history is kept")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="history: the last N runs (default: 20)")
    parser.add_argument("--json", action="store_true", help="list, history, add: print JSON")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.action in _NEEDS_A_JOB and not args.job:
        raise ToolcribError(f"give the job: toolcrib cron {args.action} JOB; to list jobs: toolcrib cron")
    with open_crib(args, looks=args.action in _LOOKING) as crib:
        if not crib.config.store.enabled:
            raise ToolcribError("jobs need the store, since they outlive the process; set store.enabled: true")
        if args.action not in _LOOKING:
            from agent.policy.self_protection import folders_of, refuse_below

            refuse_below(folders_of(crib.config), f"`toolcrib cron {args.action}`")
        with asyncio.Runner() as runner:
            return runner.run(_DO[args.action](crib, args))


def _book(crib: Crib) -> PrincipalJobs:
    from agent.cron.service import PrincipalJobs
    from toolcrib.contract.context import Principal

    return PrincipalJobs(crib.store, crib.config, Principal("cli"), everybodys=True)


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.cron_words import job_lines
    from agent.cron.handler import job_json
    from agent.cron.running import whether_run

    jobs = list(await crib.store.cron.jobs(None if args.all else ""))
    if args.removed:
        jobs += [job for job in await _book(crib).removed() if args.all or not job.owner]
    if args.json:
        print(json.dumps([{**job_json(job), "owner": job.owner} for job in jobs], ensure_ascii=False))
        return OK
    for job in jobs:
        print("\n".join(job_lines(job)))
    if not jobs:
        print('no jobs; to add one: toolcrib cron add "every weekday at 9" "summarise what changed here"')
    elif any(job.state == "active" for job in jobs) and not await whether_run(crib.store):
        _say("no scheduler is running: start `toolcrib cron serve`, or `toolcrib gateway run` if you use chats")
    return OK


async def _add(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.cron_words import added_lines
    from agent.cron.handler import job_json
    from agent.cron.running import whether_run
    from agent.cron.service import JobOrigin
    from tools.cronjob_tool import planned_by

    if not args.job or not args.task:
        raise ToolcribError('give the schedule and the task, each in quotes: toolcrib cron add "every weekday at 9" "TASK"')
    given = {"action": "add", "schedule": args.job, "task": args.task, "name": args.name, "zone": args.zone}
    given |= {"to": args.to, "unattended": args.unattended, "missed": args.missed}
    settings = crib.default.settings
    wanted = planned_by(given, settings, "")
    backend = getattr(args, "backend", "") or ""
    job = await _book(crib).add(wanted, args.job, args.to, JobOrigin(folder=str(crib.project_dir), backend=backend))
    if args.json:
        print(json.dumps(job_json(job), ensure_ascii=False))
        return OK
    print("\n".join(added_lines(job)))
    if not await whether_run(crib.store):
        _say("no scheduler is running: start `toolcrib cron serve`, or `toolcrib gateway run` if you use chats")
    return OK


async def _changed(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.cron_words import job_lines
    from agent.cron.service import JobOrigin

    book = _book(crib)
    act = {"stop": book.stop, "pause": book.pause, "resume": book.resume, "remove": book.remove}[args.action]
    job = await act(args.job, JobOrigin())
    done = {"remove": f"{job.id} is removed", "stop": f"the current run of {job.id} is stopped"}
    print(done.get(args.action) or "\n".join(job_lines(job)))
    return OK


async def _history(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.cron_words import run_lines
    from agent.cron.handler import run_json
    from agent.cron.plan import JobPlan

    book = _book(crib)
    job = await book.find(args.job, removed=True)
    runs, zone = await book.history(job.id, args.limit), JobPlan.of(job).schedule.zone
    if args.json:
        print(json.dumps([{**run_json(run, zone), "due_at": run.due_at, "session_id": run.session_id} for run in runs]))
        return OK
    for run in runs:
        print("\n".join(run_lines(run, zone)))
    if not runs:
        print("not run yet; to run it now: toolcrib cron run")
    return OK


# -- running -----------------------------------------------------------------------------------------------------------


def _required_model(crib: Crib, args: argparse.Namespace, command: str) -> ModelChoice:
    from agent.cli.offer import no_model
    from agent.cli.options import choice_of
    from agent.model_choice.models import find_endpoint

    choice = choice_of(args)
    if find_endpoint(crib.config, choice) is None:
        raise no_model(command)
    return choice


async def _run(crib: Crib, args: argparse.Namespace) -> int:
    """Run one job once, in this process; if it is killed, another process that runs jobs continues the run. Return the exit
    code.
    """
    from agent.cli.escape import tame
    from agent.cron.once import run_once

    choice = _required_model(crib, args, "cron run")
    job = await _book(crib).find(args.job)
    run, text = await run_once(crib, job, choice)
    if run.ended_at is None:
        _say(f"the run waits for an answer: toolcrib approvals; its session is {run.session_id[:12]}")
        return PARKED
    print(tame(text or run.note))
    return OK if run.state == "done" else FAILED


async def _serve(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.logs import logging_of_gateway
    from agent.cli.signals import serving
    from agent.cron.runner import CronRunner
    from agent.first_ended import first_ended

    choice = _required_model(crib, args, "cron serve")
    ending, now, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def end(at_once: bool) -> None:
        loop.call_soon_threadsafe(now.set if at_once else ending.set)

    jobs = len(await crib.store.cron.jobs())
    with serving(end, lambda: None), logging_of_gateway(crib.config.gateway.logs, crib.redactor().text):
        await crib.start()
        runner = CronRunner(crib, choice=choice)
        await runner.start()
        _say(f"running {jobs} job{'' if jobs == 1 else 's'} until Ctrl-C")
        try:
            await ending.wait()
            await first_ended(runner.drain(crib.config.gateway.drain_seconds), now.wait())
        finally:
            await runner.stop()
    return OK


_DO: Mapping[str, Callable[[Crib, argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "list": _list,
    "add": _add,
    "run": _run,
    "stop": _changed,
    "pause": _changed,
    "resume": _changed,
    "remove": _changed,
    "history": _history,
    "serve": _serve,
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
