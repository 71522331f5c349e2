"""A conversation as Gemini contents, each stored as the JSON text to send: small, and always the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._history import NO_RESULT, NO_SIGNATURE, History, encode
from agent.providers._images import NO_IMAGES, Pictured
from agent.providers._names import WireNames
from toolcrib.contract.errors import BadRequest
from toolcrib.contract.image import Image
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

RESULTS_ROLE = "user"
"""Role of a content with results (004-15): Gemini also accepts "tool" and "function"; its own clients send this."""

_NAME = Regex(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
"""Names that Gemini accepts in a history: more than in tools."""
_WITHOUT_SIGNATURES = Regex(r"gemini-(1|2)\b")


class _OpenCall(NamedTuple):
    id: str
    wire_id: str | None
    name: str


class GeminiContents(History):
    wire = "gemini"

    def __init__(self, names: WireNames, model: str) -> None:
        super().__init__(names, model)
        self._system: list[str] = []
        self._sent: list[bytes] = []
        self._open: list[_OpenCall] = []

    def system(self, text: str) -> None:
        self._system.append(text)

    def user(self, text: str, images: Sequence[Image] = ()) -> None:
        self._close_calls()
        said = [{"text": text}] if text or not images else []
        self._add({"role": "user", "parts": [*map(_inline, images), *said]})

    def model_content(self, content: Any, call_ids: Sequence[str]) -> None:
        """Add the model's own content, unchanged. ``call_ids`` are our ids, in the order of its calls.

        Raises BadRequest if there is no such content to send back.
        """
        self._close_calls()
        calls = _calls_in(content)
        if len(calls) != len(call_ids):
            raise BadRequest(
                "the model's own content is missing: Gemini refuses the results of calls without it; ask the model again"
            )
        if not content["parts"]:
            return  # an empty reply: refused in a history
        parts = [self._fitted(part) for part in content["parts"]]
        self._add({**content, "parts": parts} if parts != content["parts"] else content)
        self._open = [
            _OpenCall(call_id, call.get("id") or None, self._accepted(call).get("name") or "")
            for call_id, call in zip(call_ids, calls, strict=True)
        ]

    def results(self, results: Iterable[tuple[str, str]], shown: Pictured = NO_IMAGES) -> None:
        """Add the results of the last content's calls, (call id, text for the model): one part each, in order (004-15).

        Their images follow in the same content (004-21).
        """
        texts = dict(results)
        if self._open:
            parts = [_response(call, texts.get(call.id, NO_RESULT)) for call in self._open]
            for one in shown.values():
                parts += [{"text": one.label}, *map(_inline, one.images)]
            self._add({"role": RESULTS_ROLE, "parts": parts})
        self._open = []

    def expects(self, call_ids: Iterable[str]) -> bool:
        """Return whether the last content contains all of these calls."""
        return {call.id for call in self._open}.issuperset(call_ids)

    def fields(self) -> bytes:
        """Return the body's ``contents`` and ``systemInstruction``, as the inside of a JSON object."""
        self._close_calls()
        contents = b'"contents":[' + b",".join(map(_signed, self._sent) if self._signs else self._sent) + b"]"
        if not self._system:
            return contents
        return b'"systemInstruction":' + encode({"parts": [{"text": "\n\n".join(self._system)}]}) + b"," + contents

    # -- records -------------------------------------------------------------------------------------------------

    def _recorded_reply(self, record: Mapping[str, Any]) -> None:
        calls = record.get("calls") or ()
        native = record.get("native")
        if isinstance(native, Mapping) and native.get("wire") == "gemini" and self._is_ours(record):
            content = native.get("message")
            if isinstance(content, Mapping) and len(_calls_in(content)) == len(calls):
                self.model_content(content, [call["id"] for call in calls])
                return
        parts: list[dict[str, Any]] = [{"text": record["text"]}] if record.get("text") else []
        for place, call in enumerate(calls):
            args = self._names.wire_args(call["name"], call["args"])
            args = args if isinstance(args, Mapping) else {"value": args}
            part: dict[str, Any] = {"functionCall": {"name": self._names.wire(call["name"]), "args": args}}
            if place == 0 and not _WITHOUT_SIGNATURES.search(self._model):
                part["thoughtSignature"] = NO_SIGNATURE
            parts.append(part)
        self.model_content({"role": "model", "parts": parts}, [call["id"] for call in calls])

    def _has_answered(self, name: str) -> bool:
        """Return whether the model may have answered under a name: always True for an alias ("latest") of changing versions."""
        return super()._has_answered(name) or "latest" in self._model

    def _fitted(self, part: Any) -> Any:
        """Return a part with a name of its call that the server accepts."""
        call = part.get("functionCall") if isinstance(part, Mapping) else None
        return {**part, "functionCall": self._accepted(call)} if isinstance(call, Mapping) else part

    def _accepted(self, call: Mapping[str, Any]) -> dict[str, Any]:
        return dict(call) if _NAME.fullmatch(str(call.get("name") or "")) else self._names.accepted(dict(call))

    def _add(self, content: Mapping[str, Any]) -> None:
        self._sent.append(encode(content))


def _calls_in(content: Any) -> list[Mapping[str, Any]]:
    parts = content.get("parts") if isinstance(content, Mapping) else None
    found = [part.get("functionCall") for part in parts or () if isinstance(part, Mapping)]
    return [call for call in found if isinstance(call, Mapping)]


def _signed(sent: bytes) -> bytes:
    """Return a content whose first call, if it has one, has a signature."""
    content = json.loads(sent)
    for part in content["parts"]:
        if isinstance(part, dict) and "functionCall" in part:
            part.setdefault("thoughtSignature", NO_SIGNATURE)
            break
    return encode(content)


def _inline(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": image.base64}}


def _response(call: _OpenCall, text: str) -> dict[str, Any]:
    """Return the part for a result, with the call's wire id if it had one. A result that is not an object goes in ``result``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    response: dict[str, Any] = {} if call.wire_id is None else {"id": call.wire_id}
    response["name"] = call.name or "unnamed"
    response["response"] = value if isinstance(value, dict) else {"result": value}
    return {"functionResponse": response}
