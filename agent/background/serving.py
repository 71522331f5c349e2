"""Answer requests of other processes about the background processes of a session that is open in this one."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agent.background.requests import ANSWERS, REQUESTS, SESSIONS, add, drop, stored, topic_of
from agent.store._owner import new_owner
from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from toolcrib.contract.store import Store
    from tools.dispatch.scope import CallScope
    from tools.processes.table import ProcessTable

_log = logging.getLogger(__name__)


class ProcessServer:
    """Serves the processes of one session, from their first use to the end of the session.

    Of other principals' sessions only the number of processes is served. The work is done in threads, because the session's
    event loop may be idle.
    """

    def __init__(self, scope: CallScope, store: Store) -> None:
        self._scope, self._store = scope, store
        self._owner = self._principal = ""
        self._forget: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._is_over = False

    def begin(self, table: ProcessTable) -> None:
        """Record that this process has the session's background processes, and serve them. Never waits."""
        self._principal, table.elsewhere = table.principal, self._elsewhere
        self._owner, mine = new_owner(), topic_of(self._scope.identity.session_id)
        self._start(self._enter)
        self._forget = self._store.signals.listen(lambda topic: self._start(self._serve) if topic == mine else None)

    async def close(self) -> None:
        """Stop serving, and remove the record."""
        if self._owner:
            await asyncio.to_thread(self._end)

    async def leave(self) -> None:
        """Stop serving. The record stays, and names a process that ends soon."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._forget()
        with self._lock:
            self._is_over = True

    def _end(self) -> None:
        self._forget()
        self._run(self._leave)
        self._is_over = True

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        threading.Thread(target=self._run, args=(work,), name="toolcrib-process-server", daemon=True).start()

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._lock:
            if self._is_over:
                return
            try:
                asyncio.run(work())
            except StoreFailed as error:
                _log.warning("other processes can't reach the background processes of this session: %s", error)
            except Exception:  # noqa: BLE001 - a thread has no caller: the error is logged
                _log.exception("a request about background processes failed")

    async def _enter(self) -> None:
        await add(self._store, SESSIONS, {self._scope.identity.session_id: self._owner}, self._principal)

    async def _leave(self) -> None:
        session_id = self._scope.identity.session_id
        if (await stored(self._store, SESSIONS, self._principal)).get(
            session_id
        ) == self._owner:  # else another process has the session now
            await drop(self._store, SESSIONS, [session_id], self._principal)

    async def _serve(self) -> None:
        session_id = self._scope.identity.session_id
        waiting = {one: each for one, each in (await stored(self._store, REQUESTS)).items() if each["session"] == session_id}
        await drop(self._store, REQUESTS, waiting)
        for one, each in waiting.items():
            answer = await self._answer(each["request"])
            await add(self._store, ANSWERS, {one: {"answer": answer, "at": time.time()}})

    async def _answer(self, request: Json) -> Json:
        from agent.background.viewing import end_in, log_of, processes_in

        try:
            if request["action"] == "count":
                await self._scope.processes.look()
                return {"running": len(self._scope.processes.names)}
            if self._principal:
                return {"error": "this session belongs to another principal"}
            if request["action"] == "log":
                return await log_of(self._scope, request["name"], lines=request["lines"], begin=request["begin"])
            if request["action"] == "attach":
                from agent.background.attach_socket import offer

                return {"socket": offer(self._scope, request["name"])}
            if request["action"] == "end":
                await end_in(self._scope, request["names"])
            return {"processes": await processes_in(self._scope)}
        except ToolcribError as error:
            return {"error": self._scope.redact(str(error))}

    async def _elsewhere(self, room: int) -> int:
        from agent.background.counting import running_elsewhere

        return await running_elsewhere(self._store, self._principal, room)
