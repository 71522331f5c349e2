"""Recognises the text protocol of a model's chat template, only by markers: a template is never run, and never shown.

llama.cpp (common/chat.cpp, and models/templates there) and vLLM (vllm/tool_parsers) distinguish the families by these markers.
"""

from __future__ import annotations

_MARKERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("deepseek", ("<\uff5ctool▁calls▁begin\uff5c>",)),
    ("deepseek", ("\uff5cDSML\uff5c",)),
    ("kimi", ("<|tool_calls_section_begin|>",)),
    ("kimi", ("<|open|>", "<|close|>", "<|sep|>")),
    ("qwen_xml", ("<atem:function_calls>",)),
    ("harmony", ("<|channel|>",)),
    ("minimax", ("<minimax:tool_call>",)),
    ("minimax", ("]<]minimax[>[",)),
    ("mistral", ("[TOOL_CALLS]",)),
    ("gemma", ("<|tool_call>",)),
    ("gemma", ("<start_function_call>",)),
    ("glm", ("<arg_key>",)),
    ("glm", ("<longcat_tool_call>",)),
    ("glm", ("<ifm|tool_call>",)),
    ("qwen_xml", ("<function=",)),
    ("qwen_xml", ("<function name=",)),
    ("qwen_xml", ("<seed:tool_call>",)),
    ("qwen_xml", ("<\uff5ctool_calls_begin\uff5c>",)),
    ("qwen_xml", ("<dots_function_call>",)),
    ("pythonic", ("<|tool_call_start|>",)),
    ("pythonic", ("<|python_start|>",)),
    ("pythonic", ("<function_calls>",)),
    ("hermes", ("<tool_call>",)),
    ("hermes", ("<TOOLCALL>",)),
    ("hermes", ("<tool_calls>",)),
    ("granite", ("<|tool_call|>",)),
    ("granite", ("functools[",)),
    ("granite", ("<|START_ACTION|>",)),
    ("granite", ("<|tools_prefix|>",)),
    ("granite", ("<|action_start|>",)),
    ("granite", ("<|function_call|>",)),
    ("granite", ("function call<|role_sep|>",)),
    ("granite", ("<|tool_call:begin|>",)),
    ("granite", ("<|plamo:begin_tool_request:plamo|>",)),
    ("granite", ("<|content_invoke_tool_json|>",)),
    ("llama_json", ("<|python_tag|>",)),
    ("llama_json", ("<|start_header_id|>", "ipython")),
    ("gemma", ("<start_of_turn>",)),
)
"""The first row whose markers are all in the template decides.

Markers of a single family come before shared ones: GLM, Qwen3-Coder and others have ``<tool_call>`` too. The last
row is for Gemmas without training on tools, which write the tags of their prompt in their own ways.
"""


def protocol_of_template(template: str) -> str | None:
    """Return the name of a protocol in ``agent.protocols``, or None if the template (Jinja, or Ollama's Go) has no markers."""
    return next((name for name, markers in _MARKERS if all(marker in template for marker in markers)), None)
