"""Replies that only show a call, in each text form: none runs. Similar ordinary replies: all their calls run (000-29)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.agent.protocols.call_forms import FORMS, runnable

COMMAND = {"command": "ls"}
SHOWN: dict[str, dict[str, str]] = {
    "code spans": {
        "mid-sentence": "Write `{call}` to call.",
        "two ticks": "One calls with ``{call}`` in there.",
        "three ticks": "One calls with ```{call}``` in there.",
        "padded": "The form is `` {call} `` in short.",
        "lines of its own": "The form is `\n{call}\n` in short.",
        "two ticks, lines of its own": "The form is ``\n{call}\n`` in short.",
        "second paragraph": "Fine.\n\n`{call}` is the form.",
        "after another span": "Set `x` and write `{call}` there.",
        "after a line": "To call a tool,\nwrite `{call}`\nand wait.",
        "at the end": "How a call looks: `{call}`",
        "bullet": "- Read the file.\n- Write `{call}` to call.\n- Wait.",
        "numbered": "1. Write `{call}`\n2. Wait.",
        "bold": "Write **`{call}`** to call.",
        "cell over lines": "| tool | form |\n|---|---|\n| run | `{call}` |\n\nThat is all.",
        "cell": "| tool | form |\n|---|---|\n| run | `{joined}` |\n\nThat is all.",
        "cell without ticks": "| tool | form |\n|---|---|\n| run | {joined} |\n\nThat is all.",
        "link": "See [`{call}`](https://docs.example/calls) for it.",
        "within a block quote": "> Write `{call}` to call.\n\nThat was the page.",
        "heading": "## The form `{joined}`\n\nThat is its name.",
        "ended by CRLF": "Write `{crlf}`\r\nto call.",
        "before a span": "`{call}` and `x` are forms.",
    },
    "block quotes": {
        "lazy": "> {call}\n\nThat is the form.",
        "lazy, no blank": ">{call}\n\nThat is the form.",
        "lazy, at the end": "> {call}",
        "lazy after words": "> He wrote:\n{call}\n\nI did not.",
        "nested": "> > {call}\n\nThat is the form.",
        "nested after words": "> He wrote:\n> > {call}\n\nI did not.",
        "marked on each line": "{quoted}\n\nThat is the form.",
        "after a quoted blank": "> He wrote:\n>\n{quoted}\n\nI did not.",
        "within a bullet": "- The mail:\n  > {call}\n\nI did not.",
        "within a number": "1. > {call}\n\nThat is the form.",
        "around a bullet": "> - {call}\n\nThat is the form.",
        "around a fence": "> ```\n{quoted}\n> ```\n\nThat is the form.",
    },
    "code blocks": {
        "tildes": "The form:\n\n~~~\n{call}\n~~~\n\nThat is all.",
        "tildes at the end": "The form:\n\n~~~~xml\n{call}\n~~~~",
        "tildes, no end": "The form:\n\n~~~\n{call}\n",
        "indented fence": "The form:\n\n   ```\n{call}\n   ```\n\nThat is all.",
        "fence within a number": "1. The form:\n\n   ```\n{indented3}\n   ```\n\n2. Wait.",
        "fence within a bullet": "- The form:\n  ```xml\n{indented3}\n  ```\n",
        "fence within a fence": "````\n```\n{call}\n```\n````\nThat is how it is fenced.",
        "tildes around ticks, no end": "The form:\n\n~~~\n```\n{call}\n```\n",
        "no end by fewer ticks": "The form:\n\n````\n```\n{call}\n",
        "indented": "The form:\n\n{indented4}\n\nThat is all.",
    },
    "prohibitions": {
        "do not write, same line": "Do not write {call}\n\nIt deletes all.",
        "do not write, end": "Do not write {call}",
        "do not write, next line": "Do not write\n{call}",
        "do not write, next paragraph": "Do not write:\n\n{call}",
        "never send": "Never send {call}\n\nThat would delete all.",
        "never send, next line": "Never send\n{call}\n",
        "never send the following": "Never send the following.\n\n{call}",
        "never write, then more": "Never write\n\n{call}\n\nIt deletes all.",
        "must not emit": "You must not emit:\n{call}",
        "must never emit": "A model must never emit\n\n{call}",
        "avoid": "Avoid {call}\n\nIt deletes all.",
        "avoid the following": "Avoid the following:\n\n{call}",
        "don't ever output": "Don't ever output:\n\n{call}",
        "typographic apostrophe": "Don\u2019t output\n{call}",
        "refrain": "Please refrain from sending\n\n{call}",
        "wrong to call": "It would be wrong to call\n{call}",
        "won't run": "I won't run\n{call}",
        "will not run": "I will not run {call}\n\nI ask you first.",
        "refuse": "I refuse to send this:\n\n{call}",
        "should not": "One should not reply with\n\n{call}\n",
        "not allowed": "It is not allowed to send:\n\n{call}",
        "under no circumstances": "Under no circumstances reply with\n{call}",
        "capitals": "DO NOT RUN THIS:\n\n{call}",
        "bold": "**Never send this:**\n\n{call}",
        "title": "### Never send this\n\n{call}\n\nIt deletes all.",
        "second sentence": "You asked for the rules. Never send:\n\n{call}",
        "two calls": "Never send these:\n\n{call}\n{call}",
        "two calls, words between": "Never send:\n\n{call}\n\nor\n\n{call}",
        "a tool that is named": "Do not call `run` like this:\n\n{call}",
        "italic": "_Never_ send:\n\n{call}",
        "bold word": "Do **not** write\n{call}",
        "no-break space": "Never\u00a0send:\n\n{call}",
        "parenthesis": "Do not write (it deletes all):\n\n{call}",
        "CRLF": "Do not write:\r\n\r\n{crlf}\r\n",
        "bullet": "- Do not write:\n\n{call}",
        "nobody": "Nobody should ever send\n{call}",
        "cannot": "I cannot run\n\n{call}",
        "instead of": "I ask you instead of sending\n\n{call}",
    },
    "quoting sentences": {
        "the user wrote": "The user wrote:\n\n{call}",
        "the user wrote, same line": "The user wrote: {call}\n\nI did not run it.",
        "the log says": "The log says\n{call}",
        "the page says": "The page says:\n\n{call}\n\nI did not run it.",
        "an example": "An example:\n\n{call}",
        "for example": "For example:\n{call}\n",
        "as in": "Models write calls with tags, as in\n{call}",
        "e.g.": "Some reply with tags, e.g. {call}",
        "the form is": "The form is\n\n{call}\n\nas you see.",
        "a call looks like this": "A call looks like this:\n\n{call}",
        "you wrote": "In your last message you wrote:\n\n{call}",
        "an attacker": "An attacker could send:\n\n{call}",
        "the wrong way": "The wrong way:\n\n{call}\n\nThe right way is to ask.",
    },
    "parts of a sentence": {
        "the form is, same line": "The form is {call}\n\nas you see.",
        "half a sentence": "To list the files one writes\n\n{call}\n\nand then waits.",
        "colon and more": "Run this:\n\n{call}\n\nand report what it says.",
        "colon and a sentence": "I could run:\n\n{call}\n\nShall I?",
        "what it would be": "The call\n\n{call}\n\nis one that I would not make.",
        "spoken of first": "{call} is what Qwen writes.",
    },
    "outer marks": {
        "an unknown element": "<example>\n{call}\n</example>\n\nThat is the form.",
        "pre": "<pre>\n{call}\n</pre>\n\nThat is the form.",
        "pre and code": "<pre><code>{call}</code></pre>\n\nThat is the form.",
        "code over lines": "<code>\n{call}\n</code> is the form.",
        "details": "<details>\n<summary>The form</summary>\n\n{call}\n\n</details>",
        "blockquote": "<blockquote>\n{call}\n</blockquote>\n\nI did not.",
        "comment": "<!--\n{call}\n-->\n\nI left it out.",
        "another outer mark": "The form is <minimax:tool_call>\n{call}\n</minimax:tool_call>\n\nas you see.",
        "another outer section": "The form is <tool_calls>\n{call}\n</tool_calls>\n\nas you see.",
        "outer mark in a code span": "`<function_calls>\n{call}\n</function_calls>` is the form.",
    },
    "quotation marks": {
        "typographic": "The page says \u201cdo this:\n{call}\n\u201d and no more.",
        "German": "Die Seite sagt \u201etu das:\n{call}\n\u201c und mehr nicht.",
        "French": "La page dit \u00ab\u00a0faites\n{call}\n\u00a0\u00bb et rien de plus.",
        "Chinese": "\u9875\u9762\u8bf4\u300c\n{call}\n\u300d\u3002",
        "straight": 'The page says "\n{call}\n" and no more.',
    },
    "notes": {
        "footnote": "Calls are tagged.[^1]\n\n[^1]: {call}",
        "footnote, indented": "Calls are tagged.[^1]\n\n[^1]:\n{indented4}\n",
        "diff": "@@ -1 +1 @@\n+{call}\n-old",
        "prompt": "user: {call}\nassistant: I did not.",
        "thinking": "<think>I could send\n{call}\n</think>I ask you first.",
    },
    "other languages": {
        "German, prohibition": "Schreib nie:\n\n{call}\n\nEs l\u00f6scht alles.",
        "German, quoted": "Der Nutzer schrieb:\n{call}\n\nIch habe es nicht getan.",
        "French, prohibition": "N\u2019\u00e9crivez jamais :\n\n{call}\n\nCela efface tout.",
        "French, quoted": "L\u2019utilisateur a \u00e9crit :\n{call}\n\nJe ne l\u2019ai pas fait.",
        "Chinese, prohibition": "\u4e0d\u8981\u5199\uff1a\n\n{call}\n\n\u4f1a\u5220\u9664\u4e00\u5207\u3002",
        "Chinese, quoted": "\u7528\u6237\u5199\u9053\uff1a\n{call}\n\u6211\u6ca1\u6709\u6267\u884c\u3002",
    },
}  # fmt: skip


ORDINARY: dict[str, dict[str, str]] = {
    "alone": {
        "the reply": "{call}",
        "blanks around": "\n\n{call}\n\n",
        "after thinking": "<think>I could look.</think>\n{call}",
        "after thinking that forbids": "<think>I must never delete it. Do not write:</think>\n\n{call}",
        "after thinking that quotes": "<think>The user wrote: `ls`</think>{line}{call}",
    },
    "after words": {
        "a line": "I look.\n{call}",
        "a paragraph": "I look.\n\n{call}\n",
        "let me check": "Let me check:\n\n{call}",
        "a colon": "I list the folder:\n{call}",
        "a title": "## Step 1\n\n{call}",
        "a list": "- read the file\n- list the folder\n\nI begin.\n\n{call}",
        "a table": "| a | b |\n|---|---|\n| 1 | 2 |\n\nI go on.\n\n{call}",
        "CRLF": "I look.\r\n\r\n{crlf}\r\n",
        "German": "Ich sehe nach.\n\n{call}",
        "French": "Je regarde :\n\n{call}",
        "Chinese": "\u6211\u6765\u770b\u4e00\u4e0b\uff1a\n\n{call}",
    },
    "after code": {
        "a span": "The file `a.txt` was not there. I look again.\n\n{call}",
        "a span over lines": "The option `a\nb` is new.\n\nI look.\n\n{call}",
        "a single tick, ended by the paragraph": "The ` key is stuck.\n\nI look.\n\n{call}",
        "a fence": "I ran:\n```bash\nls\n```\n\nNow the rest.\n\n{call}",
        "tildes": "~~~\nx\n~~~\n\nI look.\n\n{call}",
        "a fence within a fence": "````\n```\nx\n```\n````\n\nI look.\n\n{call}",
        "an element": "<details>\n<summary>Plan</summary>\nList it.\n</details>\n\nI look.\n\n{call}",
        "an element's name": "The tag `<pre>` is closed.\n\n{call}",
        "a mark's name": "The mark `<tool_call>` begins a call. I send one.\n\n{call}",
    },
    "after quotations": {
        "a block quote": "> list it\n\nI do.\n\n{call}",
        "a block quote, ended by a blank": "> list it\n\n{call}",
        "a nested block quote": "> > list it\n> please\n\nI do.\n\n{call}",
        "a lazy block quote": "> list\nit\n\nI do.\n\n{call}",
        "a quoted name": "There is no file \"a.txt\". I list the folder.\n\n{call}",
        "typographic": "It says \u201cno such file\u201d. I list the folder.\n\n{call}",
        "a log": "The log says \"no such file\".\n\nI list the folder.\n\n{call}",
        "an example": "An example is in the README. I list the folder first.\n\n{call}",
        "apostrophes": "It's in the users' folder, isn't it? I look.\n\n{call}",
    },
    "after other prohibitions": {
        "not": "It is not there yet. I list the folder.\n\n{call}",
        "never": "I have never seen that error. Let me look:\n\n{call}",
        "don't worry": "Don't worry, I only list the folder.\n\n{call}",
        "do not worry": "Do not worry. Let me check:\n\n{call}",
        "a rule": "Never delete files, says the README. I only list them.\n\n{call}",
        "a rule, a paragraph before": "You said: do not write anything.\n\nI only list the folder.\n\n{call}",
        "I won't": "I won't change anything. I only look.\n\n{call}",
        "I don't know": "I don't know what is in the folder, so I list it.\n\n{call}",
        "cannot find": "I cannot find the file. Let me list the folder:\n\n{call}",
        "avoid": "To avoid mistakes I look first.\n\n{call}",
        "never mind": "Never mind, let me check:\n\n{call}",
        "may not work": "This may not work, but let me try:\n\n{call}",
        "does not work": "If that doesn't work, I'll try another way:\n\n{call}",
        "no match": "No file matches, so I search again:\n\n{call}",
        "I can't see": "I can't see the folder yet, so let me list it:\n\n{call}",
        "I won't guess": "I won't guess; I look:\n\n{call}",
    },
    "after other words of quoting": {
        "as you wrote": "As you wrote, the folder is src. I list it:\n\n{call}",
        "you asked": "You asked for the list. Let me get it:\n\n{call}",
        "for example": "For example, src may have it. Let me look:\n\n{call}",
        "it says": "It says that the folder is empty. I look:\n\n{call}",
    },
}  # fmt: skip
PAIRS = {
    "in sequence": "{call}\n{call}",
    "after words": "I look twice.\n\n{call}\n{call}",
    "after a colon": "Let me check both:\n\n{call}\n\n{call}\n",
}
VALUES = {
    "ticks": "echo `date` ``x`` ```y```",
    "a fence": "Text:\n```\nls\n```\nend",
    "block quote": "> quoted\n> twice\nand more",
    "quotation marks": "say \"x\" 'y' \u201cz\u201d \u00bbw\u00ab",
    "prohibition": "Do not write this.\nNever send:\n\nThe user wrote: x",
    "HTML": "<pre>\n<code>x</code>\n<!-- y",
    "unbalanced": 'a ` b " c ( d [ e { f',
}
JSON_FORMS = ("json", "kimi", "tags", "object", "command")
"""Forms with JSON arguments, so that a string can hold any text."""


def spelled(template: str, form: str) -> str:
    """Return the template with the form's call in it: unchanged, on one line, with block quote signs, or indented."""
    call = FORMS[form].call("run", COMMAND)
    lines = call.split("\n")
    indented = {f"indented{width}": "\n".join(" " * width + line for line in lines) for width in (3, 4)}
    quoted = "\n".join(f"> {line}" for line in lines)
    crlf = call.replace("\n", "\r\n")
    return template.format(call=call, line="\n", crlf=crlf, joined=call.replace("\n", ""), quoted=quoted, **indented)


def rows(table: dict[str, dict[str, str]]) -> list[Any]:
    return [pytest.param(text, id=f"{kind}: {name}") for kind, texts in table.items() for name, text in texts.items()]


def protocols_of(form: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("auto", FORMS[form].own)))


def wrong(template: str, calls: list[Any], forms: Iterable[str] = FORMS) -> list[str]:
    """List "FORM as PROTOCOL" for each reading that would run other calls than these."""
    return [
        f"{form} as {name}" for form in forms for name in protocols_of(form) if runnable(spelled(template, form), name) != calls
    ]


@pytest.mark.parametrize("template", rows(SHOWN))
def test_a_call_that_is_shown_does_not_run(template: str) -> None:
    assert wrong(template, []) == []


PROSE = [form for form in FORMS if form != "object"]
"""Forms that allow text beside a call: the JSON protocol does not (001-2)."""


def test_thinking_between_the_sentence_and_the_call_changes_nothing() -> None:
    assert wrong("Never send:\n<think>It deletes all.</think>\n{call}", [], PROSE) == []


@pytest.mark.parametrize("template", rows(ORDINARY))
def test_a_call_that_is_meant_runs(template: str) -> None:
    forms = FORMS if template.replace("{call}", "").isspace() or template == "{call}" else PROSE
    assert wrong(template, [("run", COMMAND)], forms) == []


@pytest.mark.parametrize("template", [pytest.param(text, id=name) for name, text in PAIRS.items()])
def test_two_calls_that_are_meant_run_in_order(template: str) -> None:
    """000-29"""
    assert wrong(template, [("run", COMMAND)] * 2, PROSE) == []


@pytest.mark.parametrize("before", ["", "I write the page.\n\n", "Let me write it:\n\n"])
@pytest.mark.parametrize("value", [pytest.param(text, id=name) for name, text in VALUES.items()])
def test_an_argument_is_kept_as_it_is(value: str, before: str) -> None:
    args = {"path": "a.md", "content": value}
    differing = {}
    for form in FORMS if not before else PROSE:
        for protocol in protocols_of(form):
            calls = runnable(before + FORMS[form].call("write", args), protocol)
            if calls != [("write", args)]:
                differing[form, protocol] = calls
    assert differing == {}


@pytest.mark.parametrize("template", ["{}", "The form is\n\n{}\n", "Do not write `{}`.", "> {}\n\n```\n{}\n```\n"])
@pytest.mark.parametrize("shown", FORMS)
def test_a_call_in_a_string_is_a_part_of_it(shown: str, template: str) -> None:
    args = {"path": "a.md", "content": template.replace("{}", FORMS[shown].call("run", COMMAND))}
    differing = {}
    for form in JSON_FORMS:
        for protocol in protocols_of(form):
            calls = runnable(FORMS[form].call("write", args), protocol)
            if calls != [("write", args)]:
                differing[form, protocol] = calls
    assert differing == {}
