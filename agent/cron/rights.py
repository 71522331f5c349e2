"""Current rights of a job's creator, and the request for the job's session, limited to the toolset of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.cron import PLATFORM
from agent.cron.plan import JobPlan
from agent.desk.request import SessionRequest
from agent.gateway.admission import Admission, Admitted
from agent.gateway.chat_requests import ChatRequests
from agent.gateway.forms import chat_of
from agent.gateway.pairing import Pairings
from agent.gateway.recipients import owners_of, records_of
from agent.gateway.sending import TOOL as SEND_FILE
from agent.policy.host_rights import withheld_from_jobs
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.config import Config
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib
    from agent.workspace import Workspace
    from toolcrib.contract.store import Store
    from toolcrib.contract.types import Handler

_MAX_TURNS = 50
PROMPT = (
    "You work on a scheduled job: no user follows it or answers questions. Do what is asked as far as your tools allow, then"
    " answer with the result for the user, and nothing about how you got it. {report}"
)
_TOLD = "The answer is sent to a chat on {platform}, where people read it on phones: be brief, and use plain Markdown."
_KEPT = "The answer is kept for the user to read later."


class MayNotRun(ToolcribError):
    """A job's creator has no rights now; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Current rights of a creator: principal, workspace and backend of the job, and the tools that it never has there."""

    principal: Principal
    here: Workspace
    backend: str
    never: frozenset[str]


async def standing_of(crib: Crib, plan: JobPlan) -> Standing:
    """Return the current rights of a job's creator.

    Raises MayNotRun with the reason if there are none, ConfigError if a platform's settings are wrong, and StoreFailed.
    """
    who = plan.creator
    if who.is_local:
        folder = Path(plan.folder)
        if not await asyncio.to_thread(folder.is_dir):
            raise MayNotRun(f"its folder {plan.folder} does not exist any more")
        here = crib.default if folder == crib.project_dir else crib.workspace(folder)
        return Standing(who, here, plan.backend, _never(here))
    if who.platform not in crib.platforms or plan.made_in is None:
        raise MayNotRun(f"the platform {who.platform} is not enabled now")
    config = crib.config.platforms.get(who.platform, PlatformConfig())
    chat = chat_of(plan.made_in.chat)
    admission = Admission(who.platform, config, Pairings(crib.store, who.platform), crib.store)
    # Roles that only the platform reports are unknown now, so they do not count.
    found = await admission.admit(chat, who.person, ())
    if not isinstance(found, Admitted):
        raise MayNotRun(f"its creator has no access{' there' if found == 'group' else f' on {who.platform}'} any more")
    requests = ChatRequests(crib, who.platform, config)
    here, never = requests.place_of(chat, found.roles)
    return Standing(requests.principal(chat, found), here, config.backend, _never(here) | never.names)


def _never(here: Workspace) -> frozenset[str]:
    """Return the tools that no job has."""
    return withheld_from_jobs(here.registry).names | {SEND_FILE}


async def why_untold(store: Store, config: Config, plan: JobPlan) -> str:
    """Return why the chat of a job may not read its result, "" if it may. Raises StoreFailed.

    The chat may read it if it belongs to the creator, and the creator may write there. For the local user, the chat must belong
    to the platform's only owner.
    """
    to, who = plan.to, plan.creator
    record = None if to is None else await store.mail.chat(to.platform, to.key)
    if to is None or record is None or record.body["chat"]["is_group"] != to.chat["is_group"]:
        return "its chat has changed"
    if who.is_local:
        owners = await owners_of(store, config, await records_of(store, to.platform))
        is_owners = not to.chat["is_group"] and owners.get(to.platform) == record.body["user"]
        return "" if is_owners else f"its chat no longer belongs to the only owner on {to.platform}"
    admission = Admission(to.platform, config.platforms.get(to.platform, PlatformConfig()), Pairings(store, to.platform), store)
    if not isinstance(await admission.admit(chat_of(to.chat), who.person, ()), Admitted):
        return "its creator has no access there any more"
    return "" if to.chat["is_group"] or record.body["user"] == who.user else "its chat now belongs to another user"


def request_for(
    standing: Standing, plan: JobPlan, session_id: str, choice: ModelChoice | None, handlers: Mapping[str, Handler]
) -> SessionRequest:
    """Return the request that opens a job's session, new or taken over. ``handlers`` maps tools to the functions that run them.

    Raises ConfigError for a missing rule set.
    """
    from agent.workspaces import rules_with

    here, who = standing.here, standing.principal
    report = _TOLD.format(platform=plan.platform) if plan.platform else _KEPT
    return SessionRequest(
        platform=PLATFORM,
        user=who.key,
        suspends=plan.unattended == "park",
        smart=False,
        named=session_id,
        choice=choice,
        instructions=PROMPT.format(report=report),
        folder=here.project_dir,
        backend=standing.backend,
        without=standing.never,
        within=here.granted(who.platform, user=who.person),
        acts_for=who,
        handlers=handlers,
        tool_rules=None if plan.unattended in ("deny", "park") else rules_with(here.config, plan.unattended),
        max_turns=_MAX_TURNS,
    )
