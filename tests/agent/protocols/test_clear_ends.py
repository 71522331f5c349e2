"""Calls without a clear end: values that hold calls or their ends, misspelt ends, and repeated keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.agent.protocols.reading import has_fault, ran
from tests.agent.protocols.test_shown_calls import BAR, RM, read

Format = Callable[[str, dict[str, str]], str]


def _xml(begin: str, call: str, arg: str, ns: str = "", line: str = "") -> Format:
    """Return a format; ``call`` and ``arg`` are its opening tags, ``begin`` the text around the call."""

    def text(name: str, args: dict[str, str]) -> str:
        ends = f"</{ns}{arg.split('{')[0].strip('=').split()[0]}>", f"</{ns}{call.split('{')[0].strip('=').split()[0]}>"
        inner = "".join(f"<{ns}{arg.format(key)}>{line}{value}{line}{ends[0]}\n" for key, value in args.items())
        return begin.format(f"<{ns}{call.format(name)}>\n{inner}{ends[1]}")

    return text


def _glm(name: str, args: dict[str, str]) -> str:
    pairs = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in args.items())
    return f"<tool_call>{name}\n{pairs}</tool_call>"


_STEP = (
    f"<{BAR}tool_calls_begin{BAR}><{BAR}tool_call_begin{BAR}>function<{BAR}tool_sep{BAR}>{{}}"
    f"<{BAR}tool_call_end{BAR}><{BAR}tool_calls_end{BAR}>"
)
_DSML = f"{BAR}DSML{BAR}"
FORMATS: dict[str, Format] = {
    "qwen3-coder": _xml("<tool_call>\n{}\n</tool_call>", "function={}", "parameter={}", line="\n"),
    "seed-oss": _xml("<seed:tool_call>\n{}\n</seed:tool_call>", "function={}", "parameter={}"),
    "deepseek": _xml(
        f"<{_DSML}function_calls>\n{{}}\n</{_DSML}function_calls>", 'invoke name="{}"', 'parameter name="{}"', _DSML
    ),
    "minimax": _xml("<minimax:tool_call>\n{}\n</minimax:tool_call>", 'invoke name="{}"', 'parameter name="{}"'),
    "invokes": _xml("<function_calls>\n{}\n</function_calls>", 'invoke name="{}"', 'parameter name="{}"'),
    "step": _xml(_STEP, 'invoke name="{}"', 'parameter name="{}"', "steptml:"),
    "glm": _glm,
}
DOCUMENTS = (
    "{0}",
    "See:\n{0}\nend",
    "{0}\n{0}",
    "1\n{0}\n2\n{0}\n3\n{0}\n",
    "```\n{0}\n```\n\nor\n\n```\n{0}\n```\n",
    "{0}{0}{0}",
)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("family", FORMATS)
def test_no_call_runs_that_a_document_shows(family: str, document: str) -> None:
    write = FORMATS[family]
    args = {"path": "p", "content": document.format(write("run", {"command": "rm"}))}
    written, first, last = ("write", args), ("run", {"command": "ls"}), ("now", {})
    text = write(*written)
    for calls in ([written], [first, written], [written, last], [first, written, last]):
        reply = read("\n".join(text if call is written else write(*call) for call in calls))
        if written in ran(reply):
            assert ran(reply) == calls
        else:
            assert ran(reply) in ([], [first])
            assert has_fault(reply)


@pytest.mark.parametrize("family", FORMATS)
def test_a_value_with_the_end_of_a_call_is_not_written_in_part(family: str) -> None:
    write = FORMATS[family]
    example = write("run", {"command": "rm"})
    for content in (example[example.index("rm") :], "a\n```\n" + example[example.index("rm") :] + "\n```\nb\n```\nc\n```\n"):
        reply = read(write("write", {"path": "p", "content": content}))
        assert ran(reply) == []
        assert has_fault(reply)


@pytest.mark.parametrize("quote", ["<escape>", '<|"|>'])
def test_a_quoted_value_with_the_end_of_a_call_is_not_written_in_part(quote: str) -> None:
    reply = read(f"<|tool_call>call:write{{content:{quote}a{quote}}}<tool_call|>{quote}}}<tool_call|>")
    assert ran(reply) == []
    assert has_fault(reply)


@pytest.mark.parametrize("family", FORMATS)
def test_words_about_an_end_of_an_argument_stop_no_call(family: str) -> None:
    call = FORMATS[family]("run", {"command": "rm"})
    assert ran(read(f"{call}\nI closed it with `</parameter>` and `</arg_value>`.")) == RM


def test_a_broken_call_without_arguments_stops_no_other() -> None:
    call = FORMATS["qwen3-coder"]("run", {"command": "rm"})
    assert ran(read(f"<tool_call>\noh no\n</tool_call>\n{call}")) == RM


MISSPELT = ("</command>", "</parameter=command>", '</parameter name="command">', "</Parameter>", "</PARAMETER>", "</param>")
UNCLEAR = ("</arg>", "</value>", "</parameter=timeout>", "</div>")


@pytest.mark.parametrize("family", FORMATS)
@pytest.mark.parametrize("end", [*MISSPELT, *UNCLEAR])
def test_a_misspelt_end_is_no_part_of_a_value(end: str, family: str) -> None:
    text = FORMATS[family]("run", {"command": "ls", "timeout": "5"})
    at = text.index("</", text.index("ls"))
    reply = read(text[:at] + end + text[text.index(">", at) + 1 :])
    assert ran(reply) == ([("run", {"command": "ls", "timeout": 5})] if end in MISSPELT else [])
    assert has_fault(reply) == (end in UNCLEAR)


@pytest.mark.parametrize("family", FORMATS)
def test_an_element_of_the_name_of_its_argument_is_not_cut(family: str) -> None:
    text = FORMATS[family]("run", {"command": "<command>ls</command>", "timeout": "5"})
    assert ran(read(text)) == [("run", {"command": "<command>ls</command>", "timeout": 5})]
    at = text.index("</", text.index("</command>") + 2)
    assert ran(read(text[:at] + text[text.index(">", at) + 1 :])) == []


def test_an_argument_of_kimi_that_is_not_closed_takes_no_other_in() -> None:
    reply = read(
        '<|open|>tools<|sep|><|open|>call tool="run"<|sep|><|open|>argument key="command" type="string"<|sep|>ls<|close|>arg'
        '<|sep|><|open|>argument key="timeout" type="integer"<|sep|>5<|close|>argument<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|>"
    )
    assert ran(reply) == []
    assert has_fault(reply)


@pytest.mark.parametrize("name", ["command", "auto"])
@pytest.mark.parametrize("call", ["@run", "@tool run"])
def test_a_key_that_stands_twice_in_a_command_runs_nothing(call: str, name: str) -> None:
    reply = read(f'{call} {{"command": "ls", "command": "rm"}}', name)
    assert ran(reply) == []
    assert "twice" in (reply.calls[0].fault or "")


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("opening", ["functools[", "Action: ```json\n[", "Action:\n```json\n["])
def test_a_call_in_a_code_block_that_is_cut_off_is_told(opening: str, truncated: bool) -> None:
    for words in ("", "I look.\n"):
        reply = read(words + opening + '{"name": "run", "arguments": {"command": "make', truncated=truncated)
        assert ran(reply) == []
        assert has_fault(reply)
    assert not has_fault(read(opening + '{"name": "other", "arguments": {"command": "make', truncated=truncated))


def test_a_last_line_that_only_names_a_tool_is_told() -> None:
    reply = read("I look at the clock.\n@now", "command")
    assert ran(reply) == []
    assert has_fault(reply)
    assert not has_fault(read("@now\nis how you ask for the time, and with a command:\n@run", "command"))
