"""Find the author of a mail, check that the operator's own server confirms the author's domain, and detect automatic mail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.message import Message

from toolcrib.contract.regex import Regex

_FIELD = 2_000
"""Maximum length of a header field in characters; a longer one counts as missing. Authentication-Results may be longer."""
_ADDRESS = r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-zA-Z0-9-]{1,63}(?:\.[a-zA-Z0-9-]{1,63}){0,8}"
_BARE = Regex(rf"\s*({_ADDRESS})\s*\Z")
_NAMED = Regex(rf"([^<>,;:]*)<\s*({_ADDRESS})\s*>\s*\Z")
_QUOTED = Regex(r'"(?:[^"\\]|\\.)*"')
_OPAQUE = "\ufffd"
"""Replaces quoted text: a stranger may have written it, so it must not be read as an address or a result."""
_TOKEN = Regex(r'"(?:[^"\\]|\\.)*"|[();]|\\.|[^\s();"\\]+')
_NAME = Regex(rf"([^\s={_OPAQUE}]+)(?:\s+\d+)?\Z")
_METHOD = Regex(r"(?:dmarc|dkim|spf)(?![\w.-])")
_RESULT = Regex(r"(dmarc|dkim|spf)(?:\s*/\s*\d+)?\s*=\s*(\w+)", flags=2)
_PROPERTY = Regex(r"(?<!\S)(header\.from|header\.d|header\.i|smtp\.mailfrom)\s*=\s*(\S+)", flags=2)
_BULK = ("bulk", "list", "junk", "auto_reply")
_NOBODIES = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "bounce")


def field(mail: Message, name: str) -> str:
    """Return a header field of a mail as one line, or "" if it is missing, too long, or occurs more than once."""
    found = mail.get_all(name, [])
    text = " ".join(str(found[0]).split()) if len(found) == 1 else ""
    return text if len(text) <= _FIELD else ""


def author(mail: Message) -> str:
    """Return the address in From, in lower case, or "" if there is none, more than one, or an ambiguous or non-ASCII one."""
    text = _QUOTED.sub(_OPAQUE, field(mail, "from"))  # quoted text may occur in a name, but not in an address
    found = _BARE.match(text)
    named = None if found is not None else _NAMED.match(text)
    address = found[1] if found is not None else named[2] if named is not None else ""
    return address.lower() if address.isascii() else ""


def is_vouched_for(mail: Message, address: str, server: str) -> bool:
    """Return whether the server of that name confirms that the domain of the address sent the mail.

    Only the topmost result of that server counts: the server puts it above everything that came with the mail. Senders can
    influence the text of the result, and so whether it can be parsed. An unparseable result may be the server's, so no result
    below it counts.
    """
    for text in map(str, mail.get_all("authentication-results", [])):
        read = _results(text)
        if read is None:
            return False
        name, results = read
        if name == server.lower():
            return _passes(results, address.partition("@")[2])
    return False


def _passes(results: list[tuple[str, str, Mapping[str, str]]], domain: str) -> bool:
    dmarc = [(outcome, given.get("header.from", "")) for method, outcome, given in results if method == "dmarc"]
    if any(outcome != "none" for outcome, _ in dmarc):
        return all(one == ("pass", domain) for one in dmarc)
    return any(
        outcome == "pass" and _is_aligned(given.get(name, ""), domain)
        for method, outcome, given in results
        for name in {"dkim": ("header.d", "header.i"), "spf": ("smtp.mailfrom",)}.get(method, ())
    )


def _is_aligned(identity: str, domain: str) -> bool:
    """Return whether an identity belongs to the domain, or to a domain above it."""
    of = identity.rpartition("@")[2]
    if identity.count("@") > 1:  # mail programs disagree about its domain
        return False
    return domain == of or ("." in of and domain.endswith(f".{of}"))


def _results(text: str) -> tuple[str, list[tuple[str, str, Mapping[str, str]]]] | None:
    """Return (name of the server, (method, outcome, properties) of each result), or None if the field is too long or malformed.

    Comments are removed and quoted text is replaced, because a stranger may have written them.
    """
    pieces = _pieces(text) if len(text) <= _FIELD * 4 else None
    if pieces is None:
        return None
    name, *claims = pieces
    found = _NAME.match(name)
    results = [(claim, _result(claim)) for claim in claims]
    if found is None or any(one is None and _METHOD.match(claim) for claim, one in results):
        return None
    return found[1], [one for _, one in results if one is not None]


def _pieces(text: str) -> list[str] | None:
    """Return the parts between semicolons, in lower case, without comments; None if brackets, quotes or escapes are malformed."""
    depth, pieces = 0, [""]
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece == "(":
            depth += 1
        elif piece == ")":
            depth -= 1
        elif depth == 0 and piece == ";":
            pieces.append("")
        elif depth == 0:
            pieces[-1] += f" {_OPAQUE}" if piece.startswith('"') else f" {piece}"
        if depth < 0:
            return None
    if depth or _TOKEN.sub("", text).strip():
        return None
    return [piece.strip().lower() for piece in pieces]


def _result(piece: str) -> tuple[str, str, Mapping[str, str]] | None:
    found = _RESULT.match(piece)
    if found is None:
        return None
    given = _PROPERTY.findall(piece)
    properties = dict(given)
    return (found[1], found[2] if len(properties) == len(given) else "ambiguous", properties)


def is_automatic(mail: Message, address: str, ours: str) -> bool:
    """Return whether a program or a mailing list sent a mail: such mail is never answered."""
    return any(_signs(mail)) or address == ours or address.partition("@")[0].startswith(_NOBODIES)


def _signs(mail: Message) -> Iterator[bool]:
    return_paths = mail.get_all("return-path", [])
    yield bool(return_paths) and str(return_paths[0]).strip() in ("<>", "")
    yield any(str(one).partition(";")[0].strip().lower() != "no" for one in mail.get_all("auto-submitted", []))
    yield any(str(one).strip().lower() in _BULK for one in mail.get_all("precedence", []))
    yield any(name in mail for name in ("list-id", "list-post", "list-unsubscribe", "x-auto-response-suppress", "x-autoreply"))
    yield mail.get_content_type() == "multipart/report"
