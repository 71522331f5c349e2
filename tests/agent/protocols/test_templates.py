"""Tests of detecting a model's call protocol from its chat template. The lines are made up; only the markers are real."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocols import NAMES
from agent.protocols.templates import protocol_of_template

TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"


@pytest.mark.parametrize(
    ("lines", "protocol"),
    [
        ('<tool_call>{"name": name, "arguments": {}}</tool_call>', "hermes"),
        ("<TOOLCALL>[{{ calls }}]</TOOLCALL>", "hermes"),
        ("<tool_call><function={{ name }}><parameter={{ key }}>v</parameter></function></tool_call>", "qwen_xml"),
        ("<seed:tool_call><function={{ name }}></function></seed:tool_call>", "qwen_xml"),
        ("<tool_call>{{ name }}<arg_key>{{ key }}</arg_key><arg_value>v</arg_value></tool_call>", "glm"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>", "kimi"),
        ("<|open|>tools<|sep|>{{ calls }}<|close|>tools<|sep|>", "kimi"),
        ("<\uff5ctool▁calls▁begin\uff5c><\uff5ctool▁call▁begin\uff5c>function", "deepseek"),
        ("{%- set mark = '\uff5cDSML\uff5c' -%}<{{ mark }}function_calls>", "deepseek"),
        ("[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS]{{ name }}[ARGS]", "mistral"),
        ("<|start|>assistant<|channel|>commentary to=functions.{{ name }}<|message|>", "harmony"),
        ("{%- set begin = '<minimax:tool_call>' -%}<invoke name=...>", "minimax"),
        ("]<]minimax[>[<tool_call>", "minimax"),
        ("<|channel>thought<channel|><|tool_call>call:{{ name }}{}<tool_call|>", "gemma"),
        ("<start_of_turn>model<start_function_call>call:{{ name }}", "gemma"),
        ("<start_of_turn>user\n{{ .Prompt }}<end_of_turn>", "gemma"),
        ("<|start_header_id|>ipython<|end_header_id|>{{ content }}", "llama_json"),
        ("<|start_header_id|>assistant<|end_header_id|><|python_tag|>", "llama_json"),
        ("<|header_start|>assistant<|header_end|><|python_start|>", "pythonic"),
        ("<|tool_list_start|>[...]<|tool_list_end|><|tool_call_start|>[{{ name }}()]<|tool_call_end|>", "pythonic"),
        ("<|start_of_role|>assistant<|end_of_role|><|tool_call|>[{{ calls }}]", "granite"),
        ("<|START_ACTION|>[{{ calls }}]<|END_ACTION|>", "granite"),
        ("<|im_start|>{{ role }}\n{{ content }}<|im_end|>", None),
        ("{{ .System }} {{ .Prompt }}", None),
        ("<|start_header_id|>{{ role }}<|end_header_id|>{{ content }}<|eot_id|>", None),
        ("", None),
    ],
)
def test_000_14_a_familys_markers_tell_its_protocol(lines: str, protocol: str | None) -> None:
    """000-14: the markers may have any text around them."""
    for template in (lines, f"{TOOLS}\n{lines}\n{{% for message in messages %}}"):
        assert protocol_of_template(template) == protocol
    assert protocol is None or protocol in NAMES


@given(st.text())
def test_any_text_is_a_template(text: str) -> None:
    assert protocol_of_template(text) in (None, *NAMES)
