"""Parts that the histories of all wires share: loading a stored conversation, and giving every call a result."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, ClassVar

from agent.providers._images import NO_IMAGES, Pictured, carried, pictured_record, recorded
from agent.providers._names import WireNames
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex

NO_RESULT = json.dumps({"error": "no result: the call was interrupted before it finished, or never ran"})
"""Text for a result that never arrived: wires refuse a call without a result (X-1)."""

NO_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Thought signature for a call that has none of Gemini's own: base64 of the vendor's skip_thought_signature_validator."""
UNSIGNED = Regex(r"missing (a |the )?\W?thought_?signature")
"""Matches Gemini's refusal, in lower case, of a call of another model, or whose signature a gateway dropped."""

_DATE = Regex(r"([-@]\d{4}-\d\d-\d\d|[-@]\d{4,8}|-latest)$")


class History(ABC):
    """A conversation as each request sends it.

    Every call in it has exactly one result, right after the message with the call; a missing one is filled in when the
    conversation continues. A wire provides ``wire``, ``system``, ``user``, ``results``, ``_open`` (the calls without a result)
    and ``_recorded_reply``.
    """

    wire: ClassVar[str] = ""
    """Name of the wire in the store: native turns of other wires are not used unchanged."""
    _open: Sized

    def __init__(self, names: WireNames, model: str) -> None:
        self._names = names
        self._model = model
        self._signs = False

    def sign(self) -> bool:
        """Send ``NO_SIGNATURE`` with each message's first call, if it has no signature; return False if that is so already."""
        first, self._signs = not self._signs, True
        return first

    @abstractmethod
    def system(self, text: str) -> None: ...

    @abstractmethod
    def user(self, text: str, images: Sequence[Image] = ()) -> None: ...

    @abstractmethod
    def results(self, results: Iterable[Any], shown: Pictured = NO_IMAGES) -> None:
        """Add the results of the last calls, (call id, text for the model): one for each call, in the calls' order."""

    def records(self, records: Iterable[Mapping[str, Any]], *, skip_system: bool) -> None:
        """Load a stored conversation. ``skip_system`` omits its first system messages, as there are newer ones."""
        for record in carried(records, self.wire, self._is_ours):
            role = record.get("role")
            skip_system = skip_system and role == "system"
            if role == "system" and not skip_system:
                self.system(record["text"])
            elif role == "user":
                self.user(record["text"], recorded(record))
            elif role == "assistant":
                self._recorded_reply(whole(record))
            elif role == "results":
                self.results(self._recorded_results(record), pictured_record(record))

    @abstractmethod
    def _recorded_reply(self, record: Mapping[str, Any]) -> None: ...

    def _recorded_results(self, record: Mapping[str, Any]) -> Iterable[Any]:
        return ((one["call_id"], one["text"]) for one in record["results"])

    def _is_ours(self, record: Mapping[str, Any]) -> bool:
        """Return whether the current model gave this reply, so that its signatures and reasoning are sent back with it.

        Servers answer under other names than requested, so the requested name decides if it is recorded. For older records, the
        server's name for the answering model decides; a reply without either counts as the current model's own.
        """
        asked, answered = str((record.get("via") or {}).get("model") or ""), str(record.get("model") or "")
        return same_model(asked, self._model) if asked else self._has_answered(answered)

    def _has_answered(self, name: str) -> bool:
        """Return whether the current model may have answered under this name."""
        return same_model(name, self._model)

    def _close_calls(self) -> None:
        if self._open:
            self.results(())


def whole(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an interrupted reply with the reason appended to its text, for the model. Any other reply is returned unchanged."""
    broken = record.get("broken")
    return {**record, "text": "\n\n".join(filter(None, [record["text"], f"[{broken}]"]))} if broken else record


def encode(value: Any) -> bytes:
    """Return compact JSON; half a surrogate pair, which no server accepts, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def same_model(one: str, other: str) -> bool:
    """Return whether both names mean one model, or ``one`` is unknown, "".

    Servers add a date to the requested name, or replace "latest" by one. Names with different dates are different models.
    """
    first, second = _bare(one), _bare(other)
    if not one or first == second:
        return True
    undated = _DATE.sub("", first), _DATE.sub("", second)
    return undated[0] == undated[1] and (_is_undated(first) or _is_undated(second))


def _bare(model: str) -> str:
    return model.rpartition("/")[2].lower()


def _is_undated(bare: str) -> bool:
    return bare.endswith("-latest") or _DATE.search(bare) is None
