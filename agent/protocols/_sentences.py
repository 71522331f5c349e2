"""Sentences before a call that forbid it or introduce an example. Only English is recognised: docs/adr/0022 explains why."""

from __future__ import annotations

import re

LOOKED_BACK = 300
"""Number of characters before a call that are searched for its sentence."""
_VERB = re.compile(
    r"(?:writ|us|typ|produc|execut|invok|issu|mak|includ|past|generat|giv)(?:e|ing)"
    r"|(?:send|call|emit|output|print|run|do|say|post|put|answer|reply|respond|return|submit|repeat|add|copy|recommend|mean)(?:[tn]?ing)?"
)
_PARTICIPLE = re.compile(r"written|given|made|done|said|run|sent|put|output|\w{2,9}ed")
_LINKS = frozenset(
    ", ever even just simply please again be being to from need have want try going dare allowed supposed permitted you i"
    " we one anyone people users models should must may can shall will directly also actually yet way let circumstances account"
    " case any under at all".split()
)
"""Words that may be between a negation and its verb."""
_OBJECTS = frozenset(
    ", ( out back down with me us them ever again here now anything something text like such as a an any the this that"
    " these those it following tool function call calls tag tags block blocks xml json form format markup message messages"
    " in your my our reply replies answer answers command commands line lines one ones below exactly literally verbatim"
    " please to way kind of all or and at".split()
)
"""Words that may be between a verb and the call as its object. Any other word gives the verb its own object."""
_POINTERS = frozenset("this these following such call calls tag tags".split())
_PLACES = frozenset("in on at for when if unless until before without while because during under inside".split())
_BEGINS = frozenset(", ( please you i we one us and but so then just also to always".split())
_MODALS = frozenset("must should shall sha may might ought need".split())
_AUXILIARIES = frozenset("do can ca will wo would could".split())
_AVOIDS = frozenset("avoid skip omit beware".split())
_REASONS = frozenset("reason need point use".split())
_NOES = frozenset("no refuse refrain forbidden prohibited wrong illegal unsafe dangerous mistake error".split())
_OTHERS = frozenset("you one user users people model models they would how way".split())
_SHOWS = re.compile(
    r"\b(?:for (?:example|instance)|to illustrate|such as|like (?:this|so)|looks?(?: \w+)? like(?: that)?"
    r"|(?:calls?|tags?|form|format|reply|answer|message|it|that|this|which) would (?:then )?be"
    r"|(?:form|format|syntax|template|pattern|notation|markup) (?:is|was|should be)"
    r"|says?|(?<!\bas i )(?<!\bas you )said|reads|wrote|writes|contain(?:s|ed)|shows|states|it printed):?\Z"
    r"|(?:\A|\ban? |\banother |\bone |\bthis )(?:\w+ )?(?:examples?|samples?|illustrations?|demos?|counterexamples?|anti pattern"
    r"|syntax|shape)(?: (?:of|such|a|call|calls|tool|is|are|how|to|use))*:?\Z|\bfake (?:tool )?calls?:?\Z"
    r"|\b(?:ignore|disregard)(?: (?:the|this|these|that|all|any|of|following|tool|calls?))*:?\Z"
    r"|\A(?:wrong|bad|incorrect|correct|invalid|forbidden|dangerous|usage|syntax|format|template|quote|output|result|log|consider):\Z"
)
_MEANS = re.compile(
    r"(?<!if )\b(?:i|we|let (?:me|us))\b(?! (?:would|could|might|said|wrote|quote))(?!.*\b(?:show|demonstrate|quote|give)\b)"
)
"""Words that announce the model's next step: after them, a call that follows ``like this`` is meant."""
_ABBREVIATED = re.compile(r"\b(?:e\.\s?g|i\.\s?e)\.[\s,:(]*\Z|\[\^[^\]\n]+\]:\Z", re.IGNORECASE)
"""The end of ``e.g.``, ``i.e.`` and of a footnote's mark."""
_ASIDE = re.compile(r"\s*\([^()\n]*\)\Z")
_SENTENCE, _CLAUSE = re.compile(r"(?<=[.!?\u2026])\s+|\n\s*\n"), re.compile(r"[;:]\s")
_WORD = re.compile(r"[a-z]+|[,(\n]")
_SHORT = (("\u2019", "'"), ("n't", " not"), ("cannot", "can not"), ("dont ", "do not "), ("'d ", " would "), ("let's", "let us"))
_WORDS, _GOES_ON = re.compile(r"\w\W+\w|[^\x00-\x7f]"), re.compile(r"[\w,;=+&/(\u2013\u2014-]\Z")
_ITEM = re.compile(r"(?:\A|\n)[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t][^\n]*\Z")


def is_half(before: str, blanks: str) -> bool:
    """Return whether the text before a call, separated from it by ``blanks``, ends within a sentence.

    On the call's own line, a sentence that announces the model's next step counts as complete.
    """
    lines = blanks.count("\n")
    if not blanks or before.endswith("```") or (lines > 1 and _ITEM.search(before)):
        return not blanks and before.endswith("(")
    text = before.rstrip("\"'\u201d\u2019\u00bb)]}*_`")
    sentence = _SENTENCE.split(text)[-1]
    if not (_GOES_ON.search(text) and _WORDS.search(sentence)):
        return False
    return lines > 0 or _MEANS.search(sentence.lower()) is None


def covers(text: str) -> bool:
    """Return whether the sentence before a call forbids it, or introduces it as an example."""
    text = text.rstrip(" \t\n\"'(*_`>\u2013\u2014-")
    if text.endswith("?") or _ABBREVIATED.search(text):
        return not text.endswith("?")
    sentence = _SENTENCE.split(_ASIDE.sub("", text.rstrip(".!\u2026:;, ")))[-1].lower()
    for short, words in _SHORT:
        sentence = sentence.replace(short, words)
    clause = [word.replace("\n", ",") for word in _WORD.findall(_CLAUSE.split(sentence)[-1])]
    means = _MEANS.search(sentence) is not None
    if text.endswith((".", "!", "\u2026")):
        if means or _POINTERS.isdisjoint(clause):
            return False  # the sentence may forbid something else
    elif not means and "what" not in clause and _SHOWS.search(" ".join(filter(str.isalpha, clause)) + ":" * text.endswith(":")):
        return True
    if clause[:1] and clause[0] in _AVOIDS and _OBJECTS.issuperset(clause[1:]):
        return True
    parts = ((clause[:at], clause[at:]) for at in range(len(clause) + 1))
    return any(
        _lacks_object(verb) and (_is_negated(head, verb) or (not means and _is_others(head, verb))) for head, verb in parts
    )


def _lacks_object(words: list[str]) -> bool:
    """Return whether the last words of a clause are a verb whose object is the call; True if there are no words."""
    if not words:
        return True
    if not (_VERB.fullmatch(words[0]) or _PARTICIPLE.fullmatch(words[0])):
        return False
    pointed = (at for at, word in enumerate(words) if word in _PLACES and not _POINTERS.isdisjoint(words[:at]))
    end = next(pointed, len(words))
    return _OBJECTS.issuperset(words[1 : len(words) if "," in words[end:] else end])


def _is_negated(before: list[str], verb: list[str]) -> bool:
    """Return whether the words before a verb, or before the call itself, negate it."""
    size = len(before)
    while size and before[size - 1] in _LINKS:
        size -= 1
    linked = before[size:]
    third, second, last = ["", "", "", *before[:size]][-3:]
    if verb and not _VERB.fullmatch(verb[0]) and linked[-1:] not in (["be"], ["being"]):
        return False  # it reports a past action
    if last in ("avoid", "against", "stop", "nobody"):
        return (bool(verb) and verb[1:] != ["it"]) or last in ("avoid", "against")
    if last in _REASONS and second == "no":
        return bool(verb)
    if last in _NOES:
        return bool(verb and linked)
    if last in ("of", "than"):
        return second in ("instead", "rather") and len(verb) < 2
    if last == "never":
        return not second or second in _BEGINS | _MODALS | _AUXILIARIES
    if last != "not":
        return False
    if second in _AUXILIARIES:
        return not third or third in _BEGINS
    return second in _MODALS or second in ("", ",", "(", "and", "but", "us", "rather") or "to" in linked


def _is_others(before: list[str], verb: list[str]) -> bool:
    """Return whether the verb describes what others write, or what the model would write."""
    near = before[-2:]
    if not verb or not _VERB.fullmatch(verb[0]):
        return False
    if verb[0] in ("write", "type", "say", "emit") and near[-1:] in ([], [","], ["please"], ["just"]):
        return verb[1:] != ["it"]
    if near[-1:] in (["could"], ["might"]) and near[0] not in ("i", "we"):
        return True
    return "," not in near and not _OTHERS.isdisjoint(near)
