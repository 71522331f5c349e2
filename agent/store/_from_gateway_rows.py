"""Mail, posts, chats and jobs from rows, for SQLite and PostgreSQL. Most processes do not load this module."""

from __future__ import annotations

from agent.store._codec import Stored, load, plain
from toolcrib.contract.cron import CronJob, CronRun, CronRunState, CronState
from toolcrib.contract.frozen import freeze
from toolcrib.contract.mail import ChatRecord, Mail, Post, PostState

MAIL = "platform, chat, key, body, at, row"
POST = "platform, chat, key, body, state, shown_as, tries, due_at, problem, at, row, session_id, moved_at"
JOB = "id, owner, body, state, next_at, version, change"
CRON_RUN = "job_id, due_at, session_id, state, platform, is_told, started_at, ended_at, note"
CHAT = "chats.platform, chat, chats.session_id, body, created_at, used_at"


def read_mail(platform: Stored, chat: Stored, key: Stored, body: Stored, at: float, number: int) -> Mail:
    return Mail(plain(platform), plain(chat), plain(key), load(body), at, number)


def read_post(
    platform: Stored,
    chat: Stored,
    key: Stored,
    body: Stored,
    state: PostState,
    shown_as: Stored,
    tries: int,
    due_at: float,
    problem: Stored,
    at: float,
    number: int,
    session_id: Stored,
    moved_at: float,
) -> Post:
    place, shown = (plain(platform), plain(chat), plain(key)), plain(shown_as)
    return Post(*place, load(body), state, shown, tries, due_at, plain(problem), at, number, plain(session_id), moved_at)


def read_chat(platform: Stored, chat: Stored, session_id: Stored, body: Stored, created_at: float, used_at: float) -> ChatRecord:
    return ChatRecord(plain(platform), plain(chat), plain(session_id), load(body), created_at, used_at)


def read_job(
    job_id: Stored, owner: Stored, body: Stored, state: CronState, next_at: float | None, version: int, change: int
) -> CronJob:
    return CronJob(plain(job_id), plain(owner), freeze(load(body)), state, next_at, version, change)


def read_cron_run(
    job_id: Stored,
    due_at: float,
    session_id: Stored,
    state: CronRunState,
    platform: Stored,
    is_told: int,
    started_at: float,
    ended_at: float | None,
    note: Stored,
) -> CronRun:
    names = plain(job_id), due_at, plain(session_id)
    return CronRun(*names, state, plain(platform), bool(is_told), started_at, ended_at, plain(note))
