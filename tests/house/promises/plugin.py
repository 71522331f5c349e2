"""A plugin of version 1: it implements every hook that observes or decides, with all arguments, and adds one of each kind."""

from pathlib import Path

from toolcrib import After, Block, RunsCommand, StateKey, StateUpdate, ToolCallContext, ToolOutput, ToolResult, hookimpl, tool

SEEN = Path("seen.txt")
COUNT = StateKey("kept-sample.count", int)


def seen(*words: object) -> None:
    with SEEN.open("a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


@hookimpl
def configure(settings, folder, redact):
    seen("configure", settings["greeting"], isinstance(folder, Path), redact("plain"))


@hookimpl
def register_tools(registry):
    @tool(toolset="kept", state=[COUNT], registry=registry)
    def greet(name: str, ctx: ToolCallContext) -> ToolOutput:
        """Greet somebody.

        Args:
            name: Whom.
        """
        assert ctx.state(COUNT) is None
        more = StateUpdate(lambda count: (count or 0) + 1)
        return ToolOutput(ToolResult.success("greet", f"Hello, {name}!"), [(COUNT, more)])

    registry.register(
        name="shout",
        toolset="kept",
        schema={"name": "shout", "description": "Shout.", "parameters": {"type": "object", "properties": {}}},
        handler=lambda args, **_: '{"said": "HELLO"}',
        check_fn=lambda: True,
        requires_env=[],
        is_async=False,
        description="Shout.",
        emoji="!",
    )


@hookimpl
def register_toolsets(add):
    add("kept-set", {"description": "Both.", "tools": ["greet", "shout"], "includes": []})


@hookimpl
def register_slash(add):
    add("kept", lambda text, identity: f"said {text} on {identity.platform}")


@hookimpl
def tool_gate(call, entry, ctx):
    seen("tool_gate", call.name, entry.name, ctx.call_id == call.id)
    if any(isinstance(effect, RunsCommand) and "forbidden" in effect.command for effect in ctx.effects):
        return Block("not here")
    return None


@hookimpl
def pre_tool_call(call, ctx):
    seen("pre_tool_call", call.name, ctx.run_identity.platform)


@hookimpl
def transform_tool_result(call, result, ctx):
    if call.name == "shout":
        return ToolResult.success(call.name, "quiet")
    return None


@hookimpl
async def post_tool_call(call, result, ctx):
    seen("post_tool_call", call.name, result.is_success)
    return After()


@hookimpl
def on_session_start(identity):
    seen("on_session_start", identity.platform)


@hookimpl
def on_session_end(identity):
    seen("on_session_end", identity.platform)


@hookimpl
def on_run_start(identity):
    seen("on_run_start", bool(identity.session_id))


@hookimpl
def on_run_end(identity, stopped, error):
    seen("on_run_end", stopped, error)


@hookimpl
def pre_llm_call(identity, model, provider):
    seen("pre_llm_call", model, provider)


@hookimpl
def post_llm_call(identity, text, calls, model, usage, finish):
    seen("post_llm_call", text, calls, model, finish)


@hookimpl
def on_decision(decision):
    seen("on_decision", decision.decision, decision.by)


@hookimpl
def on_start():
    seen("on_start")


@hookimpl
def on_stop():
    seen("on_stop")
