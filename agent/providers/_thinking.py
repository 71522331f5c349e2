"""Guesses, before the first reply in a text protocol, whether the prompt opens a thinking block that the reply only closes."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from toolcrib.contract.session import Thinking

_FAMILIES = Regex(
    r"(?<![a-z0-9])(r1|or1|o1)(?![a-z0-9])|qwq|think|reason|magistral|exaone-?deep|nemotron|minimax-?m[12]|mimo"
    r"|qwen-?3\.[5-9]|glm-?(4\.[7-9]|5)|kimi-?k(2\.[5-9]|[3-9])|apriel|iquest|k2-?horizon"
    r"|step-?3\.[5-9]|(?<![a-z0-9])ring-",
    re.IGNORECASE,
)
"""Parts of names of models whose templates open a thinking block, as their makers and the publishers of variants write them."""

_NOT_THINKING = Regex(r"(non?|without)[-_.]?(think|reason)", re.IGNORECASE)

_OPENED = Regex(
    r"(?:<(?:[\w|:]*think[\w:]*|thought|reasoning)>|\[THINK\]|<\|START_THINKING\|>|<\|open\|>think<\|sep\|>"
    r"|Here are my reasoning steps:)"
    r"(?!(?:\s|\\n)*(?:</|\[/THINK\]|<\|END_THINKING\|>))"
)
"""A thinking block that is opened and not closed at once. A template closes it at once if thinking is off."""

_TAIL = 400
"""Characters at the end of a non-Jinja template that may be the beginning of a reply."""


def expected_thinking(model: str, *, opens: bool = False) -> Thinking:
    """Return the state of the thinking block before the first reply. ``opens``: the result of ``opens_thinking``.

    With "maybe" the whole first reply is held back; with "unlikely" it is shown as it arrives.
    """
    if opens or (_FAMILIES.search(model) and not _NOT_THINKING.search(model)):
        return "maybe"
    return "unlikely"


def opens_thinking(template: object) -> bool:
    """Return whether a chat template begins a reply with a thinking block. The template is searched, never run."""
    if not isinstance(template, str):
        return False
    _, found, prompt = template.rpartition("add_generation_prompt")
    return _OPENED.search(prompt if found else template[-_TAIL:]) is not None
