"""Persons whom sessions and calls act for."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

LOCAL_PLATFORMS = frozenset({"cli", "api", "cron", "acp"})
"""Platforms on which only the person who runs the process speaks, unless a user is named."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The person that a session, a message or an answer acts for: a user of a platform (cli, api, telegram ...) and the user's
    roles.

    The local person, who owns this machine's configuration, has no name and comes by a local platform: the terminal, a program,
    a schedule, an editor. Somebody without a name on any other platform is nobody in particular, and never the local person.

    A room in which several people speak is a principal of its own: ``user`` is the room then, whose memory, sessions and grants
    these are, and ``speaker`` who says something in it, whose rights count. ``speaker`` is "" elsewhere.
    """

    platform: str = "cli"
    user: str = ""
    roles: tuple[str, ...] = ()
    speaker: str = ""

    @property
    def is_local(self) -> bool:
        """Return True for the local person."""
        return not self.user and self.platform in LOCAL_PLATFORMS

    @property
    def key(self) -> str:
        """``platform:user``, "" for the local person: what grants and memory are kept under."""
        return "" if self.is_local else f"{self.platform}:{self.user}"

    @property
    def person(self) -> str:
        """The user whose rights count: who speaks."""
        return self.speaker or self.user

    def to_json(self) -> dict[str, Json]:
        """Return the principal as JSON, for a store."""
        plain: dict[str, Json] = {"platform": self.platform, "user": self.user, "roles": list(self.roles)}
        return {**plain, "speaker": self.speaker} if self.speaker else plain

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Principal:
        """Read what ``to_json`` wrote; {} is the local person. Raises TypeError for anything else than text and a list of it."""
        platform, user, roles = data.get("platform", "cli"), data.get("user", ""), data.get("roles", ())
        speaker = data.get("speaker", "")
        if not all(isinstance(one, str) for one in (platform, user, speaker, *roles)):
            raise TypeError(f"a principal is {{platform, user, roles, speaker}} of text, not {data!r}")
        return cls(platform, user, tuple(roles), speaker)


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Whose call this is. ``task_id`` groups calls that share a working folder, and is the session's id where it is "";
    ``platform`` is where the chat happens: cli, api ... For the others see Principal.
    """

    session_id: str
    run_id: str = ""
    task_id: str = ""
    user: str = ""
    platform: str = "api"
    roles: tuple[str, ...] = ()
    speaker: str = ""

    @property
    def principal(self) -> Principal:
        """The principal that the run acts for."""
        return Principal(self.platform, self.user, self.roles, self.speaker)
