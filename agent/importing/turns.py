"""Records of another tool's session, created from its messages, calls and results in their order of arrival."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image

NOT_RECORDED = json.dumps({"error": "not recorded: the history that this session was imported from has no result of this call"})
"""Result of a call that has none in the imported file: every call needs a result (X-1)."""
_Role: TypeAlias = Literal["user", "assistant"]


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    args: Mapping[str, Any]
    text: str | None = None
    is_error: bool = False
    images: list[Image] = field(default_factory=list)


@dataclass(slots=True)
class _Said:
    role: _Role
    at: float
    key: str = ""
    model: str = ""
    texts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)


class Turns:
    """The conversation so far. Results may come late, twice, or never; every call gets exactly one, right after its reply."""

    def __init__(self) -> None:
        self._said: list[_Said] = []
        self._open: dict[str, _Call] = {}
        self._answered = False
        self._at = 0.0

    def say(self, text: str, images: Sequence[Image] = (), at: float | None = None) -> None:
        """Add a message of the user."""
        if text.strip() or images:
            self._said.append(_Said("user", self._time(at), texts=[text], images=list(images)))

    def reply(self, text: str, *, key: str = "", model: str = "", at: float | None = None) -> None:
        """Add text of the model to the last reply, or begin a new one.

        A new reply begins after a message of the user, and if ``key`` is not the last reply's. If neither reply has a key, it
        begins after a result.
        """
        said = self._reply(key, model, at)
        if text.strip():
            said.texts.append(text)

    def call(
        self, call_id: str, name: str, args: Mapping[str, Any], *, key: str = "", model: str = "", at: float | None = None
    ) -> None:
        """Add a call of the model, to the reply that ``reply`` would add to."""
        said = self._reply(key, model, at)
        made = _Call(self._unused(call_id, said), name or "unknown", args)
        said.calls.append(made)
        self._open[call_id or made.id] = made

    def result(self, call_id: str, text: str, *, is_error: bool = False, images: Sequence[Image] = ()) -> bool:
        """Set the result of the last call with that id. Return False if there is no such call, or if it has a result already."""
        call = self._open.pop(call_id, None)
        if call is None:
            return False
        call.text, call.is_error, call.images = text, is_error, list(images)
        self._answered = True
        return True

    def end_reply(self) -> None:
        """End the current reply, even if its calls have no results."""
        self._answered = True

    @property
    def spoken(self) -> bool:
        """Return whether there is a message of a user."""
        return any(said.role == "user" for said in self._said)

    def records(self) -> tuple[list[dict[str, Any]], list[float]]:
        """Return the records, and the time of each."""
        records: list[dict[str, Any]] = []
        times: list[float] = []
        for said in self._said:
            made = _records(said)
            records += made
            times += [said.at] * len(made)
        return records, times

    def _reply(self, key: str, model: str, at: float | None) -> _Said:
        last = next((said for said in reversed(self._said) if said.role == "assistant"), None)
        goes_on = last is self._said[-1] if self._said else False
        if last is None or not goes_on or (key != last.key if key or last.key else self._answered):
            last = _Said("assistant", self._time(at), key, model)
            self._said.append(last)
        self._answered = False
        last.model = last.model or model
        return last

    def _unused(self, call_id: str, said: _Said) -> str:
        taken = {call.id for call in said.calls}
        name = call_id or f"call_{len(taken) + 1}"
        while name in taken:
            name = f"{name}-{len(taken) + 1}"
        return name

    def _time(self, at: float | None) -> float:
        self._at = self._at if at is None else at
        return self._at


def _records(said: _Said) -> list[dict[str, Any]]:
    text = "\n\n".join(said.texts)
    shown = {"images": [image.to_json() for image in said.images]} if said.images else {}
    if said.role == "user":
        return [{"role": "user", "text": text, **shown, "forked": True}]
    if not text and not said.calls:
        return []
    calls = [{"id": call.id, "name": call.name, "args": dict(call.args)} for call in said.calls]
    reply = {"role": "assistant", "text": text, "model": said.model, "at": said.at, "calls": calls, "forked": True}
    return [reply, {"role": "results", "results": [_result(call) for call in said.calls], "forked": True}] if calls else [reply]


def _result(call: _Call) -> dict[str, Any]:
    known = {"text": NOT_RECORDED, "is_error": True} if call.text is None else {"text": call.text, "is_error": call.is_error}
    shown = {"images": [image.to_json() for image in call.images]} if call.images else {}
    return {"call_id": call.id, "name": call.name, **known, **shown}


def image_from(data: object) -> Image | None:
    """Return a picture from base64 or a data URL; None if models do not accept it."""
    if not isinstance(data, str):
        return None
    encoded = data.partition(",")[2] if data.startswith("data:") else data
    try:
        return Image.of(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, ToolcribError):
        return None
