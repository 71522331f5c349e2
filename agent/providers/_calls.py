"""Tool calls of a Chat Completions reply, assembled from deltas that differ between servers (X-2, X-3, X-8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from json.scanner import make_scanner
from typing import Any, NoReturn

from agent.protocols.repair import read_json
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import StreamEvent
from toolcrib.contract.types import ToolCall

UNREADABLE = "INVALID_JSON"
"""Name of the only argument of a call with unreadable arguments; its value is their raw text."""

CUT_OFF = (
    "cut off: the reply reached its token limit inside this call, so it was not run. "
    "Call again with less content, for instance a long file in several parts"
)
MAX_CALLS = 128
"""Maximum number of calls of one reply that run. One more is kept; its result explains that the rest did not run."""

TOO_MANY = (
    f"it is one too many: at most {MAX_CALLS} calls of one reply are run. This call and all after it were not run. Call again"
    " what is still needed, with fewer calls in one reply"
)
TORN = (
    "the reply has arguments that belong to no call, perhaps to this one, which has none; it was not run."
    " Call again with all its arguments"
)
_SHOWN = 200
new_event: Callable[[type[StreamEvent], tuple[str, str, str, str]], StreamEvent] = tuple.__new__
"""Make a StreamEvent from its four fields, in half the usual time: every token needs one."""
scan_json: Callable[[str, int], tuple[Any, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type] # the stubs expect a scanner
"""Return the JSON value at a position, and its end.

This is ``JSONDecoder.raw_decode`` without its wrapper, for speed. It raises the same errors, and StopIteration if no value
begins there.
"""


class OpenCall:
    """A call that is being received. ``id`` never changes; ``wire_id`` is the server's id for it, "" until it arrives."""

    __slots__ = ("extra", "id", "name", "parts", "shown", "wire_id")

    def __init__(self, call_id: str, wire_id: str) -> None:
        self.id = call_id
        self.wire_id = wire_id
        self.name = ""  # name on the wire
        self.shown = ""  # the tool's own name
        self.parts: list[str] = []
        self.extra: dict[str, Any] = {}

    @property
    def raw(self) -> str:
        return "".join(self.parts)

    def complete(self) -> bool:
        """Return whether the arguments so far are a complete JSON object, so that none can follow."""
        if not self.parts or not self.parts[-1].rstrip().endswith("}"):
            return False
        return read_arguments(self.raw)[1] is None


class CallReader:
    """Assembles calls: ``feed`` it the tool_calls of each delta; ``calls`` are in the order of their first delta."""

    def __init__(
        self, on_event: Callable[[StreamEvent], None], name_of: Callable[[str], str], taken: Collection[str] = ()
    ) -> None:
        """Begin with no calls. ``taken`` are the ids of earlier calls, which a server may reuse."""
        self.calls: list[OpenCall] = []
        self._on_event = on_event
        self._name_of = name_of
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._ids = set(taken)
        self._spare = OpenCall("", "")
        """Takes the deltas of every call above the limit, which are dropped."""
        self._together: list[OpenCall] = []
        """The calls of the last deltas, if they came together."""
        self.last: OpenCall | None = None

    @property
    def size(self) -> int:
        """Return how many characters of names and arguments have arrived."""
        return sum(len(call.name) + sum(map(len, call.parts)) for call in self.calls)

    def feed(self, deltas: list[Any]) -> None:
        touched: list[OpenCall] = []
        for delta in deltas:
            if type(delta) is not dict:
                continue
            function = delta.get("function")
            if type(function) is not dict:
                function = {}
            elif len(function) == 1 and len(delta) == 2 and type(index := delta.get("index")) is int:
                # The usual delta, thousands in a long call: just a piece of arguments.
                call, arguments = self._by_index.get(index), function.get("arguments")
                if call is not None and type(arguments) is str:
                    self.last = call
                    call.parts.append(arguments)
                    self._on_event(new_event(StreamEvent, ("tool_call_delta", arguments, call.id, call.shown)))
                    continue
            self._one(delta, function, touched, len(deltas))
        if len(touched) > 1:
            self._together = list(dict.fromkeys(touched))

    def _one(self, delta: dict[str, Any], function: dict[str, Any], touched: list[OpenCall], count: int) -> None:
        wire_id, name, arguments = _text(delta.get("id")), _text(function.get("name")), _arguments(function)
        index = delta.get("index")
        if type(index) is int:
            call = self._by_index.get(index)
            if call is None or self._is_next(call, wire_id, name, arguments):
                call = self._open(wire_id)
        else:
            call = None if wire_id or name else self._one_of_several(arguments, len(touched), count)
            call = call or self._without_index(wire_id, name, arguments, touched)
        self.last = call
        if call is self._spare:
            return
        if type(index) is int:
            self._by_index[index] = call
        touched.append(call)
        if not call.wire_id:
            call.wire_id = wire_id
        if name and name != call.name and not (call.name and (call.parts or wire_id)):
            call.name += name
            call.shown = self._name_of(call.name)
        if arguments:
            call.parts.append(arguments)
        for key, value in delta.items():
            if value is not None and key not in ("id", "index", "function", "type", "custom"):
                call.extra[key] = value  # Gemini's thought signature: the call is refused without it
        self._on_event(StreamEvent("tool_call_delta", arguments, call.id, call.shown))

    def _without_index(self, wire_id: str, name: str, arguments: str, touched: list[OpenCall]) -> OpenCall:
        if wire_id and wire_id in self._by_id and self._by_id[wire_id] not in touched:
            return self._by_id[wire_id]
        last = self.calls[-1] if self.calls else None
        if last is None or (name and last in touched) or self._is_next(last, wire_id, name, arguments):
            return self._open(wire_id)
        if name and not wire_id and (name != last.name or last.complete()):
            return self._open(wire_id)
        return last

    def _one_of_several(self, arguments: str, place: int, count: int) -> OpenCall | None:
        """Return the call that a delta with only arguments continues, if the calls so far came together; None for the last call.

        If there are as many pieces as calls, they are in the same order. If there are fewer, each may belong to any call that has
        no arguments yet, so they become a call without a name: see ``held_back``.
        """
        calls = self._together
        if len(calls) < 2:
            return None
        if count == len(calls):
            return calls[place]
        if not arguments.strip() or all(call.parts for call in calls) or (calls[-1].parts and not calls[-1].complete()):
            return None
        return self._open("")

    @staticmethod
    def _is_next(call: OpenCall, wire_id: str, name: str, arguments: str) -> bool:
        """Return whether a delta that seems to continue ``call`` begins another call. Only a delta with a name can."""
        if not name:
            return False
        if wire_id and call.wire_id:
            return wire_id != call.wire_id
        return bool(arguments.strip()) and call.complete()

    def _open(self, wire_id: str) -> OpenCall:
        if len(self.calls) > MAX_CALLS:
            return self._spare
        call_id = wire_id if wire_id and wire_id not in self._ids else ToolCall.new_id()
        call = OpenCall(call_id, wire_id)
        self._ids.add(call_id)
        self.calls.append(call)
        self._together = []
        if wire_id:
            self._by_id[wire_id] = call
        return call

    def _join_torn(self) -> None:
        """Join a call without arguments and arguments without a name, if there is one of each; see ``held_back`` otherwise."""
        nameless = [call for call in self.calls if not call.name and call.raw.strip()]
        bare = [call for call in self.calls if call.name and not call.raw.strip()]
        if len(nameless) != 1 or len(bare) != 1:
            return
        (piece,), (call,) = nameless, bare
        if not (piece.wire_id and call.wire_id and piece.wire_id != call.wire_id):
            call.parts, call.extra = piece.parts, {**piece.extra, **call.extra}
            self.calls.remove(piece)
            self.last = call if self.last is piece else self.last

    def finish(self, *, truncated: bool) -> tuple[list[ToolCall], list[dict[str, Any]]]:
        """Return the calls, with their faults, and the wire's tool_calls for them. ``truncated``: the token limit was hit."""
        calls, native = [], []
        self._join_torn()
        for place, call in enumerate(self.calls):
            raw = call.raw
            args, fault = read_arguments(raw)
            if place >= MAX_CALLS:
                fault = TOO_MANY
            elif truncated and call is self.last:
                fault = CUT_OFF
            elif not call.name:
                fault = "the call names no tool"
            if fault is not None:
                args = {UNREADABLE: raw}
            calls.append(ToolCall(call.id, call.shown, args, fault))
            # Invalid JSON is sent back wrapped: servers that read old calls would refuse the whole conversation.
            arguments = sent_back(raw, args) if fault is None else json.dumps(args, ensure_ascii=False)
            function = {"name": call.name or "unnamed", "arguments": arguments}
            native.append({"id": call.id, "type": "function", "function": function, **call.extra})
        return calls, native


def bounded(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls that may run, plus one more, if there are more, whose fault explains the limit."""
    if len(calls) <= MAX_CALLS:
        return tuple(calls)
    return (*calls[:MAX_CALLS], replace(calls[MAX_CALLS], fault=TOO_MANY))


def held_back(calls: Sequence[ToolCall], fault: str | None) -> tuple[ToolCall, ...]:
    """Return the calls, each with ``fault`` if there is one: such a call never runs, and the model reads the reason.

    If the reply has arguments without a name, each call without arguments gets a fault too: it may have lost them.
    """
    if fault is None and any(not call.name and str(call.args.get(UNREADABLE) or "").strip() for call in calls):
        return tuple(call if call.args else replace(call, fault=call.fault or TORN) for call in calls)
    return tuple(calls if fault is None else (replace(call, fault=call.fault or fault) for call in calls))


def read_arguments(raw: str) -> tuple[Any, str | None]:
    """Return (arguments, None), or (None, the problem). No text and null mean {}.

    Slips in the JSON are repaired if nothing is lost or guessed (see repair), as is an object that is quoted as a string.
    """
    if not raw.strip():
        return {}, None
    try:
        args = _read_json(raw)
    except RecursionError:
        return None, "the arguments are nested too deeply"
    except ValueError as error:
        shown = raw if len(raw) <= _SHOWN else f"{raw[: _SHOWN // 2]} ... {raw[-_SHOWN // 2 :]}"
        return None, f"the arguments are not valid JSON ({error}); send one JSON object. They were: {shown}"
    if isinstance(args, str):
        args = _unquoted(args)
    if args is None:
        return {}, None
    if not isinstance(args, dict):
        return None, f"the arguments are not a JSON object but {type(args).__name__}; send one JSON object"
    if "\\ud" in raw or "\\uD" in raw:
        try:
            json.dumps(args, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return None, "the arguments have half of a surrogate pair (\\ud800-\\udfff); write the character itself"
    return args, None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return read_json(text)


def _unquoted(text: str) -> Any:
    """Return the object that a JSON string contains; None if the string is empty or null, and any other string unchanged."""
    try:
        value = _read_json(text) if text.strip() else None
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, dict) else text


def sent_back(raw: str, args: Any) -> str:
    """Return arguments for the history, which servers read again: the raw text if it is a strict JSON object, else as JSON."""
    try:
        if isinstance(json.loads(raw, parse_constant=_refuse), dict):
            return raw
    except ValueError:
        pass
    return json.dumps(args, ensure_ascii=False)


def _arguments(function: dict[str, Any]) -> str:
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
