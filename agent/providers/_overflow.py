"""Recognises a server's refusal of a conversation that is too long.

Its text has a known phrase; or a word such as ``tokens`` or ``prompt``, a word for a limit, and a number.
"""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex

_KNOWN = Regex(
    r"context[_ ](length|window|size|limit)|context_overflow|maximum prompt length|(prompt|input)[_ ](is )?too[_ ]long"
    r"|(input|prompt) token count|too many (input )?tokens|reduce the length of|exceeds? the maximum number of tokens"
    r"|longer than the (model's )?(maximum )?context|inputs` tokens \+|context the overflows|tokens?\b.{0,60}too large for model"
    r"|tokens?\b.{0,40}\bexceeds? (the )?(model|max|limit)|\b(prompt|input)s? (length )?exceeds?\b|tokens?_limit_(exceed|reach)"
    "|\u8d85\u957f|\u8d85\u8fc7.{0,12}(\u957f\u5ea6|\u4e0a\u4e0b\u6587|token)",  # "too long", "exceeds ... length, context"
    re.IGNORECASE,
)
_SUBJECT = Regex(r"\btokens?\b|\bprompts?\b|\binputs?\b(?! should)|\bcontext\b|\bconversation\b", re.IGNORECASE)
_LIMIT = Regex(
    r"exceed|\bmax(imum)?\b|limit|\brange\b|too (long|large|many|big)|(long|larg|great|few)er than|(less|more) than|at most|up to"
    r"|[<>]=?|must be (under|below)",
    re.IGNORECASE,
)
_NUMBER = Regex(r"(?<![\w.-])\d{1,3}(,?\d{3})+(?![\w-])")
_OUTPUT = Regex(
    r"max_?(\w{1,20}_)?tokens|(output|completion|generated|thinking|reasoning|budget|new)[_ ]tokens?"
    r"|maximum tokens (value|you requested)",
    re.IGNORECASE,
)
"""Words about a limit of the reply's length. A shorter conversation would not help."""
_ABOUT_OUTPUT = Regex(r"\W{0,3}(invalid |the )?\W?max_?(\w{1,20}_)?tokens\b", re.IGNORECASE)
_OF_REQUEST = Regex(r"\b(input|prompt|messages|requested|request has)\b", re.IGNORECASE)
_PART = Regex(r"\b(tools?|functions?|metadata|stop|response_format)[.\[]", re.IGNORECASE)
_OTHER = Regex(
    r"\b(images?|pictures?|audio|videos?|pdf|files?|documents?|attachments?|pixels?|bytes|[KMG]i?B|characters in the name|quota"
    r"|balance|billing|credits?)\b",
    re.IGNORECASE,
)
_STRING = Regex(r"string_above_max_length|string[ _]too[ _]long", re.IGNORECASE)
_CONTENT = Regex(r"\b(messages|input)\b(\W*\d+\W*(content|text|output|arguments)\b|[\w.\[\]]*(content|text|output)\b|['\"`]?:)")
_LARGER = Regex(
    r"\btokens?\b.{0,80}\blimit:? ?(\d[\d,]*)\D{0,20}(?:\bused:? ?\d[\d,]*\D{0,20})?\brequested:? ?(\d[\d,]*)",
    re.IGNORECASE | re.DOTALL,
)
"""Matches the numbers in a refusal for a rate limit. If ``requested`` exceeds ``limit``, waiting does not help."""
_TOO_MANY = 429
_TOO_LARGE = 413
_NO_OVERFLOW = (401, 402, 403, 429)


def is_overflow(status: int, marks: str, said: str, *, structured: bool) -> bool:
    """Return whether a server refused a conversation because it is too long.

    ``marks`` are the error's codes and the parameter that it names, ``said`` its text. ``structured``: both come from an error
    object. A 413 without one comes from a proxy, which limits the bytes of a request, not the conversation.
    """
    if status == _TOO_MANY and (found := _LARGER.search(said)):
        limit, requested = (int(number.replace(",", "")) for number in found.groups())
        return requested > limit > 0
    if status in _NO_OVERFLOW:
        return False
    if _STRING.search(f"{marks} {said}"):
        return _CONTENT.search(f"{marks} {said}") is not None
    if _PART.search(f"{marks} {said}") or (_ABOUT_OUTPUT.match(said) and not _OF_REQUEST.search(said)):
        return False
    rest = _OUTPUT.sub("", said)
    if _KNOWN.search(marks) or _KNOWN.search(rest):
        return True
    if _OTHER.search(rest) and "token" not in rest.lower():
        return False
    if status == _TOO_LARGE and structured:
        return True
    return all(one.search(rest) for one in (_SUBJECT, _LIMIT, _NUMBER))
