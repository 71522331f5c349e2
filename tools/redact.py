"""Keep secrets from models: known values and well-known key formats are removed from every result."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping

from toolcrib.contract.context import ActivityEvent, EventSink
from toolcrib.contract.private import Private
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.key_formats import FORMATS

_log = logging.getLogger(__name__)
_SECRET_NAME = Regex(r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|PRIVATE_?KEY|CREDENTIALS?)(?:_|$)", re.I)
_MAYBE_SECRET = Regex(
    r"(?:PASSWORDS?|PASSWDS?|PASSPHRASE|SECRETS?|TOKENS?|CREDENTIALS?|API_?KEYS?|ACCESS_?KEYS?|PRIVATE_?KEYS?)(?:_|$)"
    r"|(?:^|_)(?:(?:PASS|PWD|PW|KEY|AUTH|COOKIE)$|CONNECTION_?STRING|CONN_STR)",
    re.I,
)
_HOLDS_PASSWORD = Regex(
    r"://[^\s/@]{0,500}:[^\s@]{1,500}@|(?:^|[?&;,\s])[\w-]*(?:password|passwd|pwd|token|secret|key|sig)=[^\s&;]", re.I
)
_SHORTEST = 8
"""Minimum length of a value. A shorter one ("test", "1234") would hide innocent text everywhere."""

_SHORTEST_KEY = 15
"""Length of the shortest text that one of the formats matches."""
_SHORTEST_ENCODED = 9
"""Minimum length of a base64 form of a known value; shorter ones are not searched."""

_KEYS = Regex("|".join(FORMATS.values()))
_BEGUN = Regex(rf"(?:{'|'.join(map(re.escape, FORMATS))})[A-Za-z0-9_.:/+=-]*\Z")
"""The beginning of a key at the end of a text; ``_KEYS`` already matches the beginning of a private key."""
_LONGEST_BEGUN = 200
"""Number of characters at the end where an unrecognised key may begin."""
_TELLING = 4
"""Length of a secret's beginning that reveals some of it, so that ``growing`` holds it back."""
_HINTS = tuple((mark, tuple(hint for hint in FORMATS if mark in hint)) for mark in "_-.")
_PRIVATE = "PRIVATE KEY"
_OTHER_HINTS = tuple(hint for hint in FORMATS if {*"_-."}.isdisjoint(hint) and hint != _PRIVATE)
_BETWEEN = " \t\r\n\"'`+\\,|"
"""Characters that may split a value: line ends, blanks, and the signs that join texts in programs."""
_JOINED = str.maketrans("", "", _BETWEEN)


def may_be_secret(name: str, value: str) -> bool:
    """Return whether a variable may hold a secret, by its name, or as a URL or connection string with a password.

    This is broader than ``Redactor.of``, which hides text in results, where a wrong guess would hide innocent text.
    """
    named = name not in ("PWD", "OLDPWD") and _MAYBE_SECRET.search(name) is not None
    return named or _HOLDS_PASSWORD.search(value) is not None


_WORDS = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|key|auth|cookie"
    r"|sig(?:nature)?|salt)"
)
_IN_FORM = (
    (Regex(r"://[^\s\"'<>]{1,500}@"), "://[redacted]@"),
    (Regex(r"\b(Bearer|Basic|Bot|Token|Digest)\s+[A-Za-z0-9._~+/=:-]{4,}", re.I), r"\1 [redacted]"),
    (Regex(r"\beyJ[\w-]{4,}(?:\.[\w-]+){1,4}"), "[redacted]"),
    (Regex(rf"(--?[\w-]*{_WORDS}[\w-]*(?:\s+|=))(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s'\"]+)", re.I), r"\1[redacted]"),
    (
        Regex(
            rf"([\w.-]*{_WORDS}[\w-]*\\?[\"']?\s*[:=]\s*)(?:\\?\"(?:[^\"\\\n]|\\[^\"])*\\?\"|'[^'\n]*'|[^\s,;&\"'}}\])]+)",
            re.I,
        ),
        r"\1[redacted]",
    ),
    (Regex(r"(?m)^[A-Za-z0-9+/]{40,}={0,2}$"), "[redacted]"),
    (Regex(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}"), "[redacted]"),
    (Regex(r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{24,}"), "[redacted]"),
)
"""Forms that a secret may have, the more specific first. Names and digests may match too."""


def without_forms(text: str) -> str:
    """Return ``text`` without everything in the form of a secret: passwords in URLs, values after names of secrets, long random
    strings.

    Use it for text that leaves the user's machine. It also removes much that is not secret.
    """
    for form, instead in _IN_FORM:
        text = form.sub(instead, text)
    return text


def _has_hint(text: str) -> bool:
    """Return whether ``text`` may hold a key of one of the formats. Only a private key contains blanks."""
    if _PRIVATE in text:
        return True
    words = [word for word in text.split() if len(word) >= _SHORTEST_KEY]
    if not words:
        return False
    text = "\n".join(words)
    for mark, hints in _HINTS:
        if mark in text:
            for hint in hints:  # any() over a generator takes twice as long, on every result
                if hint in text:
                    return True
    for hint in _OTHER_HINTS:  # noqa: SIM110 - as above
        if hint in text:
            return True
    return False


def _encoded(value: str) -> Iterator[str]:
    """Yield a value as it appears in URLs, hexadecimal digits and base64, the last in all three alignments."""
    from base64 import b64encode
    from urllib.parse import quote, quote_plus

    raw = value.encode("utf-8", "surrogatepass")
    yield quote(value, errors="replace")
    yield quote(value, safe="", errors="replace")
    yield quote_plus(value, errors="replace")
    yield raw.hex()
    yield raw.hex().upper()
    for before in range(3):
        # The first and the last characters depend on the text around the value.
        whole = b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        inner = whole[(before * 8 + 5) // 6 : len(whole) - (1 if (before + len(raw)) % 3 else 0)]
        if len(inner) >= _SHORTEST_ENCODED:
            yield inner
            yield inner.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


class Redactor:
    """Removes the given named values, and all text in the form of a well-known key."""

    def __init__(self, secrets: Mapping[str, str] | None = None, shortest: int = _SHORTEST) -> None:
        """Create a redactor for ``secrets``, values by name. It ignores values of fewer than ``shortest`` characters."""
        found: dict[str, str] = {}
        for name, value in (secrets or {}).items():
            if len(value) >= shortest:
                found[value] = name
                for ascii_only in (False, True):  # as in JSON text
                    found.setdefault(json.dumps(value, ensure_ascii=ascii_only)[1:-1], name)
        # Longest first, so that a secret that contains another is replaced as a whole.
        self._secrets = sorted(found.items(), key=lambda item: -len(item[0]))
        forms = {form: name for value, name in found.items() for form in _encoded(value) if form not in found}
        self._encoded = sorted(forms.items(), key=lambda item: -len(item[0]))
        joined = {value.translate(_JOINED): name for value, name in (*self._encoded, *self._secrets)}
        self._joined = [(value, name) for value, name in joined.items() if len(value) >= _SHORTEST]
        self._least = min((len(value) for value, _ in self._joined), default=0)

    @classmethod
    def of(cls, environ: Mapping[str, str], secrets: Mapping[str, str] | None = None) -> Redactor:
        """Return a redactor for ``secrets`` and every variable with a secret's name: API_KEY, TOKEN, PASSWORD and the like."""
        return cls({**{name: value for name, value in environ.items() if _SECRET_NAME.search(name)}, **(secrets or {})})

    def touches(self, text: str) -> bool:
        """Return whether ``text`` may hold a secret. Cheap; may be True for text without one."""
        for value, _ in self._secrets:
            if value in text:
                return True
        if self._joined and self._hidden(text):
            return True
        return len(text) >= _SHORTEST_KEY and _has_hint(text)

    def text(self, text: str) -> str:
        """Return ``text`` without known values, in plain, encoded or split form, and without text in the form of a key."""
        for value, name in self._secrets:
            if value in text:
                text = text.replace(value, f"[redacted: {name}]")
        for value, name in self._hidden(text) if self._joined else ():
            text = re.sub(f"[{re.escape(_BETWEEN)}]*".join(map(re.escape, value)), f"[redacted: {name}]", text)
        return _KEYS.sub("[redacted: key]", text) if len(text) >= _SHORTEST_KEY and _has_hint(text) else text

    def _hidden(self, text: str) -> list[tuple[str, str]]:
        """Return the values, and their encoded forms, that ``text`` contains when the characters that may split them are
        removed.
        """
        if len(text) < self._least:
            return []
        joined = text.translate(_JOINED)
        return [(value, name) for value, name in self._joined if value in joined]

    def growing(self, text: str) -> str:
        """Redact text that will be continued, and return it without an end that may be the beginning of a secret."""
        end = len(text)
        for value, _ in (*self._secrets, *self._encoded):
            at = max(0, len(text) - len(value) + 1)
            while (at := text.find(value[:_TELLING], at)) >= 0:
                if value.startswith(text[at:]):
                    end = min(end, at)
                    break
                at += 1
        begun = _BEGUN.search(text, max(0, len(text) - _LONGEST_BEGUN))
        return self.text(text[: end if begun is None else min(end, begun.start())])

    def data(self, value: Json) -> Json:
        """Redact every string in a JSON value, including keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.data(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        return value


class RedactingSink:
    """Removes secrets from the activity that calls report, before observers see it."""

    def __init__(self, sink: EventSink, redactor: Redactor) -> None:
        self._sink = sink
        self._redactor = redactor
        self._failed = False

    def emit(self, event: ActivityEvent) -> None:
        """Pass the event on. An unreadable event is dropped, and an error of the sink is logged once: neither ends the call."""
        try:
            data = self._redactor.data
            patch = None if event.patch is None else [data(one) for one in event.patch]
            self._sink.emit(ActivityEvent(event.message_id, data(event.activity_type), data(event.content), patch))
        except Exception as error:  # noqa: BLE001 - neither a bad report nor an observer's error may end the call
            if not self._failed:
                self._failed = True
                name, said = type(error).__name__, Private(self._redactor.text(str(error)[:500]))
                _log.error(
                    "a progress report of the call %s failed (later ones are not logged): %s: %s", event.message_id, name, said
                )
