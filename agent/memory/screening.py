"""Screening of notes: reject texts that would act as instructions when a later session reads them as the agent's own notes.

A note outlives its conversation, and no user watches when it is read. The list of phrases is short on purpose: it has only
phrases that no honest note contains. Accepted notes grant nothing, because the approval gate never reads notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.memory.skeleton import disguised, forms
from agent.memory.unseen import unseen_in
from toolcrib.contract.regex import Regex
from tools.judge.characters import written

_PASSWORD = Regex(r"://[^\s/@:]{1,200}:[^\s@/]{1,200}@")
_RULES = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|messages?|guardrails?)"
_PERSON = r"(?:the |your |its |our )?(?:user|person|human|owner|operator)"
_MARKS = "it has marks of a prompt's format"
_INSTEAD = "note facts, not instructions from a text"
_SHOWN = 40
_TURN = Regex(
    r"^[ \t>+-]*(?:human|assistant)[ \t]?:"
    r"|^[ \t>+-]*#{2,4}[ \t]?(?:instructions?|response|input|system|human|assistant|user)[ \t]?:",
    re.MULTILINE,
)
"""Beginnings of turns in prompts without special tokens."""
_ROLE = Regex(r"^[ \t>+-]*(?:user|system|developer|ai|model|bot)[ \t]?:", re.MULTILINE)
"""Words that begin a turn in prompts without special tokens; a single one may be in an honest note."""
_INJECTED: tuple[tuple[str, Regex[str]], ...] = (
    (
        "it says to ignore instructions",
        Regex(
            r"\b(?:ignore|disregard|forget|override|overrule)\s+"
            r"(?:(?:all|any|every|each|the|your|these|those|of|my|its|other)\s+){0,4}"
            rf"(?:previous|prior|above|earlier|preceding|existing|system|former|foregoing|initial|original)\s+(?:\w+\s+){{0,2}}{_RULES}"
        ),
    ),
    (
        "it gives new instructions instead of the current ones",
        Regex(
            rf"\b(?:new|updated|revised|real|actual|hidden|secret)\s+(?:system\s+)?{_RULES}\s*:"
            r"|\bsystem\s+(?:prompt|message)\s*:"
        ),
    ),
    (
        _MARKS,
        Regex(
            r"<\s?\|[^<>|\n]{1,40}\|\s?>|<<?/?sys>?>|</s>"
            r"|\[/?(?:inst|system_prompt|available_tools|tool_(?:calls|results|content))\]"
            r"|</?(?:start|end|begin)[_ -]?(?:of|header)[_ -]?(?:turn|text|message|sentence|id)?>|<(?:bos|eos|pad|unk)>"
            r"|</?(?:system|assistant|human|instructions?|notes|memory|tool_?(?:call|result|use)s?|function_?(?:call|result)s?"
            r"|invoke|think)\b[^>\n]{0,40}>"
        ),
    ),
    (
        "it says to hide something from the user",
        Regex(
            r"\b(?:do not|don'?t|never|without)\s+(?:tell|inform|alert|notify|notifying|warn|mention)(?:ing)?"
            rf"(?:\s+(?:it|this|that|anything|about this))?(?:\s+to)?\s+{_PERSON}\b"
            rf"|\b(?:hide|conceal|keep)\s+(?:it|this|that)\s+(?:secret\s+)?from\s+{_PERSON}\b"
        ),
    ),
    (
        "it says to bypass approvals or checks",
        Regex(
            r"\b(?:bypass|circumvent|evade|subvert|defeat)\s+(?:(?:all|any|the|every|its|toolcrib'?s?)\s+){0,3}"
            r"(?:approvals?|approval gates?|gates?|judges?|confirmations?|guardrails?|safety|sandbox|plan mode)\b"
            r"|\b(?:all|every|any)\s+(?:commands?|calls?|tools?|actions?)\s+(?:is|are|has been|have been)\s+"
            r"(?:already\s+|pre-?)?approved\b"
        ),
    ),
    (
        "it changes the agent's role",
        Regex(
            r"\byou (?:are|have been) (?:now |no longer )?(?:jailbroken|unrestricted|uncensored|unfiltered|bound by)\b"
            r"|\b(?:act|behave|respond) as an? (?:unrestricted|uncensored|unfiltered|jailbroken)\b"
            r"|\b(?:god|dan|jailbreak) mode (?:is )?(?:on|enabled|activated)\b|\bdo anything now\b"
        ),
    ),
    (
        "it says to reveal secrets or the prompt",
        Regex(
            r"\b(?:send|post|upload|forward|exfiltrate|e-?mail|leak|transmit)\s+(?:\w+[\s,]+){0,6}?"
            r"(?:api[ _-]?keys?|tokens?|passwords?|credentials|secrets|private keys?|ssh keys?|\.env)\b(?:\s+\w+){0,4}?\s+to\b"
            r"|\b(?:reveal|print|repeat|output|leak|recite)\s+(?:your|the)\s+(?:entire |whole |full |hidden )?system prompt\b"
            r"|\b(?:curl|wget|nc|ncat)\b[^\n]{0,200}\$\{?\w*(?:key|token|secret|password|credential)"
        ),
    ),
)


def why_not(text: str, redact: Callable[[str], str] = str) -> str:
    """Return why a text is rejected, for models and users; "" if it is accepted.

    ``redact`` removes known secrets from a text.
    """
    hidden = unseen_in(text)
    if hidden:
        return f"it has an invisible character ({written(text[min(hidden)])}); remove it"
    if word := disguised(text):
        return f"it has look-alike letters of another script in a Latin word ({word[:_SHOWN]}); use Latin letters"
    if redact(text) != text:
        return "it has a secret; note its location instead"
    for form in forms(text):
        line = " ".join(form.split())
        if _PASSWORD.search(line):
            return "it has an address with a password; note its location instead"
        if _TURN.search(form) or len(_ROLE.findall(form)) > 1:
            return f"{_MARKS}; {_INSTEAD}"
        for why, found in _INJECTED:
            if found.search(line):
                return f"{why}; {_INSTEAD}"
    return ""
