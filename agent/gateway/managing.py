"""The chat command /jobs: lists and ends a chat's jobs without a model, so that it works even if no quota is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cron.plan import JobPlan
from agent.cron.service import JobOrigin, PrincipalJobs
from agent.gateway.forms import one_line
from toolcrib.contract.errors import Denied, InvalidArguments, NotFound, ToolcribError
from tools.schedules.schedule import time_words

if TYPE_CHECKING:
    from agent.gateway.admission import Admitted
    from agent.gateway.rooms import Rooms
    from toolcrib.contract.chat import Chat
    from toolcrib.contract.cron import CronJob

_ACTIONS = ("stop", "pause", "resume", "remove")
_DONE = {"stop": "Stopped.", "pause": "Paused.", "remove": "Removed and stopped."}
_SHOWN = 50
_TITLE = 60


async def jobs_in(rooms: Rooms, chat: Chat, who: Admitted, text: str) -> str:
    """Run the text after /jobs as a command, and return the reply. A group's jobs belong to all who may speak there.

    Raises StoreFailed.
    """
    room = await rooms.enter(chat, who)
    here, _ = rooms.requests.place_of(chat, who.roles)
    book = PrincipalJobs(here.store, here.config, rooms.requests.principal(chat, who))
    action, _, job_id = text.partition(" ")
    if not action:
        jobs = await book.list()
        more = [f"... and {len(jobs) - _SHOWN} more"] if len(jobs) > _SHOWN else []
        return "\n".join([*map(_line, jobs[:_SHOWN]), *more]) or "There are no jobs here."
    if action not in _ACTIONS or not job_id.strip():
        return "Usage: /jobs, or /jobs stop|pause|resume|remove ID"
    act = {"stop": book.stop, "pause": book.pause, "resume": book.resume, "remove": book.remove}[action]
    try:
        job = await act(job_id.strip(), JobOrigin(room.session_id, is_person=True))
    except (Denied, InvalidArguments, NotFound) as error:
        return one_line(error.text, 500)
    return _DONE.get(action) or _line(job)


def _line(job: CronJob) -> str:
    try:
        plan = JobPlan.of(job)
    except ToolcribError as error:
        return f"{job.id}: {one_line(str(error), 200)}"
    due = f"next {time_words(job.next_at, plan.schedule.zone)}" if job.next_at is not None else job.state
    return f"{job.id}: {one_line(plan.title, _TITLE)} — {one_line(plan.said, _TITLE)}, {due}"
