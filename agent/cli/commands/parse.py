"""``toolcrib parse``: show how a raw model output is read, to see why a call was missed."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK
from agent.providers.rows import WIRES, load
from toolcrib.contract.errors import ProviderError, ToolcribError
from toolcrib.contract.session import ProviderTurn
from toolcrib.contract.types import ToolCall

if TYPE_CHECKING:
    from toolcrib.contract.session import ParsedReply

HELP = "Show how a raw model output is read: text, thinking, calls, and their errors."
_WIRES = tuple(name for name, wire in WIRES.items() if wire.reader)
_EPILOG = """\
examples:
  toolcrib parse < reply.txt                               the text of a reply, whatever its dialect
  toolcrib parse --protocol tags '<tool_call>{"name":"ls"}</tool_call>'
  toolcrib parse --wire anthropic --stream < stream.txt    the body of a server's response

--jsonl reads one JSON object from each line: {"id", "text" or "body", "tools": [...], "flags": {...}, "format": "..."}; tools are
schemas in the function format, format is a protocol or a model's family, flags describe whether the prompt opened the thinking
(starts_in_thinking, thinking_enabled, enable_thinking) and whether a token limit ended the reply (truncated). It prints one line
for each: {"id", "content", "reasoning", "calls": [{"id", "name", "arguments"}], "finish", "faults": [...], "error"}. calls has
the calls that would run, and the complete calls of a truncated reply, which would not run; faults describe all other calls.

exit codes: 0 read, even if calls have errors; 1 not a reply of that wire format; 2 wrong command line.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the output (default: standard input)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--protocol", metavar="NAME", default="auto", help="how calls are written in the text (auto: any protocol)")
    how.add_argument(
        "--wire",
        choices=_WIRES,
        help="read the body of a server's response instead",
    )
    parser.add_argument("--stream", action="store_true", help="with --wire: the body is a stream of events")
    parser.add_argument("--jsonl", action="store_true", help="read and print JSON objects, one on each line")


def run(args: argparse.Namespace) -> int:
    if args.stream and not args.wire:
        raise ToolcribError("--stream needs --wire; text is read the same however it is split")
    if not args.wire:
        from agent.protocols import find_protocol

        find_protocol(args.protocol)
    if args.jsonl:
        if args.text is not None:
            raise ToolcribError("--jsonl reads lines from standard input; omit TEXT")
        return _lines(args)
    text = args.text if args.text is not None else _stdin().decode("utf-8", "replace")
    try:
        _show(_read({"body" if args.wire else "text": text}, args))
    except ProviderError as error:
        print(f"{type(error).__name__}: {_tame(str(error))}", file=sys.stderr)
        return FAILED
    return OK


# -- lines -------------------------------------------------------------------------------------------------------------


def _lines(args: argparse.Namespace) -> int:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the lines in")
    write = sys.stdout.write
    for raw in sys.stdin.buffer:
        if raw.strip():
            write(json.dumps(_line(raw, args)) + "\n")
    return OK


def _line(raw: bytes, args: argparse.Namespace) -> dict[str, Any]:
    """Return the answer to a line. A faulty line is answered with an error, so that the other lines are still read."""
    read: dict[str, Any] = {"id": None, **_EMPTY}
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return {**read, "error": f"the line is not valid JSON: {error}"}
    if not isinstance(given, dict):
        return {**read, "error": 'the line is not a JSON object, such as {"id": "1", "text": "..."}'}
    read["id"] = given.get("id")
    try:
        return {**read, **_read(given, args)}
    except ProviderError as error:
        return {**read, "content": error.text, "finish": "error", "error": f"{type(error).__name__}: {error}"}
    except ToolcribError as error:
        return {**read, "error": str(error)}


_EMPTY: Mapping[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": "", "faults": [], "error": None}


def _read(given: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return the parsed reply. Raises ProviderError if the body is an error or not a reply, and ToolcribError for wrong input."""
    tools = given.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ToolcribError('"tools" must be a list of schemas: [{"name": "...", "parameters": {...}}]')
    flags = given.get("flags") or {}
    if not isinstance(flags, dict):
        raise ToolcribError('"flags" must be an object')
    if args.wire:
        return _of_turn(_read_body(args.wire, given.get("body", given.get("text")), stream=args.stream))
    text = given.get("text")
    if not isinstance(text, str):
        raise ToolcribError('"text" must be a string' if "text" in given else '"text" is missing; a "body" needs --wire')
    from agent.protocols import find_protocol
    from agent.protocols._profile import protocol_of, thinking_of

    family = given.get("format")
    family = family if isinstance(family, str) else ""
    protocol = protocol_of(family) if args.protocol == "auto" else find_protocol(args.protocol)
    reader = protocol.reader(tools, thinking=thinking_of(flags, family))
    reader.feed(text)
    truncated = bool(flags.get("truncated"))
    read = _of_reply(reader.finish(truncated=truncated))
    return {**read, "finish": "length"} if truncated else read


def _of_reply(reply: ParsedReply) -> dict[str, Any]:
    from agent.protocols._made import CUT_REPLY

    calls = [_call(call) for call in reply.calls if call.fault in (None, CUT_REPLY)]
    read: dict[str, Any] = {
        "content": reply.content,
        "reasoning": reply.reasoning,
        "calls": calls,
        "finish": "tool_calls" if calls else "stop",
        "faults": list(reply.faults),
        "error": reply.error or None,
    }
    return read if reply.value is None else {**read, "final": reply.value}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.args}


# -- bodies ------------------------------------------------------------------------------------------------------------


def _read_body(wire: str, body: Any, *, stream: bool) -> ProviderTurn:
    from agent.providers.sse import SseReader

    reader: Any = load(WIRES[wire].reader)()
    if isinstance(body, str):
        start = body.lstrip()[:1]
        if stream and start not in ("{", "["):
            sse = SseReader()
            reader.read_events(sse.feed(body.encode("utf-8", "surrogatepass")))
            reader.read_events(sse.close())
            return _turn(reader)
        try:
            body = json.loads(body)
        except (ValueError, RecursionError) as error:
            hint = "; for a stream of events, give --stream" if start and not stream else ""
            raise ToolcribError(f"the body is not valid JSON: {error}{hint}") from None
    if body is None:
        raise ToolcribError('"body" is missing')
    reader.read_body(body)
    return _turn(reader)


def _turn(reader: Any) -> ProviderTurn:
    turn: ProviderTurn = reader.finish()
    return turn


def _of_turn(turn: ProviderTurn) -> dict[str, Any]:
    return {
        "content": turn.assistant_text,
        "reasoning": turn.reasoning,
        "calls": [_call(call) for call in turn.tool_calls if call.fault is None],
        "finish": turn.finish,
        "faults": [f"{call.name or 'a call'}: {call.fault}" for call in turn.tool_calls if call.fault is not None],
        "error": None,
    }


# -- output for users --------------------------------------------------------------------------------------------------


def _show(read: Mapping[str, Any]) -> None:
    for title in ("reasoning", "content"):
        if read[title]:
            print(f"{title}:\n{_indented(read[title])}")
    for call in read["calls"]:
        print(f"call {_tame(call['name'])}:\n{_indented(json.dumps(call['arguments'], ensure_ascii=False, indent=2))}")
    for fault in read["faults"]:
        print(f"not run:\n{_indented(fault)}")
    if read["error"]:
        print(f"refused: {read['error']}")
    if not (read["calls"] or read["faults"]):
        print("no calls")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in _tame(text).splitlines())


def _tame(text: str) -> str:
    from agent.cli.escape import tame

    return tame(text)


def _stdin() -> bytes:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pass the output as TEXT")
    return sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8)
