"""Plan of a job, the body of its record: its task, its schedule and its principal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, cast

from agent.conversation.lineage import session_id_of
from agent.cron import PLATFORM
from toolcrib.contract.context import Principal
from toolcrib.contract.cron import CronJob
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json
from tools.schedules.schedule import Schedule, time_words

NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """A chat: its platform, its key there, and its JSON form (see agent.gateway.forms)."""

    platform: str
    key: str
    chat: Mapping[str, Json] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The chat as users name it in ``to``."""
        return f"{self.platform}:{self.chat.get('id', '')}"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of a job.

    ``creator`` is the principal at creation; its roles are looked up at each run. ``said`` is the schedule as the user wrote
    it. ``made_in`` is the chat of origin, None for a terminal; ``to`` receives the answers, None to keep them in the session
    only. ``folder`` is where a local user's job runs, ``backend`` the chosen backend, "" for the configured one.
    """

    creator: Principal
    said: str
    schedule: Schedule
    task: str
    name: str = ""
    unattended: str = "deny"
    missed: Literal["once", "skip"] = "once"
    made_in: ChatPlace | None = None
    to: ChatPlace | None = None
    folder: str = ""
    backend: str = ""
    session_id: str = ""
    """The session that created it, "" for a command."""
    made_at: float = 0.0

    @property
    def platform(self) -> str:
        """The platform that receives its answers, "" for none."""
        return "" if self.to is None else self.to.platform

    @property
    def title(self) -> str:
        """The name, or the beginning of the task, on one line."""
        return self.name or " ".join(self.task.split())[:NAME_CHARS]

    def message(self, due_at: float) -> str:
        """Return the message that its session receives at that time."""
        head = f"It is {time_words(due_at, self.schedule.zone)}, the scheduled time of this task ({self.said}):"
        return f"{head}\n\n{self.task}"

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON."""
        return {
            "creator": self.creator.to_json(),
            "said": self.said,
            "schedule": self.schedule.to_json(),
            "task": self.task,
            "name": self.name,
            "unattended": self.unattended,
            "missed": self.missed,
            "made_in": _place_json(self.made_in),
            "to": _place_json(self.to),
            "folder": self.folder,
            "backend": self.backend,
            "session_id": self.session_id,
            "made_at": self.made_at,
        }

    @classmethod
    def of(cls, job: CronJob) -> JobPlan:
        """Return the plan of a job. Raises ToolcribError if a newer version wrote it, or it is damaged."""
        data: Mapping[str, Any] = job.body
        try:
            return cls(
                Principal.from_json(data["creator"]),
                str(data["said"]),
                Schedule.from_json(data["schedule"]),
                str(data["task"]),
                str(data["name"]),
                str(data["unattended"]),
                cast(Literal["once", "skip"], data["missed"]),
                _place_of(data["made_in"]),
                _place_of(data["to"]),
                str(data["folder"]),
                str(data["backend"]),
                str(data["session_id"]),
                float(data["made_at"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ToolcribError(f"the job {job.id} can't be read ({type(error).__name__}: {error})") from error


def session_of(job_id: str, due_at: float) -> str:
    """Return the id of a job's session for that due time: the same in every process."""
    return session_id_of(PLATFORM, f"{job_id}\0{due_at!r}")


def _place_json(place: ChatPlace | None) -> Json:
    return None if place is None else {"platform": place.platform, "key": place.key, "chat": dict(place.chat)}


def _place_of(data: Any) -> ChatPlace | None:
    return None if data is None else ChatPlace(str(data["platform"]), str(data["key"]), dict(data["chat"]))
