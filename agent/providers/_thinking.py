"""The guess, before a model's first reply in text, whether its prompt opens a thinking block that the reply only closes."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from toolcrib.contract.session import Thinking

_FAMILIES = Regex(
    r"(?<![a-z0-9])(r1|or1|o1)(?![a-z0-9])|qwq|think|reason|magistral|exaone-?deep|nemotron|minimax-?m[12]|mimo"
    r"|qwen-?3\.[5-9]|glm-?(4\.[7-9]|5)|kimi-?k2\.[5-9]|step-?3\.[5-9]|(?<![a-z0-9])ring-",
    re.IGNORECASE,
)
"""Models whose templates open a thinking block, by what their makers and those who publish variants call them."""

_NOT_THINKING = Regex(r"(non?|without)[-_.]?(think|reason)", re.IGNORECASE)

_OPENED = Regex(
    r"(?:<(?:[\w|:]*think\w*|thought|reasoning)>|\[THINK\]|<\|START_THINKING\|>)"
    r"(?!(?:\s|\\n)*(?:</|\[/THINK\]|<\|END_THINKING\|>))"
)
"""A thinking block that is opened, and not closed at once, as it is where thinking is turned off."""

_TAIL = 400
"""Characters at the end of a template in another language than Jinja that may be the beginning of a reply."""


def expected_thinking(model: str, *, opens: bool = False) -> Thinking:
    """Return the state of the thinking block before the first reply. ``opens`` is what ``opens_thinking`` says of its template.

    With "maybe" the whole first reply is held back; with "unlikely" it is shown as it comes.
    """
    if opens or (_FAMILIES.search(model) and not _NOT_THINKING.search(model)):
        return "maybe"
    return "unlikely"


def opens_thinking(template: object) -> bool:
    """Return True if a chat template's beginning of a reply opens a thinking block. The template is searched, never run."""
    if not isinstance(template, str):
        return False
    _, found, prompt = template.rpartition("add_generation_prompt")
    return _OPENED.search(prompt if found else template[-_TAIL:]) is not None
