"""Create, change and remove jobs. A principal sees only its own jobs."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.conversation.answers import persons_session
from agent.cron import CHANGED
from agent.cron.plan import ChatPlace, JobPlan
from agent.cron.stopping import stop_runs
from agent.gateway.recipients import owners_of, records_of
from toolcrib.contract.context import Principal
from toolcrib.contract.cron import CronJob, CronRun
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.effects import SchedulesJob
from toolcrib.contract.errors import Denied, InvalidArguments, NotFound, ToolcribError
from toolcrib.contract.store import AuditEntry, Store
from tools.cronjob_tool import HERE, MISSED
from tools.schedules.schedule import Schedule

if TYPE_CHECKING:
    from agent.config import Config
    from toolcrib.contract.mail import ChatRecord
    from toolcrib.contract.types import Json

TOOL = "cronjob"
_LOCAL_TIMES = 10
"""Factor for the local user's limit: that user could raise the limit anyway."""
_BY_COMMAND = "paused_by_command"
"""Key in the body of a paused job: who paused it.

True: a user at a terminal; no chat can resume it. _BY_CHAT: a user in a chat; no model resumes it on its own.
"""
_BY_CHAT = "chat"
_SHOWN_CHATS = 10
_WHICH = "at a terminal: the chat of a platform's only owner"


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """Origin of a job: session ("" for a command), call, folder, chosen backend. ``is_person``: a user typed it in a chat."""

    session_id: str = ""
    call_id: str = ""
    folder: str = ""
    backend: str = ""
    is_person: bool = False


class PrincipalJobs:
    """Jobs of one principal. Every method raises StoreFailed, and NotFound for a job of another principal.

    ``everybodys``: for the operator at a terminal, who also finds the jobs of others.
    """

    def __init__(self, store: Store, config: Config, who: Principal, *, everybodys: bool = False) -> None:
        self._everybodys = everybodys
        self._store = store
        self._config = config
        self._who = who

    async def add(self, wanted: SchedulesJob, said: str, to: str, origin: JobOrigin) -> CronJob:
        """Store and return a new job.

        Raises InvalidArguments, and Denied if there are too many jobs or this origin may not create a job.
        """
        plan = await self._plan(wanted, said, to, origin)
        job = CronJob(secrets.token_hex(4), self._who.key, plan.to_json(), next_at=_first(plan))
        most = self._most(self._who.is_local)
        kept = await self._store.cron.add(job, most)
        if kept is None:
            raise _too_many(most)
        await self._note(kept, "created", origin)
        return kept

    async def change(self, wanted: SchedulesJob, said: str, to: str, origin: JobOrigin) -> CronJob:
        """Replace a job; its times are calculated anew, even if it was finished. Raises the same errors as ``add``."""
        job = await self.find(wanted.replaces)
        plan = await self._plan(wanted, said, to, origin)
        if plan.backend != JobPlan.of(job).backend and not origin.backend:
            plan = replace(plan, backend=JobPlan.of(job).backend)
        return await self._changed(replace(job, body=plan.to_json(), state="active", next_at=_first(plan)), "changed", origin)

    async def pause(self, job_id: str, origin: JobOrigin) -> CronJob:
        """Pause a job until it is resumed. Withdraws its open questions; a run in progress continues."""
        job = await self.find(job_id)
        if job.state == "done":
            raise InvalidArguments(f"the job {job.id} has ended: its schedule has no more times")
        was_persons = job.body.get(_BY_COMMAND) if job.state == "paused" else False
        theirs = _BY_CHAT if origin.is_person else not origin.session_id
        body = {**job.body, _BY_COMMAND: True if theirs is True else was_persons or theirs}
        paused = await self._changed(replace(job, body=body, state="paused", next_at=None), "paused", origin)
        await stop_runs(self._store, job.id, only_waiting=True)
        return paused

    async def resume(self, job_id: str, origin: JobOrigin) -> CronJob:
        """Resume a paused job, from its next time on.

        Raises Denied if there are too many jobs, or if a user paused the job and a session resumes it. Raises InvalidArguments if
        the schedule has no more times.
        """
        job = await self.find(job_id)
        if job.state == "active":
            return job
        if origin.session_id and (by := job.body.get(_BY_COMMAND)) and not (origin.is_person and by == _BY_CHAT):
            how = f"/jobs resume {job.id}" if by == _BY_CHAT else f"toolcrib cron resume {job.id}"
            raise Denied(f"a user paused the job {job.id}, and only a user may resume it: {how}")
        next_at = JobPlan.of(job).schedule.after(time.time())
        if next_at is None:
            raise InvalidArguments(f"the job {job.id} has ended: its schedule has no more times; add another job")
        return await self._changed(replace(job, state="active", next_at=next_at), "resumed", origin)

    async def remove(self, job_id: str, origin: JobOrigin) -> CronJob:
        """Remove a job and its task text, and end its current runs."""
        job = await self.find(job_id)
        body = {**job.body, "task": ""}
        removed = await self._changed(replace(job, body=body, state="removed", next_at=None), "removed", origin)
        await stop_runs(self._store, job.id)
        return removed

    async def stop(self, job_id: str, origin: JobOrigin) -> CronJob:
        """End a job's current runs, in any process, and keep the job. Raises InvalidArguments if there are none."""
        job = await self.find(job_id, removed=True)  # a failure of the store may have left runs of a removed job
        if not await stop_runs(self._store, job.id):
            raise InvalidArguments(f"the job {job.id} is not running; pause skips its next times")
        await self._note(job, "stopped", origin)
        return job

    async def list(self) -> Sequence[CronJob]:
        """Return the existing jobs, the oldest first."""
        return await self._store.cron.jobs(self._who.key)

    async def removed(self) -> Sequence[CronJob]:
        """Return the removed jobs that still have a history, in the order of their removal."""
        known = await self._store.cron.changed(0)
        return [job for job in known if job.state == "removed" and (self._everybodys or job.owner == self._who.key)]

    async def history(self, job_id: str, limit: int = 20) -> Sequence[CronRun]:
        """Return the latest runs of a job, the latest first."""
        return await self._store.cron.runs((await self.find(job_id, removed=True)).id, limit)

    async def find(self, prefix: str, *, removed: bool = False) -> CronJob:
        """Return the job with this id prefix or name. Raises NotFound, and InvalidArguments for several.

        ``removed``: also find removed jobs, if no existing one matches.
        """
        own = await self._store.cron.jobs(None if self._everybodys else self._who.key)
        whole = await self._store.cron.get(prefix)
        is_theirs = whole is not None and (self._everybodys or whole.owner == self._who.key)
        if whole is not None and is_theirs and (removed or whole.state != "removed"):
            return whole
        found = _meant(own, prefix) or (_meant(await self.removed(), prefix) if removed else [])
        if len(found) > 1:
            raise InvalidArguments(f"{len(found)} jobs match {prefix!r} ({', '.join(job.id for job in found)}); use the id")
        if not found:
            there = ", ".join(job.id for job in own) or "none"
            raise NotFound(f"there is no job {prefix!r}; existing jobs: {there}")
        return found[0]

    # -- helpers ---------------------------------------------------------------------------------------------------

    async def _plan(self, wanted: SchedulesJob, said: str, to: str, origin: JobOrigin) -> JobPlan:
        if origin.session_id and await is_jobs(self._store, origin.session_id):
            raise Denied("a job can't create jobs; propose it in the answer, so that a user can ask for it")
        if wanted.unattended not in ("deny", "park", *(sets := self._config.cron.rule_sets)):
            known = ", ".join(["deny", "park", *sets])
            raise InvalidArguments(
                f"unattended: {wanted.unattended!r} is unknown; choose {known} (rule sets are in cron.rule_sets)"
            )
        if wanted.missed not in MISSED:
            raise InvalidArguments(f"missed: {wanted.missed!r} is unknown; choose {', '.join(MISSED)}")
        now = time.time()
        made_in = await self._chat_of(origin.session_id)
        if made_in is None and not self._who.is_local:
            raise Denied("this session does not belong to a chat; ask for the job in a chat")
        return JobPlan(
            replace(self._who, roles=()),
            said,
            Schedule.from_json(json.loads(wanted.schedule)).begun(now),
            wanted.task,
            wanted.name,
            wanted.unattended,
            "skip" if wanted.missed == "skip" else "once",
            made_in,
            made_in if to in ("", HERE) else await self._other_chat(to, made_in),
            origin.folder,
            origin.backend,
            origin.session_id,
            now,
        )

    async def _chat_of(self, session_id: str) -> ChatPlace | None:
        if not session_id:
            return None
        record = await self._store.mail.chat_of(await persons_session(self._store, session_id))
        return None if record is None else _place(record)

    async def _other_chat(self, to: str, made_in: ChatPlace | None) -> ChatPlace:
        """Return a chat of the principal. Raises InvalidArguments, which lists the possible ones."""
        platform, _, chat_id = to.partition(":")
        known = [made_in] if made_in is not None else []
        known += [_place(record) for record in await self._own_chats()]
        found = [one for one in known if one.platform == platform and one.chat["id"] == chat_id]
        if not found:
            there = ", ".join(list(dict.fromkeys(one.label for one in known))[:_SHOWN_CHATS]) or "none with messages yet"
            which = f" ({_WHICH})" if self._who.is_local else ""
            raise InvalidArguments(f"to: {to!r} is not your chat; use PLATFORM:CHAT{which}: {there}")
        return found[0]

    async def _own_chats(self) -> Sequence[ChatRecord]:
        """Return the principal's direct chats; for the local user, those of each platform's only owner."""
        who = self._who
        records = await records_of(self._store, "" if who.is_local else who.platform)
        records = [one for one in records if one.body.get("user") and not one.body["chat"]["is_group"]]
        owners = await owners_of(self._store, self._config, records) if who.is_local else {who.platform: who.user}
        return [one for one in records if owners.get(one.platform) == one.body["user"]]

    async def _changed(self, job: CronJob, how: str, origin: JobOrigin) -> CronJob:
        most = self._most(not job.owner) if job.state == "active" else None
        kept = await self._store.cron.change(job, most)
        if kept is None:
            now = await self._store.cron.get(job.id)
            if most is not None and now is not None and now.version == job.version:
                raise _too_many(most)
            raise ToolcribError(f"the job {job.id} was changed by another process; read it and try again")
        await self._note(kept, how, origin)
        return kept

    def _most(self, is_local: bool) -> int:
        return self._config.cron.most_jobs * (_LOCAL_TIMES if is_local else 1)

    async def _note(self, job: CronJob, how: str, origin: JobOrigin) -> None:
        await self._store.signals.send(CHANGED)
        detail: Mapping[str, Json] = {"job": job.id, "said": job.body["said"], "unattended": job.body["unattended"]}
        by = self._who.key or "person"
        await self._store.audit.record(AuditEntry(time.time(), origin.session_id, origin.call_id, TOOL, how, by, detail))


async def is_jobs(store: Store, session_id: str) -> bool:
    """Return whether a session belongs to a job, or to a delegate of one."""
    return await store.cron.run_of(await persons_session(store, session_id)) is not None


def _meant(jobs: Sequence[CronJob], prefix: str) -> list[CronJob]:
    return [job for job in jobs if prefix and (job.id.startswith(prefix) or job.body.get("name") == prefix)]


def _too_many(most: int) -> Denied:
    return Denied(f"the limit of {most} jobs is reached (cron.most_jobs); remove one first")


def _first(plan: JobPlan) -> float:
    at = plan.schedule.after(time.time())
    if at is None:
        raise InvalidArguments("schedule: that time has passed")
    return at


def _place(record: ChatRecord) -> ChatPlace:
    return ChatPlace(record.platform, record.chat, dict(record.body["chat"]))
