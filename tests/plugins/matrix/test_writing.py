"""The content of events: how clients show our text, and that it notifies no user."""

from __future__ import annotations

import json

from plugins.matrix.incoming import message_of
from plugins.matrix.writing import text_content, transaction
from toolcrib.chat import Button, Chat, Outbound

CHAT = Chat("!r:localhost")


def test_markdown_becomes_html_and_html_stays_text() -> None:
    content = text_content(Outbound(CHAT, "**bold** <script>alert(1)</script>\n\n| a |\n|---|\n| b |", "k"), "m.text")
    html = content["formatted_body"]
    assert "<strong>bold</strong>" in html
    assert "<table>" in html
    assert "<script>" not in html
    assert "formatted_body" not in text_content(Outbound(CHAT, "plain & simple", "k"), "m.text")


def test_links_lead_to_the_web_only_and_pictures_are_not_loaded() -> None:
    text = "[a](javascript:alert(1)) [b](https://example.org) ![p](https://example.org/p.png)"
    html = text_content(Outbound(CHAT, text, "k"), "m.text")["formatted_body"]
    assert 'href="javascript' not in html
    assert '<a href="https://example.org">b</a>' in html
    assert "<img" not in html


def test_nobody_is_pinged_and_nothing_is_previewed() -> None:
    for out in (Outbound(CHAT, "@room @bob:localhost", "k"), Outbound(CHAT, "@room", "k", edits="$1")):
        content = text_content(out, "m.text")
        assert content["m.mentions"] == {}
        assert content.get("m.new_content", content)["m.mentions"] == {}
        assert content["com.beeper.linkpreviews"] == []


def test_a_command_is_shown_as_it_stands() -> None:
    content = text_content(Outbound(CHAT, "rm -rf *.tmp <b> `x`", "k", is_plain=True), "m.text")
    assert content["formatted_body"] == "<pre><code>rm -rf *.tmp &lt;b&gt; `x`</code></pre>"
    assert content["body"] == "rm -rf *.tmp <b> `x`"


def test_the_longest_text_fits_into_an_event() -> None:
    for text in ("😀" * 4000, "<&>\"'" * 800, "`x` " * 1000, "\ud800\0" * 2000):
        for edits in ("", "$shown"):
            content = text_content(Outbound(CHAT, text, "k", edits=edits, is_plain=True), "m.text")
            assert len(json.dumps(content, ensure_ascii=False).encode()) < 64_000
            assert content.get("m.new_content", content)["body"].startswith(("😀", "<&>", "`x`", "\ufffd\ufffd"))


def test_replies_and_threads_are_related() -> None:
    reply = text_content(Outbound(CHAT, "x", "k", reply_to="$1"), "m.text")
    assert reply["m.relates_to"] == {"m.in_reply_to": {"event_id": "$1"}}
    thread = Outbound(Chat("!r:localhost", thread="$root"), "x", "k", buttons=[Button("y", "Yes", "👍")])
    related = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True, "m.in_reply_to": {"event_id": "$root"}}
    content = text_content(thread, "m.text")
    assert content["m.relates_to"] == related
    read = message_of({"type": "m.room.message", "content": content}, "@me:localhost")
    assert read is not None
    assert (read.thread, read.reply_to, read.answers) == ("$root", "", "$root")


def test_a_key_is_one_transaction() -> None:
    assert transaction("k", "", "") == transaction("k", "", "")
    assert len({transaction("k", ""), transaction("k"), transaction("", "k"), transaction("k\ud800")}) == 4


def test_an_edit_says_what_it_replaces_and_a_pill_is_a_mention() -> None:
    content = {
        "msgtype": "m.text",
        "body": "* new",
        "m.new_content": {"msgtype": "m.text", "body": "new"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$old"},
    }
    edit = message_of({"type": "m.room.message", "content": content}, "@me:localhost")
    assert edit is not None
    assert (edit.text, edit.edits) == ("new", "$old")
    pill = {"msgtype": "m.text", "body": "Me: hi", "formatted_body": '<a href="https://matrix.to/#/@me:localhost">Me</a>: hi'}
    found = message_of({"type": "m.room.message", "content": pill}, "@me:localhost")
    assert found is not None
    assert found.mentions
