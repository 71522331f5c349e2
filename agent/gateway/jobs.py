"""Jobs in their chats: shows the results and questions of jobs, whichever process runs them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.cron import REMIND, news_of
from agent.cron.messages import answer_of
from agent.cron.plan import JobPlan
from agent.cron.rights import why_untold
from agent.cron.service import TOOL
from agent.gateway.forms import chat_of
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.store import AuditEntry

if TYPE_CHECKING:
    from agent.config import Config
    from agent.gateway.long_texts import LongTexts
    from agent.gateway.questions import ChatQuestions
    from toolcrib.contract.chat import Chat
    from toolcrib.contract.cron import CronRun
    from toolcrib.contract.store import Store

_log = logging.getLogger(__name__)


class ChatJobs:
    """The jobs of one platform. ``config`` returns the current configuration."""

    def __init__(
        self, platform: str, store: Store, config: Callable[[], Config], questions: ChatQuestions, texts: LongTexts
    ) -> None:
        self._platform = platform
        self._store = store
        self._config = config
        self._questions = questions
        self._texts = texts

    async def heard(self, topic: str) -> None:
        """Handle a signal; signals that are not about jobs are ignored. Raises StoreFailed."""
        if topic == news_of(self._platform):
            await self.deliver_pending()
        elif topic.startswith(REMIND):
            await self._questions.remind(topic.removeprefix(REMIND))

    async def deliver_pending(self) -> None:
        """Show pending answers, each once, and open questions. Raises StoreFailed."""
        for run in await self._store.cron.undelivered(self._platform):
            if run.state != "skipped":
                await self._tell(run)
            await self._store.cron.mark_delivered(run)
        for run in await self._store.cron.under_way(self._platform):
            for record in await self._store.tickets.pending(run.session_id):
                chat = await self._chat(run) if record.ticket.id not in self._questions.open_in(run.session_id) else None
                if chat is not None:
                    await self._questions.show(chat, record.ticket.id)

    async def chat_of(self, session_id: str) -> Chat | None:
        """Return the chat of this platform that a job's session reports to.

        None for any other session, or if the chat may no longer read the result.
        """
        run = await self._store.cron.run_of(session_id)
        return None if run is None or run.platform != self._platform else await self._chat(run)

    async def _tell(self, run: CronRun) -> None:
        plan = await self._plan(run)
        if plan is None or plan.to is None:
            return
        if why := await why_untold(self._store, self._config(), plan):
            _log.warning("a result of job %s was not delivered: %s", run.job_id, why)
            detail = {"job": run.job_id, "reason": why}
            await self._store.audit.record(AuditEntry(time.time(), run.session_id, "", TOOL, "not told", "cron", detail))
            return
        text, chat = await answer_of(self._store, plan, run), chat_of(plan.to.chat)
        await self._texts.put(chat, run.session_id, f"cron:{run.session_id}", text, is_jobs=True)

    async def _chat(self, run: CronRun) -> Chat | None:
        plan = await self._plan(run)
        if plan is None or plan.to is None or await why_untold(self._store, self._config(), plan):
            return None
        return chat_of(plan.to.chat)

    async def _plan(self, run: CronRun) -> JobPlan | None:
        job = await self._store.cron.get(run.job_id)
        try:
            return None if job is None else JobPlan.of(job)
        except ToolcribError as error:
            _log.error("a job can't be read: %s", error)
            return None
