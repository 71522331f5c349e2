"""A server's resources and prompts as tools. Their names contain a slash, which names of a server's own tools can't."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ServerCapabilities

_CURSOR: Mapping[str, Json] = {"cursor": {"type": "string", "description": "The `next` of the page before."}}


def _definition(name: str, description: str, properties: Mapping[str, Json], required: list[str]) -> dict[str, Json]:
    schema = {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": schema}


_RESOURCES = (
    _definition("resources/list", "List the resources of this server: what it lets you read.", _CURSOR, []),
    _definition("resources/read", "Read a resource of this server.", {"uri": {"type": "string"}}, ["uri"]),
)
_PROMPTS = (
    _definition("prompts/list", "List the prompts of this server: texts that it prepares for a task.", _CURSOR, []),
    _definition(
        "prompts/get",
        "Get a prompt of this server.",
        {"name": {"type": "string"}, "arguments": {"type": "object", "additionalProperties": {"type": "string"}}},
        ["name"],
    ),
)


def extra_tools(capabilities: ServerCapabilities) -> list[Mapping[str, Json]]:
    """Return the definitions of the tools that stand for a server's resources and prompts."""
    resources = _RESOURCES if capabilities.resources is not None else ()
    return [*resources, *(_PROMPTS if capabilities.prompts is not None else ())]


def offered_name(server: str, name: str) -> str:
    """Return the name that models call: ``SERVER.read_resource``."""
    what, _, verb = name.partition("/")
    return f"{server}.{verb}_{what if verb == 'list' else what.removesuffix('s')}"


async def call_extra(client: Client, name: str, args: Mapping[str, Any]) -> CallToolResult:
    """Run one of these tools. Raises what the SDK raises."""
    found: CallToolResult = await _CALLS[name](client, args)
    return found


async def _list_resources(client: Client, args: Mapping[str, Any]) -> CallToolResult:
    page = await client.list_resources(cursor=args.get("cursor"))
    found: dict[str, Json] = {"resources": [_shown(one) for one in page.resources]}
    if not args.get("cursor"):
        templates = await client.list_resource_templates()
        found |= {"templates": shown} if (shown := [_shown(one) for one in templates.resource_templates]) else {}
    return _structured(found, page.next_cursor)


async def _read_resource(client: Client, args: Mapping[str, Any]) -> CallToolResult:
    from mcp_types import CallToolResult, EmbeddedResource

    found = await client.read_resource(args["uri"])
    return CallToolResult(content=[EmbeddedResource(resource=one) for one in found.contents])


async def _list_prompts(client: Client, args: Mapping[str, Any]) -> CallToolResult:
    page = await client.list_prompts(cursor=args.get("cursor"))
    return _structured({"prompts": [_shown(one) for one in page.prompts]}, page.next_cursor)


async def _get_prompt(client: Client, args: Mapping[str, Any]) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    found = await client.get_prompt(args["name"], args.get("arguments"))
    content: list[Any] = []
    for message in found.messages:
        content += [TextContent(text=f"{message.role}:"), message.content]
    return CallToolResult(content=content)


_CALLS: Mapping[str, Callable[[Any, Mapping[str, Any]], Awaitable[Any]]] = {
    "resources/list": _list_resources,
    "resources/read": _read_resource,
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
}
EXTRA_TOOLS = frozenset(_CALLS)


def _shown(model: Any) -> Json:
    data: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return data


def _structured(found: dict[str, Json], cursor: str | None) -> CallToolResult:
    from mcp_types import CallToolResult

    return CallToolResult(content=[], structured_content={**found, **({"next": cursor} if cursor else {})})
