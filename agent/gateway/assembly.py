"""Assembles the parts between one platform and its sessions; each part receives the parts that it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.desk.approvals import ApprovalDesk, ApprovalRights
from agent.desk.hosted_sessions import HostedSessions
from agent.events import Event
from agent.gateway import messages
from agent.gateway.admission import Admission
from agent.gateway.approvers import Approvers
from agent.gateway.chat_requests import ChatRequests
from agent.gateway.commands import ChatCommands
from agent.gateway.failures import is_owners
from agent.gateway.held_chats import HeldChats
from agent.gateway.jobs import ChatJobs
from agent.gateway.known_chats import KnownChats
from agent.gateway.limits import Quotas
from agent.gateway.long_texts import LongTexts
from agent.gateway.mailbox import Mailbox
from agent.gateway.media import Media
from agent.gateway.outbox import Outbox
from agent.gateway.questions import ChatQuestions
from agent.gateway.replies import Replies
from agent.gateway.rooms import Rooms
from agent.gateway.sending import TOOL, ChatFiles, offer
from toolcrib.contract.chat import Inbound, Platform, ShowsCalls, ShowsTyping
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Handler

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.conversation.state import RunResult
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from tools.redact import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class LineListener:
    """Receives the events of a platform's sessions, each with its session's id. ``greet`` is called before a session gets a
    message.
    """

    greet: Callable[[str, Inbound], None]
    watch: Callable[[str, Event], None]
    done: Callable[[str, RunResult | Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineParts:
    """The parts between a platform's host and its sessions."""

    outbox: Outbox
    quotas: Quotas
    manager: HostedSessions
    rooms: Rooms
    questions: ChatQuestions
    files: ChatFiles
    jobs: ChatJobs
    replies: Replies
    mailbox: Mailbox


def assemble_line(
    crib: Crib,
    platform: Platform,
    admission: Admission,
    listener: LineListener,
    *,
    name: str,
    config: PlatformConfig,
    choice: ModelChoice | None = None,
    prepare: Callable[[Session], None] = lambda session: None,
    status: Callable[[], Awaitable[str]],
    redactor: Callable[[], Redactor],
    redact: Callable[[str], str],
) -> LineParts:
    """Return the parts between a platform and its sessions. ``redactor`` and ``redact`` remove the secrets known at the time."""
    store, traits = crib.store, platform.traits
    outbox = Outbox(platform, store, redactor)
    quotas, chats = Quotas(config, store), KnownChats(name, store)
    held = HeldChats(chats)
    offer(crib.registry)
    files = ChatFiles(platform, outbox, chats.chat_of)
    sender = messages.MessageSender(store, lambda: crib.config, redact, quotas.why_over)
    handlers: dict[str, Handler] = {messages.TOOL: sender, **({TOOL: files.handle} if traits.max_file_bytes else {})}
    requests = ChatRequests(
        crib, name, config, choice=choice, chats=chats, handlers=handlers, admits=quotas.admit, admission=admission
    )
    manager = _sessions(crib, name, requests, held, listener, prepare)
    rooms = Rooms(name, store, config, requests, manager)
    approvals = ApprovalDesk(store, ApprovalRights(lambda: crib.config.gateway.approvers), manager.answer)
    approvers = Approvers(name, store, admission, approvals.rights)
    questions = ChatQuestions(name, store, outbox, approvals, approvers, traits)
    replies = Replies(
        outbox,
        questions,
        files,
        chats.chat_of,
        manager.run_id,
        partial(is_owners, store),
        traits.max_chars,
        streams=config.streams,
        typing=platform.typing if isinstance(platform, ShowsTyping) else None,
        calling=platform.calling if isinstance(platform, ShowsCalls) else None,
    )
    commands = ChatCommands(rooms, questions, manager, status, crib.slash, redact, replies.withdraw)
    media = Media(platform, manager.opened)
    mailbox = Mailbox(
        name, store, config, admission, rooms, questions, commands, manager, outbox, media, quotas, held, listener.greet
    )
    return LineParts(
        outbox=outbox,
        quotas=quotas,
        manager=manager,
        rooms=rooms,
        questions=questions,
        files=files,
        jobs=ChatJobs(name, store, lambda: crib.config, questions, LongTexts(outbox, files, traits.max_chars)),
        replies=replies,
        mailbox=mailbox,
    )


def _sessions(
    crib: Crib,
    name: str,
    requests: ChatRequests,
    held: HeldChats,
    listener: LineListener,
    prepare: Callable[[Session], None],
) -> HostedSessions:
    """Return the host of the sessions of a platform's chats."""
    return HostedSessions(
        crib,
        platform=name,
        request=requests.request,
        is_left=requests.is_left,
        may_go_on=held.wait,
        watch=listener.watch,
        done=listener.done,
        most=crib.config.gateway.sessions,
        prepare=prepare,
    )
