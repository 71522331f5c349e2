"""``clarify``: ask the user a question; the answer is the call's result."""

from __future__ import annotations

from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.types import SuspendTicket, ToolResult
from tools.registry import registry

MOST_CHOICES = 4


def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Return PENDING with a ticket whose text answer becomes the result. Choices are suggestions: any text is a valid answer.

    Raises InvalidArguments for an empty question, and for empty, equal or too many choices.
    """
    question = args["question"].strip()
    choices = [choice.strip() for choice in args.get("choices") or ()]
    if not question:
        raise InvalidArguments("question: empty; write the question")
    if not all(choices) or len(set(choices)) < len(choices) or len(choices) > MOST_CHOICES:
        raise InvalidArguments(f"choices: at most {MOST_CHOICES}, all different and none empty, or leave them out")
    ticket = SuspendTicket(
        action="clarify",
        message=question,
        call=ctx.call,
        parameters={"choices": choices},
        response_schema={"type": "string", "minLength": 1, **({"examples": choices} if choices else {})},
        resume_mode="use_as_result",
    )
    return ToolResult.suspended_with(ctx.tool_name, question, ticket)


registry.register(
    name="clarify",
    toolset="clarify",
    schema={
        "description": "Ask the user a question if the task can't continue without the answer.",
        "parameters": {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": 4000},
                "choices": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 500},
                    "maxItems": MOST_CHOICES,
                    "description": "Suggested answers; the user may give another.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
    },
    handler=handle,
    kind="other",
    changes="nothing",
    interactive=True,
    emoji="❓",
    display=ToolDisplay(verb="asks", subject=("question",)),
)
