"""Texts for the results of jobs: for a job's history, and for its chat."""

from __future__ import annotations

from agent.conversation.state import RunState
from agent.cron.plan import JobPlan
from agent.gateway.failures import error_text
from agent.gateway.forms import one_line
from toolcrib.contract.cron import CronRun, CronRunState
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.store import Store
from tools.schedules.schedule import time_words

_NOTE_CHARS = 300
STOPPED = "it was stopped"
"""Note of a run that a user stopped."""
_STOPPED = {
    "interrupted": "it was interrupted",
    "ended": "it can't continue without a call that was denied",
}


def noted(text: str) -> str:
    """Return a text as one line of a history."""
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_CHARS else f"{line[: _NOTE_CHARS - 4]} ..."


def ended_as(state: RunState) -> tuple[CronRunState, str]:
    """Return the final state of an ended run, and its line for the history."""
    try:
        state.raise_error()
    except ToolcribError as error:
        return "failed", noted(str(error))
    if state.stopped in _STOPPED:
        return "failed", noted(_STOPPED[state.stopped])
    return "done", noted(state.text) or "(no answer)"


async def asked_by(store: Store, session_id: str) -> str:
    """Return a line with the job that a session belongs to and its due time, or "" if it belongs to none. Raises StoreFailed."""
    run = await store.cron.run_of(session_id)
    job = None if run is None else await store.cron.get(run.job_id)
    if run is None or job is None:
        return ""
    try:
        plan = JobPlan.of(job)
    except ToolcribError:
        return f"⏰ asked by the job {job.id}:"
    title = f' "{one_line(plan.title)}"' if plan.title else ""
    return f"⏰ asked by the job{title} ({job.id}), due {time_words(run.due_at, plan.schedule.zone)}:"


async def answer_of(store: Store, plan: JobPlan, run: CronRun) -> str:
    """Return the message for a job's chat about an ended run. Raises StoreFailed."""
    head = f"⏰ {plan.title or 'a removed job'}"
    if run.note == STOPPED:
        return f"{head}\n\n{STOPPED.capitalize()}."
    record = None if run.state == "lost" else await store.runs.last(run.session_id)
    try:
        state = None if record is None or record.status != "ended" else RunState.of(record)
        if state is not None:
            state.raise_error()
    except StoreFailed:
        raise
    except ToolcribError as error:
        return f"{head}\n\n{error_text(error, is_owner=plan.creator.is_local)}"
    if run.state == "done" and state is not None:
        return f"{head}\n\n{state.text.strip() or '(no answer)'}"
    shown = run.note if plan.creator.is_local or run.state == "lost" else ""
    return f"{head}\n\n⚠ It ended without an answer{f': {shown}' if shown else '; its history has details'}."


def settled(run: CronRun, state: CronRunState, note: str) -> CronRun:
    """Return the run with its final state and note."""
    return replace(run, state=state, note=noted(note))
