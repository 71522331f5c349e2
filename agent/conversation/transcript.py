"""The records of a conversation, and the results of an interrupted turn."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from agent.conversation.compressed import ROLE, compressed_records
from agent.conversation.lineage import IMPORTED
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import Cancelled, ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderTurn
from toolcrib.contract.store import CallRecord, InboxItem, SessionInfo, Store
from toolcrib.contract.types import Answer, Json, ToolCall, ToolCallStatus
from tools.clip import encode
from tools.dispatch.bridge import by_hand
from tools.dispatch.json_results import as_json, failed, images_of

Record = dict[str, Any]
DELEGATE, OURS = "delegate", "toolcrib"
NOTICE = "process"
"""Option of an inbox message that is a notice about background processes."""
"""Sources of messages that no user wrote: the answer of a background delegate, and toolcrib itself."""
_PAGE = 64
"""Number of records in one read."""


# -- records -----------------------------------------------------------------------------------------------------------


def user_record(
    text: str,
    images: Sequence[Image] = (),
    principal: Principal | None = None,
    *,
    via: Mapping[str, Any] | None = None,
    source: str = "",
) -> Record:
    """Return the record of a message for the model: a user's, or one whose ``source`` is ``DELEGATE`` or ``OURS``.

    ``principal`` is stored unless it is the local user; ``via`` names the model that should answer.
    """
    by = {} if principal is None or principal.is_local else {"principal": principal.to_json()}
    asked = {"via": dict(via)} if via else {}
    return {"role": "user", "text": text, **_with(images), **by, **asked, **({"source": source} if source else {})}


def source_of(item: InboxItem) -> str:
    """Return the source of an inbox message: "" for a user's, ``OURS`` for a notice about background processes."""
    return DELEGATE if DELEGATE in item.options else OURS if NOTICE in item.options else ""


def is_persons(record: Mapping[str, Any]) -> bool:
    """Return True for a user's message; False for toolcrib's and delegates' messages to the model, and for any other record."""
    return record.get("role") == "user" and not record.get("source")


def speaker(record: Mapping[str, Any]) -> str:
    """Return the role of the record's author; ``DELEGATE`` or ``OURS`` for a message that no user wrote."""
    return str(record.get("source") or record.get("role", ""))


def turn_record(
    turn: ProviderTurn,
    *,
    wire: str,
    via: Mapping[str, Any],
    turn_id: str = "",
    without_calls: bool = False,
    cost: float | None = None,
    estimated: str = "",
) -> Record:
    """Return the record of a model's reply. ``turn_id`` names its calls in the ledger.

    ``without_calls`` leaves them out because they will get no result. ``cost`` is None if prices are unknown.
    ``estimated`` names the source of the prices if they are list prices.
    """
    record: Record = {
        "role": "assistant",
        "text": turn.assistant_text,
        "usage": dict(turn.usage),
        "model": turn.model,
        "at": time.time(),
        **_with(turn.images),
    }
    if via:
        record["via"] = dict(via)
    if cost is not None:
        record["cost"] = cost
        if estimated:
            record["estimated"] = estimated
    if not without_calls or not turn.tool_calls:
        if turn.tool_calls and turn_id:
            record["turn"] = turn_id
        record["calls"] = [_call_record(call) for call in turn.tool_calls]
        record["native"] = {"wire": wire, "message": turn.assistant_turn}
    return record


def begun_since(record: Record | Mapping[str, Any]) -> float:
    """Return the earliest time that the reply's calls can begin, for ledger entries without a turn (``CallRecord.is_of``).

    Returns infinity for a reply with a turn id: entries without a turn are never its results.
    """
    return math.inf if record.get("turn") else float(record.get("at", 0.0))


def results_record(executed: Sequence[ExecutedCall], state: Mapping[str, Json]) -> Record:
    """Return the record of a turn's results, as the model reads them, with the session's state after them if it changed.

    Forks take the state from there.
    """
    results = [result_of(one) | {"seconds": round(one.duration, 6)} for one in executed]
    record: Record = {"role": "results", "results": results}
    if state:
        record["state"] = dict(state)
    return record


def result_of(executed: ExecutedCall) -> Record:
    """Return the record of a call's result."""
    call, result = executed.call, executed.result
    record = {"call_id": call.id, "name": call.name, "text": as_json(executed), "is_error": result.is_error}
    if result.failure is not None and result.failure.kind == "Denied":
        record["denied"] = True
    return {**record, **_with(images_of(executed))}


def _call_record(call: ToolCall) -> Record:
    record: Record = {"id": call.id, "name": call.name, "args": call.args}
    if call.fault is not None:
        record["fault"] = call.fault
    return record


def _with(images: Sequence[Image]) -> Record:
    return {"images": [image.to_json() for image in images]} if images else {}


# -- the conversation --------------------------------------------------------------------------------------------------


class Transcript:
    """Records of a session in ``store``. ``count`` is their number when this process last read or wrote them.

    ``compressed`` is the index of the last compression, or None.
    """

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self.session_id = session_id
        self.count = 0
        self.compressed: int | None = None

    async def info(self) -> SessionInfo | None:
        """Return the session's row in the store; None if the session does not exist."""
        return await self._store.sessions.get(self.session_id)

    async def reload_if_changed(self) -> bool:
        """Return True if another process wrote records, and count them. Raises ToolcribError if the session was deleted."""
        info = await self.info()
        if info is None and self.count:
            raise ToolcribError(f"the session {self.session_id[:12]} was deleted and can't continue; start another")
        count = 0 if info is None else info.messages
        known, self.count = self.count, count
        if known != count:
            self.compressed = await self._last_compression()
        return known != count

    async def _last_compression(self) -> int | None:
        """Return the index of the last compression. Replies name it, so only the end of a conversation is read."""
        place = self.count
        async for record in self.backwards():
            place -= 1
            if record.get("role") == ROLE:
                return place
            if record.get("role") == "assistant":
                named = record.get(ROLE)
                return named if isinstance(named, int) and 0 <= named < place else None
        return None

    def marked(self, messages: Sequence[Record]) -> Sequence[Record]:
        """Return records as they are stored: replies name the last compression before them."""
        if self.compressed is None:
            return messages
        return [{**one, ROLE: self.compressed} if one["role"] == "assistant" else one for one in messages]

    def added(self, messages: Sequence[Record]) -> None:
        """Count records that this process has just stored."""
        for number, record in enumerate(messages):
            if record["role"] == ROLE:
                self.compressed = self.count + number
        self.count += len(messages)

    async def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the whole conversation, oldest first."""
        return await self._store.sessions.messages(self.session_id)

    def pages(self) -> Iterator[Mapping[str, Any]]:
        """Yield the whole conversation, oldest first, in pages to save memory. For a thread without an event loop."""
        return self._between(0, None)

    def _between(self, begin: int, end: int | None) -> Iterator[Mapping[str, Any]]:
        while end is None or begin < end:
            limit = _PAGE if end is None else min(_PAGE, end - begin)
            page = by_hand(self._store.sessions.messages(self.session_id, offset=begin, limit=limit))
            if not page:
                return
            yield from page
            begin += len(page)

    def model_records(self) -> Iterator[Mapping[str, Any]]:
        """Yield what a model reads of the conversation: all of it, or what its last compression left.

        Reads pages, for a thread without an event loop.
        """
        return self.pages() if self.compressed is None else compressed_records(self.compressed, self._between, self.session_id)

    async def backwards(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the records, newest first, in pages."""
        info = await self.info()
        end = 0 if info is None else info.messages
        while end > 0:
            start = max(0, end - _PAGE)
            for record in reversed(await self._store.sessions.messages(self.session_id, offset=start, limit=end - start)):
                yield record
            end = start

    async def last_exchanges(self, most: int) -> tuple[int, list[Mapping[str, Any]]]:
        """Return the records from the user's last ``most`` messages on, and the number of records before them."""
        found: list[Mapping[str, Any]] = []
        spoken, begin = 0, 0
        async for record in self.backwards():
            found.append(record)
            if is_persons(record):
                spoken, begin = spoken + 1, len(found)
                if spoken == most:
                    break
        info = await self.info()
        total = len(found) if info is None else info.messages
        return total - begin, found[:begin][::-1]

    async def text_at(self, place: int) -> str:
        """Return the text of the record at index ``place``, or ""."""
        found = await self._store.sessions.messages(self.session_id, offset=place, limit=1)
        return str(found[0].get("text", "")) if found else ""

    async def last(self) -> Mapping[str, Any]:
        """Return the last record, or {}."""
        async for record in self.backwards():
            return record
        return {}

    async def state(self) -> Mapping[str, Json]:
        """Return the session's state from the records of an older toolcrib, which stored it with the last results.

        Results with durations come from a later version, which stores the state elsewhere: they end the search.
        """
        async for record in self.backwards():
            if "state" in record:
                return dict(record["state"])
            if any("seconds" in result for result in record.get("results") or ()):
                return {}
        return {}

    async def talked_to(self) -> Mapping[str, Any]:
        """Return ``via`` of the last chosen model, ignoring fallback models; {} if there is none."""
        info = await self.info()
        if info is not None and (info.via or IMPORTED in info.place):
            return info.via  # the records of an imported session are untrusted: no server is taken from them
        async for record in self.backwards():
            if record.get("role") == ROLE:  # the summary's model may be another one
                continue
            unknown = {} if record.get("role") == "assistant" else {"fallback": True}
            via: Mapping[str, Any] = record.get("via", unknown)
            if not via.get("fallback"):
                return via
        return {}

    async def images_since(self, place: int) -> list[Image]:
        """Return the images that the model made after the record at index ``place``, in order."""
        records = await self._store.sessions.messages(self.session_id, offset=place)
        drawn = [image for record in records if record.get("role") == "assistant" for image in record.get("images", ())]
        return [Image.from_json(image) for image in drawn]

    # -- an interrupted turn -------------------------------------------------------------------------------------

    async def unanswered(self) -> Mapping[str, Any] | None:
        """Return the last record if it is a reply with calls, which then have no results yet."""
        last = await self.last()
        return last if last.get("role") == "assistant" and last.get("calls") else None

    async def missing_results(self, turn: Mapping[str, Any]) -> Record:
        """Return the record of results for every call of an interrupted turn, from the ledger if it has them.

        A call that waits for an answer is cancelled: a later answer does not run it.
        """
        results = [await self._known_result(call, turn) for call in turn["calls"]]
        return {"role": "results", "results": results}

    async def _known_result(self, call: Mapping[str, Any], turn: Mapping[str, Any]) -> Record:
        known = await self._store.ledger.get(self.session_id, call["id"])
        if known is not None and known.status.is_terminal and not known.is_of(turn.get("turn", ""), begun_since(turn)):
            known = None
        if known is not None and not known.status.is_terminal:
            known = await self.end_call(known)
        if known is None or known.result is None:
            text = encode({"error": f"Error executing {call['name']}: interrupted before it ran; call it again if needed"})
            return {"call_id": call["id"], "name": call["name"], "text": text, "is_error": True}
        return result_of(ExecutedCall(known.call, known.result, known.status))

    async def end_call(self, known: CallRecord) -> CallRecord | None:
        """End a call that will not continue: it waits for an answer, or its end was not recorded. Its tickets expire."""
        store, call = self._store, known.call
        why = "it was interrupted before it could run"
        if known.status is ToolCallStatus.SUSPENDED:
            why = "it was not approved before the conversation continued"
        for ticket in await store.tickets.of_call(self.session_id, call.id):
            answer = Answer(ticket.ticket.id, action="cancel", reason=why, by="nobody", at=time.time())
            await store.tickets.decide_ticket(answer, "expired")
        if known.status is ToolCallStatus.NEW:
            await store.ledger.move(self.session_id, call.id, ToolCallStatus.RUNNING)
        not_run = f"not run: {why}; call it again if needed"
        words = "interrupted; it may have run, or may still be running" if known.handler_started else not_run
        result = failed(call.name, Cancelled(words), inside=known.handler_started)
        await store.ledger.finish(self.session_id, call.id, ToolCallStatus.CANCELLED, result)
        return await store.ledger.get(self.session_id, call.id)
