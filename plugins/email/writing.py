"""Outgoing mail: marked as automatic, in its thread, as text and as simple HTML."""

from __future__ import annotations

import base64
import hashlib
from email.header import Header
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import formatdate

from plugins.email.markup import html_of
from toolcrib.chat import Outbound, without_controls
from toolcrib.contract.regex import Regex

_POLICY = EmailPolicy(linesep="\r\n")
_ROOT = 120
"""Maximum length, in characters, of a thread id that is put into our Message-ID. The id is put there because answers of some
mail programs name only the mail that they answer, not the beginning of its thread.
"""
_OURS = Regex(r"toolcrib\.[0-9a-f]{32}\.([\w-]*)@")
_ID_TEXT = Regex(r"[\x21-\x3b\x3d\x3f-\x7e]{1,200}\Z")
_TO = Regex(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}\Z")
_MEDIA_TYPE = Regex(r"(application|audio|image|text|video)/([\w.+-]{1,80})\Z")
_SUBJECT = 200


def id_of(out: Outbound, domain: str) -> str:
    """Return the Message-ID of a message of ours, the same for each attempt to send it. When a question is shown again
    without buttons, it gets a different one.
    """
    kind = "?" if out.buttons else "."
    digest = hashlib.sha256(f"{kind}{out.chat.key}\0{out.key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    root = out.chat.thread if len(out.chat.thread) <= _ROOT else ""
    return f"toolcrib.{digest}.{base64.urlsafe_b64encode(root.encode()).decode().rstrip('=')}@{domain}"


def thread_in(message_id: str) -> str:
    """Return the thread id that a Message-ID of ours contains. Return "" if it contains none or an invalid one (it may be
    forged), and for any other Message-ID.
    """
    found = _OURS.match(message_id)
    try:
        root = "" if found is None else base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode("ascii")
    except ValueError:
        return ""
    return root if _ID_TEXT.match(root) else ""


def mail_of(out: Outbound, ours: str, message_id: str, link: str, files: list[bytes]) -> bytes:
    """Return a message as mail. ``link`` leads to the page for the user's decision. Raises ValueError for an invalid
    address.
    """
    if not _TO.match(out.chat.id):
        raise ValueError("no address")
    answered = out.reply_to if _ID_TEXT.match(out.reply_to) else out.chat.thread
    fields = {
        "From": ours,
        "To": out.chat.id,
        "Subject": Header(f"Re: {one_line(out.chat.title)[:_SUBJECT] or 'your message'}").encode(linesep="\r\n"),
        "Date": formatdate(),
        "Message-ID": f"<{message_id}>",
        "Auto-Submitted": "auto-replied",
        "X-Auto-Response-Suppress": "All",
    }
    if _ID_TEXT.match(out.chat.thread):
        fields["In-Reply-To"] = f"<{answered}>"
        fields["References"] = " ".join(f"<{one}>" for one in dict.fromkeys((out.chat.thread, answered)))
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("ascii") + _body(out, link, files)


def _body(out: Outbound, link: str, files: list[bytes]) -> bytes:
    """Return the content of the mail with the fields that describe it. ``mail_of`` writes the other header fields without the
    library, which would decode text that looks encoded.
    """
    mail = EmailMessage(policy=_POLICY)
    text = without_controls(out.text)
    more = f"\n\nDecide here (the link works once, only for you):\n{link}" if link else ""
    mail.set_content(f"{text}{more}\n", cte="quoted-printable")
    html = html_of(text, is_plain=out.is_plain)
    if link:
        html = html.replace("</div>", f'<p><a href="{link}" rel="noreferrer">Decide</a> (works once, only for you)</p></div>')
    mail.add_alternative(html, subtype="html", cte="quoted-printable")
    for file, data in zip(out.files, files, strict=True):
        known = _MEDIA_TYPE.match(file.media_type)
        kind, subtype = (known[1], known[2]) if known is not None else ("application", "octet-stream")
        mail.add_attachment(data, maintype=kind, subtype=subtype, filename=one_line(file.name).replace("=?", "_")[:200] or "file")
    return mail.as_bytes()


def one_line(text: str) -> str:
    """Return the text as one line without control characters, so that it can't break out of a header field."""
    return without_controls(" ".join(text.split())).replace("\ufffd", "")
