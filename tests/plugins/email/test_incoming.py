"""The parts that are read from a mail: its author, its text, and its thread."""

from __future__ import annotations

from email.message import Message

import pytest

from plugins.email.content import Unreadable, parsed, text_of, without_quotes
from plugins.email.incoming import chat_of
from plugins.email.markup import html_of, text_of_html
from plugins.email.senders import author, is_vouched_for
from plugins.email.writing import id_of, mail_of, thread_in
from toolcrib.chat import Button, Chat, Outbound

SERVER = "mx.crib.test"


def mail(*fields: str, body: str = "") -> Message:
    return parsed("\n".join([*fields, "", body]).encode())


@pytest.mark.parametrize(
    ("field", "address"),
    [
        ("Ann@Example.org", "ann@example.org"),
        ("Ann <ann@example.org>", "ann@example.org"),
        ('"Doe, Ann <x@y>" <ann@example.org>', "ann@example.org"),
        ("=?utf-8?q?An=C3=B1?= <ann@example.org>", "ann@example.org"),
        ("ann@example.org <ann@example.org>", "ann@example.org"),
        ("a@b.example, ann@example.org", ""),
        ("a@b.example, <ann@example.org>", ""),
        ("ann@example.org <>", ""),
        ("<ann@example.org> <eve@evil.example>", ""),
        ('<"eve@evil.example,"ann@example.org>', ""),
        ('"eve"ann@example.org', ""),
        ('"eve" ann@example.org', ""),
        ("ann@example.org\u212a", ""),
        ("ann @example.org", ""),
        ("", ""),
    ],
)
def test_an_author_is_one_address(field: str, address: str) -> None:
    assert author(mail(f"From: {field}")) == address


@pytest.mark.parametrize(
    ("results", "counts"),
    [
        ("dmarc=pass (p=reject sp=none) header.from=example.org", True),
        ("spf=pass smtp.mailfrom=x@example.org; dkim=none; dmarc=pass action=none header.from=Example.org", True),
        ("dkim=pass header.d=example.org header.s=k; spf=fail smtp.mailfrom=evil.example", True),
        ("dkim=pass header.i=@example.org", True),
        ("spf=pass smtp.mailfrom=bounce@example.org", True),
        ("dkim=pass header.d=org", False),
        ("dkim=pass header.d=evil.example; spf=pass smtp.mailfrom=evil.example", False),
        ("dkim=pass header.d=example.org.evil.example", False),
        ("dkim=fail header.d=example.org", False),
        ("dkim=pass header.d=example.org; dmarc=fail header.from=example.org", False),
        ("dmarc=pass header.from=evil.example; dmarc=pass header.from=example.org", False),
        ("dmarc=pass", False),
        ("dmarc=bestguesspass header.from=example.org", False),
        ("spf=fail smtp.helo=header.d=example.org; dkim=pass header.b=x", False),
        ("dkim=pass header.d=evil.example header.d=example.org", False),
        ("spf=fail (dmarc=pass header.from=example.org", False),
        ("dmarc/1=pass header.from=example.org", True),
        ("dmarc/1=fail header.from=example.org; dkim=pass header.d=example.org", False),
        ("dmarc (no policy); dkim=pass header.d=example.org", False),
        ("dkim-atps=none; iprev=pass; dkim=pass header.d=example.org;", True),
        ("spf=pass smtp.mailfrom=x@evil.example@example.org", False),
        ("none", False),
        ("", False),
    ],
)
def test_what_the_server_says_counts(results: str, counts: bool) -> None:
    found = mail(f"Authentication-Results: {SERVER}; {results}", "From: ann@example.org")
    assert is_vouched_for(found, "ann@example.org", SERVER) is counts


def test_only_the_topmost_result_of_the_server_counts() -> None:
    good = f"Authentication-Results: {SERVER} 1; dmarc=pass header.from=example.org"
    other = "Authentication-Results: other.example; dmarc=fail header.from=example.org"
    bad = f"Authentication-Results: {SERVER}; none"
    assert is_vouched_for(mail(other, good, bad), "ann@example.org", SERVER)
    assert not is_vouched_for(mail(other, bad, good), "ann@example.org", SERVER)
    assert not is_vouched_for(mail(other), "ann@example.org", SERVER)


@pytest.mark.parametrize(
    "unreadable",
    [
        f"{SERVER}; spf=fail smtp.mailfrom=a(b@evil.example; dmarc=fail header.from=example.org",
        f"{SERVER}; spf=fail smtp.mailfrom=a)b@evil.example; dmarc=fail header.from=example.org",
        f'{SERVER}; spf=fail smtp.mailfrom=a"b@evil.example; dmarc=fail header.from=example.org',
        f"{SERVER}; dmarc=fail header.from=example.org; spf=fail smtp.mailfrom=x@evil.example\\",
        f'"{SERVER}"; dmarc=fail header.from=example.org',
        "spf=fail (sender IP is 192.0.2.1) smtp.mailfrom=evil.example; dmarc=fail header.from=example.org",
        f"{SERVER} dmarc=fail header.from=example.org",
        "",
        "; dmarc=fail header.from=example.org",
        f"{SERVER}{'; dkim=fail header.d=a.evil.example header.i=@a.evil.example' * 140}; dmarc=fail header.from=example.org",
    ],
    ids=["open", "closed", "quote", "backslash", "quoted name", "no name", "no semicolon", "empty", "empty name", "long"],
)
def test_nothing_below_a_result_that_cannot_be_read_counts(unreadable: str) -> None:
    forged = f"Authentication-Results: {SERVER}; dmarc=pass header.from=example.org"
    assert not is_vouched_for(mail(f"Authentication-Results: {unreadable}", forged), "ann@example.org", SERVER)


@pytest.mark.parametrize("said", [f"(seen) {SERVER} 1", f"{SERVER.upper()} (seen)"])
def test_comments_and_a_version_beside_the_servers_name_are_nothing(said: str) -> None:
    for outcome, counts in (("pass", True), ("fail", False)):
        found = mail(
            f"Authentication-Results: {said}; dmarc={outcome} header.from=example.org",
            f"Authentication-Results: {SERVER}; dmarc=pass header.from=example.org",
        )
        assert is_vouched_for(found, "ann@example.org", SERVER) is counts


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Yes.\n\nOn Mon, 1 Jan, Ann wrote:\n> no\n> maybe", "Yes."),
        ("Yes.\n\nOn Mon, 1 Jan, Ann\n<a@b.example> wrote:\n> no", "Yes."),
        ("> is it?\nIt is.\n> and that?\nThat too.", "It is.\nThat too."),
        ("Do it.\n-- \nAnn\n+1 555", "Do it."),
        ("Do it.\n-----Original Message-----\nFrom: x", "Do it."),
        ("Do it.\n________________________________\nFrom: x", "Do it."),
        ("a -- b\n--option", "a -- b\n--option"),
    ],
)
def test_quotes_and_signatures_are_not_heard(text: str, left: str) -> None:
    assert without_quotes(text) == left


def test_a_mail_that_quotes_alone_is_heard_whole() -> None:
    assert text_of(mail("From: a@b.example", body="> all of it")) == "> all of it"


def test_html_becomes_text() -> None:
    source = (
        "<html><head><title>t</title><style>p{}</style></head><body><p>Hello&nbsp;<b>there</b> 1 < 2</p><ul><li>one<li>two</ul>"
        '<a href="https://x.example/y">here</a><script>evil()</script><!-- c --><blockquote>old<br>words</blockquote></body>'
    )
    assert text_of_html(source) == "Hello\xa0there 1 < 2\n\n• one\n• two\nhere (https://x.example/y)\n> old\n> words"
    found = mail("From: a@b.example", "Content-Type: text/html", body=source)
    assert "old" not in text_of(found)


@pytest.mark.parametrize(
    "element",
    [
        '<div style="display:none">unseen</div>',
        "<div hidden>unseen <div>and more</div> of it</div>",
        '<p style="margin:0; DISPLAY : none !important">unseen',
        '<span style="visibility:hidden">unseen</span>',
        '<span style="font-size:0px">unseen</span>',
        '<div style="opacity:0">unseen</div>',
        '<div style="max-height:0;overflow:hidden">unseen<br>there</div>',
        '<div style="display&#58;/* x */none">unseen</div>',
    ],
)
def test_what_nobody_sees_of_html_is_not_heard(element: str) -> None:
    text = text_of_html(f"<p>Hello</p>{element}<p>there</p>")
    assert text.split() == ["Hello", "there"]


def test_what_is_seen_of_html_is_heard() -> None:
    source = (
        '<td style="font-size:0px"><div style="font-size:13px;opacity:0.9;max-height:09px">one</div></td><br hidden>two '
        '<a href="https://x.example/hidden">three</a><div data-hidden="1">four</div>'
    )
    assert text_of_html(source).split() == ["one", "two", "three", "(https://x.example/hidden)", "four"]


def test_the_plain_text_is_preferred_and_encodings_are_undone() -> None:
    body = "\n".join(
        [
            "--b", "Content-Type: text/plain; charset=iso-8859-1", "Content-Transfer-Encoding: quoted-printable", "", "caf=E9",
            "--b", "Content-Type: text/html", "", "<p>tea</p>", "--b--",
        ]
    )  # fmt: skip
    assert text_of(mail("From: a@b.example", "Content-Type: multipart/alternative; boundary=b", body=body)) == "café"


def test_threads_are_known_by_references_and_by_ids_of_ours() -> None:
    chat = Chat("ann@example.org", "root@x.example")
    ours = id_of(Outbound(chat, "", "k"), "crib.test")
    assert thread_in(ours) == "root@x.example"
    for fields in (
        (f"In-Reply-To: <{ours}>",),
        ("References: <root@x.example> <later@x.example>", "In-Reply-To: <later@x.example>"),
    ):
        assert chat_of(mail(*fields), chat.id, "new@x.example").key == chat.key
    assert chat_of(mail("Subject: AW: Re: Tea"), chat.id, "new@x.example") == Chat(chat.id, "new@x.example", title="Tea")


def test_ids_are_the_same_for_the_same_and_others_for_what_was_settled() -> None:
    question = Outbound(Chat("a@b.example", "t@x"), "may I?", "ticket:1", buttons=[Button("y", "Yes")])
    settled = Outbound(Chat("a@b.example", "t@x"), "agreed", "ticket:1")
    assert id_of(question, "x") == id_of(Outbound(question.chat, "again", "ticket:1", buttons=question.buttons), "x")
    assert len({id_of(one, "x") for one in (question, settled, Outbound(Chat("c@b.example", "t@x"), "", "ticket:1"))}) == 3


@pytest.mark.parametrize("chat", ["a b@c.example", "a@b.example\r\nBcc: c@d.example", "<a@b.example>", "nobody"])
def test_no_mail_is_made_for_what_is_no_address(chat: str) -> None:
    with pytest.raises(ValueError, match="address"):
        mail_of(Outbound(Chat(chat, "t@x"), "hi", "k"), "bot@x.example", "i@x", "", [])


def test_html_of_markdown_fetches_and_runs_nothing() -> None:
    made = html_of("<img src=http://x> ![p](http://x.example/p.png) [l](javascript:alert(1)) **b**", is_plain=False)
    assert "<img" not in made
    assert 'href="javascript' not in made
    assert "<b>b</b>" in made


def test_a_mail_of_too_many_lines_is_not_read() -> None:
    with pytest.raises(Unreadable):
        parsed(b"From: a@b.example\n\n" + b"\n" * 700_000)
