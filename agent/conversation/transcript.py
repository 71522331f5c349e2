"""The records of one conversation, and how a turn that was broken off gets its results."""

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
"""Sources of messages that are no person's: a delegate in the background whose answer comes, and toolcrib itself."""
_PAGE = 64
"""Number of records that are read at once."""


# -- records -----------------------------------------------------------------------------------------------------------


def user_record(
    text: str,
    images: Sequence[Image] = (),
    principal: Principal | None = None,
    *,
    via: Mapping[str, Any] | None = None,
    source: str = "",
) -> Record:
    """A message that the model is to answer: a person's, or one of ``source``, ``DELEGATE`` or ``OURS``.

    ``principal`` is kept where it is not the local person, ``via`` is what is to answer.
    """
    by = {} if principal is None or principal.is_local else {"principal": principal.to_json()}
    asked = {"via": dict(via)} if via else {}
    return {"role": "user", "text": text, **_with(images), **by, **asked, **({"source": source} if source else {})}


def source_of(item: InboxItem) -> str:
    """Return whose message of the inbox it is: "" for a person's."""
    return DELEGATE if DELEGATE in item.options else ""


def is_persons(record: Mapping[str, Any]) -> bool:
    """Return True for a message of a person's; False for one that reaches the model in the same way, and for any other record."""
    return record.get("role") == "user" and not record.get("source")


def speaker(record: Mapping[str, Any]) -> str:
    """Return the role of whoever said it; ``DELEGATE`` or ``OURS`` for a message to the model that no person wrote."""
    return str(record.get("source") or record.get("role", ""))


def turn_record(
    turn: ProviderTurn,
    *,
    wire: str,
    via: Mapping[str, Any],
    turn_id: str = "",
    without_calls: bool = False,
    cost: float | None = None,
) -> Record:
    """A reply of the model. ``turn_id`` is by what the ledger knows its calls. ``without_calls`` leaves them out: they will get
    no result. ``cost`` is by the prices, None without.
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
    if not without_calls or not turn.tool_calls:
        if turn.tool_calls and turn_id:
            record["turn"] = turn_id
        record["calls"] = [_call_record(call) for call in turn.tool_calls]
        record["native"] = {"wire": wire, "message": turn.assistant_turn}
    return record


def begun_since(record: Record | Mapping[str, Any]) -> float:
    """Return when its calls began at the earliest, where the ledger does not say whose they are (``CallRecord.is_of``). One that
    has a name is never answered with those.
    """
    return math.inf if record.get("turn") else float(record.get("at", 0.0))


def results_record(executed: Sequence[ExecutedCall], state: Mapping[str, Json]) -> Record:
    """The results of a turn's calls, as the model reads them, and the session's state after them where it changed: forks have it
    from there.
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
    """Records of a session in ``store``. ``count`` is how many there were when this process last read or wrote, ``compressed``
    the place of the last compression among them, None for none.
    """

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self.session_id = session_id
        self.count = 0
        self.compressed: int | None = None

    async def info(self) -> SessionInfo | None:
        """Return what the store says of the session; None where it was never created."""
        return await self._store.sessions.get(self.session_id)

    async def reload_if_changed(self) -> bool:
        """Return True if another process wrote records; from now on this one knows of all. Raises ToolcribError for a session
        that was deleted meanwhile.
        """
        info = await self.info()
        if info is None and self.count:
            raise ToolcribError(
                f"the session {self.session_id[:12]} was deleted meanwhile, and can't be continued; begin another"
            )
        count = 0 if info is None else info.messages
        known, self.count = self.count, count
        if known != count:
            self.compressed = await self._last_compression()
        return known != count

    async def _last_compression(self) -> int | None:
        """Return its place. Each reply after it names it, so that no more than the end of a conversation is read."""
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
        """Return records as they are stored: replies name the compression that they came after."""
        if self.compressed is None:
            return messages
        return [{**one, ROLE: self.compressed} if one["role"] == "assistant" else one for one in messages]

    def added(self, messages: Sequence[Record]) -> None:
        """Note records that this process has just stored."""
        for number, record in enumerate(messages):
            if record["role"] == ROLE:
                self.compressed = self.count + number
        self.count += len(messages)

    async def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the whole conversation, oldest first."""
        return await self._store.sessions.messages(self.session_id)

    def pages(self) -> Iterator[Mapping[str, Any]]:
        """Yield the whole conversation, oldest first, read in pages: it is never whole in memory. For a thread without a loop."""
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
        """Yield what a model reads of the conversation: all of it, or what its last compression left, in pages. For a thread
        without a loop.
        """
        return self.pages() if self.compressed is None else compressed_records(self.compressed, self._between, self.session_id)

    async def backwards(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the records, newest first, read in pages."""
        info = await self.info()
        end = 0 if info is None else info.messages
        while end > 0:
            start = max(0, end - _PAGE)
            for record in reversed(await self._store.sessions.messages(self.session_id, offset=start, limit=end - start)):
                yield record
            end = start

    async def last_exchanges(self, most: int) -> tuple[int, list[Mapping[str, Any]]]:
        """Return the records since the person spoke ``most`` messages ago, and how many records stand before them."""
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
        """Return the text of the record at ``place``, "" where there is none."""
        found = await self._store.sessions.messages(self.session_id, offset=place, limit=1)
        return str(found[0].get("text", "")) if found else ""

    async def last(self) -> Mapping[str, Any]:
        """Return the last record, {} where there is none."""
        async for record in self.backwards():
            return record
        return {}

    async def state(self) -> Mapping[str, Json]:
        """Return the session's state as an older toolcrib recorded it, with the last results. Ones that say how long their calls
        took, and no state, had none: then the conversation is not read to its beginning.
        """
        async for record in self.backwards():
            if "state" in record:
                return dict(record["state"])
            if any("seconds" in result for result in record.get("results") or ()):
                return {}
        return {}

    async def talked_to(self) -> Mapping[str, Any]:
        """Return ``via`` of what was chosen last, but for models that stood in for another; empty where it had none."""
        info = await self.info()
        if info is not None and (info.via or IMPORTED in info.place):
            return info.via  # of an imported one the records are somebody's words: no server is taken from them
        async for record in self.backwards():
            if record.get("role") == ROLE:  # its model may be another one
                continue
            unknown = {} if record.get("role") == "assistant" else {"fallback": True}
            via: Mapping[str, Any] = record.get("via", unknown)
            if not via.get("fallback"):
                return via
        return {}

    async def images_since(self, place: int) -> list[Image]:
        """Return what the model drew after the record at ``place``, in order."""
        records = await self._store.sessions.messages(self.session_id, offset=place)
        drawn = [image for record in records if record.get("role") == "assistant" for image in record.get("images", ())]
        return [Image.from_json(image) for image in drawn]

    # -- a turn that was broken off ------------------------------------------------------------------------------

    async def unanswered(self) -> Mapping[str, Any] | None:
        """Return the last record where it is a reply with calls, which then have no results yet."""
        last = await self.last()
        return last if last.get("role") == "assistant" and last.get("calls") else None

    async def missing_results(self, turn: Mapping[str, Any]) -> Record:
        """Return results for every call of a turn that was broken off, from the ledger where it knows them.

        A call that waits for somebody is given up: an answer that comes later does not run it.
        """
        results = [await self._known_result(call, turn) for call in turn["calls"]]
        return {"role": "results", "results": results}

    async def _known_result(self, call: Mapping[str, Any], turn: Mapping[str, Any]) -> Record:
        known = await self._store.ledger.get(self.session_id, call["id"])
        if known is not None and known.status.is_terminal and not known.is_of(turn.get("turn", ""), begun_since(turn)):
            known = None
        if known is not None and not known.status.is_terminal:
            known = await self.give_up(known)
        if known is None or known.result is None:
            text = encode(
                {"error": f"Error executing {call['name']}: interrupted before it ran; ask for it again if it is needed"}
            )
            return {"call_id": call["id"], "name": call["name"], "text": text, "is_error": True}
        return result_of(ExecutedCall(known.call, known.result, known.status))

    async def give_up(self, known: CallRecord) -> CallRecord | None:
        """End a call that nobody will: it waits for somebody, or its end could not be recorded. Its tickets expire."""
        store, call = self._store, known.call
        why = "it was broken off before it could run"
        if known.status is ToolCallStatus.SUSPENDED:
            why = "nobody had agreed to it when the conversation went on"
        for ticket in await store.tickets.of_call(self.session_id, call.id):
            answer = Answer(ticket.ticket.id, action="cancel", reason=why, by="nobody", at=time.time())
            await store.tickets.decide_ticket(answer, "expired")
        if known.status is ToolCallStatus.NEW:
            await store.ledger.move(self.session_id, call.id, ToolCallStatus.RUNNING)
        not_run = f"not run: {why}; ask for it again if it is needed"
        words = "interrupted; it may have run, or still run" if known.handler_started else not_run
        result = failed(call.name, Cancelled(words), inside=known.handler_started)
        await store.ledger.finish(self.session_id, call.id, ToolCallStatus.CANCELLED, result)
        return await store.ledger.get(self.session_id, call.id)
