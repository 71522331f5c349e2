"""Growth of the time to read a model's text with its length, for every text protocol.

One long text takes turns with ten short ones, which have as much text and take about as long. The best processor time of each
counts: the work is always the same, so any excess is disturbance. The largest of many figures is probably a disturbed one, so the
largest is measured again, several times.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks._wire_streams import WORDS
from benchmarks.core import CannotMeasureError, Figure, best_of_each, each

BAR = 12
PIECE = 12
"""Number of characters per delta: about three tokens."""
_AGAIN = 16
"""Number of repeated measurements of the largest figure."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"],
            },
        },
    }
]


def measure(*, quick: bool) -> list[Figure]:
    """Return the ms for 1 MB (10^6 characters) against 100 kB, for the protocol and kind of output whose time grows most."""
    from agent.protocols import NAMES

    size, rounds = (5_000, 1) if quick else (100_000, 2)
    found = [_Growth(name, what, output, size) for name in NAMES for what, output in _outputs(name).items()]
    for growth in found:
        growth.measure(rounds)
    for _ in range(1 if quick else _AGAIN):
        max(found, key=lambda growth: growth.ratio).measure(rounds)
    return [max(found, key=lambda growth: growth.ratio).figure()]


class _Growth:
    """Best seconds so far for a text of ``size`` and for ten times that."""

    def __init__(self, name: str, what: str, output: Callable[[int], str], size: int) -> None:
        self._what = f"{name}, {what}"
        self._runs = {
            "short": each(_read(name, output(size)), 10, time.process_time),
            "long": each(_read(name, output(10 * size)), 1, time.process_time),
        }
        self._best = {"short": math.inf, "long": math.inf}

    @property
    def ratio(self) -> float:
        return self._best["long"] / self._best["short"]

    def measure(self, rounds: int) -> None:
        took = best_of_each(self._runs, rounds)
        self._best = {name: min(seconds, took[name]) for name, seconds in self._best.items()}

    def figure(self) -> Figure:
        against = f"a tenth of the text; the worst: {self._what}"
        return Figure("text.linear", self._best["long"] * 1e3, "ms", self._best["short"] * 1e3, BAR, "ratio", against)


def _read(name: str, text: str) -> Callable[[], None]:
    from agent.protocols import find_protocol

    protocol = find_protocol(name)
    size = len(text)

    def run() -> None:
        reader, shown = protocol.reader(TOOLS), 0
        for at in range(0, size, PIECE):  # cut here: a list of all pieces would not fit into the processor's cache
            shown += len(reader.feed(text[at : at + PIECE]))
        reply = reader.finish()
        if not shown + len(reply.events) + len(reply.calls) + len(reply.content):
            raise CannotMeasureError(f"the protocol {name} read nothing of {text[:60]!r}...")

    return run


# -- outputs of a model --------------------------------------------------------------------------------------------------


def _outputs(name: str) -> Mapping[str, Callable[[int], str]]:
    """Return outputs by kind: one long call and many short ones. For ``auto``, which checks for all protocols, also incomplete
    calls.
    """
    call = _call_of(name)
    calls: dict[str, Callable[[int], str]] = {
        "one call": lambda size: call(_prose(size)),
        "many calls": lambda size: call("x" * 80) * (size // 160),
    }
    if name == "json_object":
        del calls["many calls"]  # it has one per reply
    if name != "auto":
        return calls
    return calls | {
        "text": _prose,
        "thinking": lambda size: f"<think>{_prose(size)}</think>Done.",
        "a call without end": lambda size: call(_prose(size))[:size],
        "halves of tags": lambda size: "<tool_cal <thin [TOOL @too { " * (size // 29),
    }


def _prose(size: int) -> str:
    words: Sequence[str] = random.Random(4).choices(WORDS, k=size // 3)
    return " ".join(words)[:size]


def _call_of(name: str) -> Callable[[str], str]:
    before, after = _FRAMES.get(name, _HERMES)

    def write(content: str) -> str:
        if name in _PLAIN:
            return before + content.replace("'", "").replace('"', "") + after
        return before + json.dumps({"path": "a.txt", "content": content}, ensure_ascii=False) + after

    return write


_HERMES = '<tool_call>\n{"name": "write_file", "arguments": ', "}\n</tool_call>\n"
_DEEPSEEK = "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>write_file<\uff5ctool\u2581sep\uff5c>"
_FRAMES = {
    "tags": ('<tool_call>{"name": "write_file", "args": ', "}</tool_call>\n"),
    "json_object": ('{"action": {"tool": "write_file", "args": ', "}}"),
    "command": ("@tool write_file ", "\n"),
    "qwen_xml": (
        "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n",
        "\n</parameter>\n</function>\n</tool_call>\n",
    ),
    "glm": (
        "<tool_call>write_file\n<arg_key>content</arg_key>\n<arg_value>",
        "</arg_value>\n</tool_call>\n",
    ),
    "gemma": ('<|tool_call>call:write_file{content:<|"|>', '<|"|>}<tool_call|>\n'),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>",
        "<|tool_call_end|><|tool_calls_section_end|>\n",
    ),
    "deepseek": (_DEEPSEEK, "<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"),
    "mistral": ("[TOOL_CALLS]write_file[ARGS]", ""),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="write_file">\n<parameter name="content">',
        "</parameter>\n</invoke>\n</minimax:tool_call>\n",
    ),
    "harmony": ("<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>", "<|call|>"),
    "pythonic": ("[write_file(path='a.txt', content='", "')]"),
    "llama_json": ('{"name": "write_file", "parameters": ', "}"),
    "granite": ('<|tool_call|>[{"name": "write_file", "arguments": ', "}]<|/tool_call|>\n"),
}
_PLAIN = frozenset({"qwen_xml", "glm", "gemma", "minimax", "pythonic"})
"""Protocols whose arguments are not JSON."""
