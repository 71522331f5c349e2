"""Identities that sessions and calls act for."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

LOCAL_PLATFORMS = frozenset({"cli", "api", "cron", "acp"})
"""Platforms where only the person who runs the process speaks, unless a user is named."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that a session, a message or an answer acts for: a user of a platform (cli, api, telegram ...) and the user's
    roles.

    The local person, who owns this machine's configuration, has no user id and comes from a local platform: the terminal, a
    program, a schedule, an editor. A user without an id on another platform has no identity, and is never the local person.

    A room with several people is a principal of its own: ``user`` is then the room, and owns memory, sessions and
    grants. ``speaker`` is the user who writes in the room, and the speaker's rights count. Elsewhere ``speaker`` is
    "".
    """

    platform: str = "cli"
    user: str = ""
    roles: tuple[str, ...] = ()
    speaker: str = ""

    @property
    def is_local(self) -> bool:
        """True for the local person."""
        return not self.user and self.platform in LOCAL_PLATFORMS

    @property
    def key(self) -> str:
        """``platform:user``, or "" for the local person. Grants and memory are stored under this key."""
        return "" if self.is_local else f"{self.platform}:{self.user}"

    @property
    def person(self) -> str:
        """The user whose rights count: the speaker, or the user."""
        return self.speaker or self.user

    def to_json(self) -> dict[str, Json]:
        """Return the principal as JSON, for a store."""
        plain: dict[str, Json] = {"platform": self.platform, "user": self.user, "roles": list(self.roles)}
        return {**plain, "speaker": self.speaker} if self.speaker else plain

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Principal:
        """Return the principal that ``to_json`` wrote; {} is the local person. Raises TypeError for values other than text and a
        list of text.
        """
        platform, user, roles = data.get("platform", "cli"), data.get("user", ""), data.get("roles", ())
        speaker = data.get("speaker", "")
        if not all(isinstance(one, str) for one in (platform, user, speaker, *roles)):
            raise TypeError(f"a principal is {{platform, user, roles, speaker}} of text, not {data!r}")
        return cls(platform, user, tuple(roles), speaker)


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Identity of a run and its calls. ``task_id`` groups calls that share a working folder; "" means the session's id.
    ``platform`` is the interface or chat service: cli, api ... For the other fields see Principal.
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
