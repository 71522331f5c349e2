"""A model for conversations that are killed: its replies follow from its requests, so that any process can continue.

Its turns are numbered, and all of its replies contain the number: the next turn follows the highest number in a request. Each
call has its own tag, which identifies its effects.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz.window_server import Said, WindowServer
from toolcrib._testing_server import Response, _delta

WINDOW = 12_000
"""Size of the window in tokens: a few large results fill it."""
LARGE = 7_000
"""Number of characters in a large result."""
DELEGATE = "You are a delegate:"
PLUGIN = '''
"""Tools whose effect is a line in a file: one done twice is seen."""
import os, time
from pathlib import Path
from toolcrib import WritesFile, hookimpl

TEXT = {"type": "string"}
SCHEMA = {
    "description": "d",
    "parameters": {"properties": {"tag": TEXT, "size": {"type": "integer"}, "wait": {"type": "number"}}, "required": ["tag"]},
}

def handler(log):
    def write(args):
        time.sleep(args.get("wait", 0) / 2)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, (args["tag"] + "\\n").encode())
        os.close(descriptor)
        time.sleep(args.get("wait", 0) / 2)
        return {"tag": args["tag"], "text": "word " * (args.get("size", 0) // 5)}
    return write

@hookimpl
def register_tools(registry):
    project = Path(os.environ["KILLS_PROJECT"])
    once, often = handler(project / "log"), handler(project / "repeated")
    registry.register("note", "kills", SCHEMA, once, parallel_safe=True)
    registry.register("look", "kills", SCHEMA, often, parallel_safe=True, repeatable=True)
    hook = lambda args, ctx: [WritesFile(str(project / ".git" / "hooks" / args["tag"]))]  # which a person is asked about
    registry.register("mark", "kills", SCHEMA, once, kind="edit", effects=hook)
'''

Calls = Sequence[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Turn:
    """A reply: its calls, or none for an answer, which ends the run."""

    calls: Calls = ()


def tag_of(name: str, args: Any) -> str:
    """Return the tag of a call, as its effect contains it, or "" for one without."""
    if not isinstance(args, dict):
        return ""
    text = str(args.get("tag") or args.get("task") or args.get("command") or args.get("path") or args.get("content") or "")
    found = re.search(r"turn-\d+\.\d+(-d\d+\.\d+)?", text)
    return found[0] if found else ""


class KillPlan:
    """The turns of a conversation, drawn with its random generator."""

    def __init__(self, chance: random.Random, tasks: int) -> None:
        self._chance = chance
        self.turns: list[Turn] = []
        for _ in range(tasks):
            for _ in range(chance.randint(1, 3)):
                kind = chance.choice([self._parallel, self._parallel, self._mixed, self._asks, self._delegates, self._delegates])
                self.turns.append(Turn(kind(len(self.turns))))
            self.turns.append(Turn())
        self.unique = chance.random() < 0.5
        """If False, call ids begin again in each reply, as on some servers."""
        self.delegated = [self._delegate(place) for place in range(8)]
        """Actions of delegates, by the number of the call that started them: the names of the calls in each of their turns."""

    def _note(self, number: int, place: int, name: str = "") -> tuple[str, dict[str, Any]]:
        chance = self._chance
        size = LARGE if chance.random() < 0.4 else 40
        args = {"tag": f"turn-{number}.{place}", "size": size, "wait": round(chance.choice([0.0, chance.uniform(0, 0.15)]), 3)}
        return name or chance.choice(["note", "note", "look"]), args

    def _parallel(self, number: int) -> Calls:
        return [self._note(number, place) for place in range(self._chance.randint(2, 4))]

    def _mixed(self, number: int) -> Calls:
        tag = f"turn-{number}"
        made: list[tuple[str, dict[str, Any]]] = [
            ("terminal", {"command": f"echo {tag}.0 >> log; sleep 0.1"}),
            self._note(number, 1),
            ("write_file", {"path": f"{tag}.2", "content": f"{tag}.2\n" * 2_000}),
            ("memory", {"action": "add", "target": "memory", "content": f"Remember {tag}.3."}),
        ]
        return [one for one in made if self._chance.random() < 0.7] or made[:1]

    def _asks(self, number: int) -> Calls:
        return [self._note(number, place, self._chance.choice(["mark", "mark", "note"])) for place in range(3)]

    def _delegates(self, number: int) -> Calls:
        calls: list[tuple[str, dict[str, Any]]] = []
        for place in range(self._chance.randint(1, 3)):
            order = {"task": f"delegate turn-{number}.{place}", "background": self._chance.random() < 0.5}
            calls.append(("delegate_task", order))
        return [*calls, self._note(number, 3)] if self._chance.random() < 0.5 else calls

    def _delegate(self, place: int) -> list[list[str]]:
        names = ["note", "note", "look", "terminal", *(["mark"] if place == 1 else [])]
        return [
            [self._chance.choice(names) for _ in range(self._chance.randint(1, 2))] for _ in range(self._chance.randint(1, 2))
        ]


class KillServer(WindowServer):
    """A server that calls ``progress`` when a request arrives, and again when its reply is sent."""

    def __init__(self, plan: KillPlan, chance: random.Random, progress: Callable[[], None]) -> None:
        super().__init__(WINDOW, self._answer, self._summary)
        self.plan = plan
        self.faults: list[str] = []
        """Faults of the requests."""
        self.told: dict[str, str] = {}
        """Complete results in requests, by the tag of their call."""
        self._chance = chance
        self._progress = progress
        self._guard = threading.Lock()

    def _posted(self, path: str, headers: dict[str, str], sent: Any) -> Response:
        self._progress()
        with self._guard:
            try:
                self._check(sent.get("messages", ()))
                return super()._posted(path, headers, sent)
            finally:
                self._progress()

    def _reply(self, said: Said, tokens: int) -> Response:
        how: dict[str, Any] = {"delay": self._chance.uniform(0, 0.03), "pieces": 400, "pause": self._chance.uniform(0, 0.01)}
        text, calls = (said, []) if isinstance(said, str) else (f"turn-{tag_of(*said[0])[5:].partition('.')[0]}", said)
        chunks = [_delta({"content": text[at : at + 9]}) for at in range(0, len(text), 9)]
        for place, (name, args) in enumerate(calls):
            number = f"call-{tag_of(name, args)}" if self.plan.unique else f"call_{place}"
            function = {"name": name, "arguments": json.dumps(args)}
            chunks.append(_delta({"tool_calls": [{"index": place, "id": number, "type": "function", "function": function}]}))
        usage = {"prompt_tokens": tokens, "completion_tokens": len(json.dumps(said)) // 4}
        ends = _delta({}, "tool_calls" if calls else "stop")
        return self.stream(*chunks, ends, {"object": "chat.completion.chunk", "choices": [], "usage": usage}, **how)

    def _answer(self, sent: dict[str, Any]) -> Said:
        messages = sent["messages"]
        if DELEGATE in str(messages[0]["content"]):
            return self._delegates_answer(messages)
        number = _last_turn([one for one in messages if one["role"] != "system"]) + 1
        turns = self.plan.turns
        return list(turns[number].calls) or f"turn-{number} is done" if number < len(turns) else f"turn-{number} is done"

    def _delegates_answer(self, messages: Sequence[dict[str, Any]]) -> Said:
        task = next(str(one["content"]) for one in messages if one["role"] == "user")
        tag = tag_of("", {"task": task})
        plan, done = self.plan.delegated[int(tag.rpartition(".")[2])], sum(bool(one.get("tool_calls")) for one in messages)
        if done >= len(plan):
            return f"{tag} was done"
        calls: list[tuple[str, dict[str, Any]]] = []
        for place, name in enumerate(plan[done]):
            own = f"{tag}-d{done}.{place}"
            calls.append((name, {"command": f"echo {own} >> log"} if name == "terminal" else {"tag": own, "wait": 0.05}))
        return calls

    def _summary(self, text: str) -> Said:
        return f"They did all of turn-{_last_turn([text])}."

    def _check(self, messages: Sequence[dict[str, Any]]) -> None:
        """Check that each call has exactly one result, right after it and in order, and that earlier results have not changed."""
        waiting: list[tuple[str, str]] = []
        for one in messages:
            if one["role"] == "tool":
                number, tag = waiting.pop(0) if waiting else ("no call", "")
                if one["tool_call_id"] != number:
                    self.faults.append(f"a request has a result of {one['tool_call_id']} where that of {number} belongs")
                    return
                self._same(tag, str(one["content"]))
                continue
            if waiting:
                self.faults.append(f"a request has no result of {[number for number, _ in waiting]}")
                return
            calls = one.get("tool_calls") or ()
            read = [(call["id"], call["function"]) for call in calls]
            waiting = [(number, tag_of(what["name"], json.loads(what["arguments"]))) for number, what in read]
        if waiting:
            self.faults.append(f"a request has no result of {[number for number, _ in waiting]}")

    def _same(self, tag: str, text: str) -> None:
        if tag and '"left_out"' not in text and self.told.setdefault(tag, text) != text:
            self.faults.append(f"the result of {tag} was {self.told[tag][:80]!r}, then as {text[:80]!r}")


def _last_turn(said: object) -> int:
    return max(map(int, re.findall(r"turn-(\d+)", json.dumps(said))), default=-1)
