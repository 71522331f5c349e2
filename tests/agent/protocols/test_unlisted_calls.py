"""Calls in forms that no reader knows are reported to the model; answers about markup that name tools are answers."""

from __future__ import annotations

import pytest

from agent.protocols import NAMES, find_protocol
from tests.agent.protocols.markup_answers import TOOLS, answers
from tests.agent.protocols.reading import ran, read_whole

ANSWERS = answers()
UNLISTED = (
    '<|zeta_call|>terminal<|zeta_args|>{"command": "ls"}<|zeta_end|>',
    "<|zeta_call|>terminal<|zeta_key|>command<|zeta_value|>ls<|zeta_end|>",
    "<|zeta_call|>ping<|zeta_end|>",
    '<|zeta|>{"name": "terminal", "args": {"command": "ls"}}<|/zeta|>',
    "<zeta|call>terminal<zeta|key>command</zeta|key><zeta|value>ls</zeta|value></zeta|call>",
    "<zeta_tool_call>terminal<key>command</key><value>ls</value></zeta_tool_call>",
    '<zeta:tool_call name="terminal"><zeta:arg name="command">ls</zeta:arg></zeta:tool_call>',
    '<zeta:function_call>{"function": "terminal", "with": {"command": "ls"}}</zeta:function_call>',
    '<tool_use>\n<tool_name>terminal</tool_name>\n<parameters>{"command": "ls"}</parameters>\n</tool_use>',
    '<invoke tool="terminal"><command>ls</command></invoke>',
    "]<]zeta[>[<call terminal>]<]zeta[>[<command>ls]<]zeta[>[</command>",
    ']<]zeta[>[terminal]<]zeta[>[{"command": "ls"}',
    '<\uff5czeta\u2581call\uff5c>terminal<\uff5cargs\uff5c>{"command": "ls"}',
    '[TOOL_CALL]terminal {"command": "ls"}[/TOOL_CALL]',
    '[tool_call:terminal]\n{"command": "ls"}',
    '[tool_use name="terminal"]{"command": "ls"}[/tool_use]',
    '[tool_request]{"name": "terminal", "command": "ls"}[/tool_request]',
    '<<tool_call>>terminal(command="ls")<</tool_call>>',
    '{{tool_call}}terminal {"command": "ls"}{{/tool_call}}',
    'terminal<|zeta_args|>{"command": "ls"}',
    "ping<|zeta_args|>none",
    "terminal<|content_invoke_tool_text|>ls -a",
    "<read_file>\n<path>a.txt</path>\n</read_file>",
    '<|tool_calls|>terminal{"command": "ls"}',
    '<tool_call:ab12>terminal<args:ab12>{"command": "ls"}</args:ab12>',
    '[Calling tool: terminal({"command": "ls"})]',
    ': terminal({"command": "ls"})]',
    '[tool: terminal({"command": "ls"})]',
    '<tool: terminal( {"command": "ls"} )>',
    'Calling tool: terminal({"command": "ls"})',
    'Calling terminal({"command": "ls"})',
    'terminal({"command": "ls"})',
    '[Called function "terminal" with args: {"command": "ls"}]',
    '[Tool call: terminal, {"command": "ls"}]',
    '(terminal args {"command": "ls"})',
    "terminal\nls -alh /home\n[/terminal]",
    "[terminal]ls[/terminal]",
    "<terminal_command>\nls -la\n</terminal_command>",
    "<terminal-call>ls</terminal-call>",
    "<tool_terminal>\nls\n</tool_terminal>",
)


@pytest.mark.parametrize("before", ["", "I look.\n\n"])
@pytest.mark.parametrize("text", UNLISTED)
def test_a_call_in_an_unknown_form_is_reported(text: str, before: str) -> None:
    reply = read_whole(TOOLS, before + text, thinking="closed")
    assert ran(reply) == []
    assert reply.faults


@pytest.mark.parametrize("text", UNLISTED)
def test_one_that_is_shown_is_text(text: str) -> None:
    for whole in (f"It writes this:\n\n```\n{text}\n```\n\nThat is all.", f"~~~\n{text}\n~~~"):
        reply = read_whole(TOOLS, whole, thinking="closed")
        assert (reply.content, list(reply.calls), list(reply.faults)) == (whole, [], [])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "json_object"])
def test_no_answer_about_markup_is_a_call(name: str) -> None:
    """000-30"""
    assert len(ANSWERS) == 300
    for text in ANSWERS:
        reader = find_protocol(name).reader(TOOLS, thinking="closed")
        reader.feed(text)
        reply = reader.finish()
        assert (list(reply.calls), list(reply.faults)) == ([], []), text


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "todo", "type": "list"}', '[{"name": "terminal"}, {"name": "todo"}]', "terminal\n{\n  color: green;\n}",
        "terminal {\n  command bash\n}", "exec = <|terminal|>", "<terminal><command>ls</command></terminal>",
        '<tool name="terminal"><command>xterm</command></tool>', '<functions><function name="todo" type="x"/></functions>',
        '<method name="terminal"><arg name="command" type="s"/></method>', '{"terminal": {"command": "bash"}, "todo": {}}',
        "I opened the terminal<|zeta|>", "<!ELEMENT todo (item*)>", '<call method="terminal"/>',
        "<memory action=\"x\">y</memory>", 'Call it so: terminal({"command": "ls"})', 'terminal({"cmd": "ls"})',
        "<terminal_font>Mono</terminal_font>",
        'It has terminal({"command": "ls"})', 'For example:\n\nterminal({"command": "ls"})', "<my_terminal>xterm</my_terminal>",
        'terminal({"command": "ls"}).then(show)', 'Called terminal with arguments {"command": "ls"}',
        '[see terminal with args: {"command": "ls"} above]', '[Called "terminal" with args: {"cmd": "ls"}]',
        "The tag is [terminal]ls[/terminal]", "[b]\nterminal\n[/b]", "For example:\n\nterminal\nls\n[/terminal]",
    ],
)  # fmt: skip
def test_data_and_markup_with_the_name_of_a_tool_are_text(text: str) -> None:
    reply = read_whole(TOOLS, text, thinking="closed")
    assert (reply.content, list(reply.calls), list(reply.faults)) == (text, [], [])
