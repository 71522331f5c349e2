"""An MCP server of the SDK: over its standard streams, or over HTTP with ``http PORT`` or ``sse PORT``."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("memory", version="1.0")


class Table(BaseModel):
    people: int
    window: bool


@server.tool(name="kom.memory.v1.upsert_memory", description="Store items.")
def upsert(namespace: str, items: list[Any]) -> dict[str, int]:
    return {"upserted": len(items)}


@server.tool()
async def slow(seconds: float, context: Context) -> str:
    """Wait."""
    for step in range(4):
        await context.report_progress(step + 1, 4, f"step {step + 1}")
        await asyncio.sleep(seconds / 4)
    return "done"


@server.tool()
async def book(context: Context) -> str:
    """Book a table."""
    found = await context.elicit("A table for you?", Table)
    return f"{found.action} {getattr(found, 'data', None)}"


def which_table() -> Elicit[Table]:
    return Elicit("Which table?", Table)


@server.tool()
async def reserve(name: str, table: Annotated[Table, Resolve(which_table)]) -> str:
    """Reserve a table."""
    return f"{name}: {table.people} {table.window}"


def which_colour() -> Sample:
    asked = SamplingMessage(role="user", content=TextContent(text="Which colour?"))
    return Sample([asked], max_tokens=50)


@server.tool()
async def paint(said: Annotated[CreateMessageResult, Resolve(which_colour)]) -> str:
    """Paint."""
    return f"painted: {getattr(said.content, 'text', '')}"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


@server.resource("memory://all", mime_type="application/json")
def everything() -> str:
    """Everything."""
    return '{"items": []}'


@server.prompt()
def review(code: str) -> str:
    """Review code."""
    return f"Review this: {code}"


if sys.argv[1:2] == ["http"]:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
elif sys.argv[1:2] == ["sse"]:
    server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("stdio")
