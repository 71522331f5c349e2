"""A scripted model for long conversations: it works with tools, takes notes on request, and searches for forgotten
facts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.week_facts import Fact
from tests.fuzz.window_server import Said

MOST_LOOKS = 8
"""Number of search calls before it answers that it does not know."""
_TAG = re.compile(r"§(\d+)")
_WORDS = (
    "the staging database and its port were looked at again, nothing new; the deployment went ahead as planned, the ledger has"
    " its rows; a cache, a flag, a backup, a build, some tests that fail now and then, and what the customer said about the"
    " window of last week"
).split()


@dataclass
class Task:
    """The model's actions for a message of the user: turns of calls, then an answer. ``fact`` is the requested fact."""

    turns: Sequence[Sequence[tuple[str, Any]]] = ()
    answer: str = "Done."
    fact: Fact | None = None
    done: int = 0
    looks: list[str] = field(default_factory=list)
    found: str = ""
    """Source of the answer: ``memory``, ``context`` or ``search``; "" if it was not found."""


class WeekModel:
    """Answers requests by the tag of the user's last message. ``turns`` counts its replies."""

    def __init__(self, chance: random.Random) -> None:
        self.tasks: dict[int, Task] = {}
        self.turns = 0
        self.summaries = 0
        self._chance = chance

    def task(self, task: Task) -> str:
        """Register a task, and return the tag that the user's message must begin with."""
        number = len(self.tasks) + 1
        self.tasks[number] = task
        return f"§{number}"

    def __call__(self, sent: Mapping[str, Any]) -> Said:
        self.turns += 1
        task = self.tasks[self._tag(sent)]
        if task.fact is not None:
            return self._looked_up(task, task.fact, sent["messages"])
        task.done += 1
        return task.answer if task.done > len(task.turns) else list(task.turns[task.done - 1])

    def _tag(self, sent: Mapping[str, Any]) -> int:
        """Return the number of the message to answer: the last one in the user's messages."""
        for message in reversed(sent["messages"]):
            if message["role"] == "user" and (found := _TAG.findall(_text(message))):
                return int(found[-1])
        raise AssertionError("the person's last message is not in the request")

    # -- remembering ---------------------------------------------------------------------------------------------

    def _looked_up(self, task: Task, fact: Fact, messages: Sequence[Mapping[str, Any]]) -> Said:
        """Answer, or search further: first the context, then by queries, then around their hits."""
        place = next((number for number, one in enumerate(messages) if fact.value in _text(one)), None)
        if place is not None:
            looked = bool(task.looks)
            task.found = "memory" if messages[place]["role"] == "system" else "search" if looked else "context"
            return f"It is {fact.value}."
        if len(task.looks) >= MOST_LOOKS:
            return "I can't find that; please say it again."
        call = self._next_look(task, fact, messages[-1])
        task.looks.append(json.dumps(call[1], ensure_ascii=False))
        return [call]

    def _next_look(self, task: Task, fact: Fact, last: Mapping[str, Any]) -> tuple[str, Any]:
        searched = sum('"query"' in look for look in task.looks)
        hits = _hits(last) if task.looks and '"query"' in task.looks[-1] else []
        for hit in hits[:3]:  # a snippet showed too little: read its surroundings
            around = {"session": hit["session"], "around": hit["place"]}
            if json.dumps(around, ensure_ascii=False) not in task.looks:
                return "session_search", around
        query = fact.queries[searched % len(fact.queries)]
        return "session_search", {"query": query, **({"order": "best"} if searched >= len(fact.queries) else {})}

    # -- words ---------------------------------------------------------------------------------------------------

    def summary(self, text: str) -> str:
        """Return a summary as short as models write them: it omits most of the text. Now and then it is empty."""
        self.summaries += 1
        if self.summaries % 25 == 0:
            return ""
        return f"They worked on several files; {self.prose(self._chance.randint(50, 300))}"

    def prose(self, words: int) -> str:
        """Return ``words`` words of the vocabulary that facts use too."""
        return " ".join(self._chance.choice(_WORDS) for _ in range(words)) + "."


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _hits(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        found = json.loads(_text(message))
    except ValueError:
        return []
    return list(found.get("hits", ())) if isinstance(found, dict) else []
