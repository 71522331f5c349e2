"""Every hook, declared in this one file. A plugin implements any of them with ``@toolcrib.hookimpl``, sync or async.

    from toolcrib import Block, hookimpl

    @hookimpl
    def tool_gate(call, ctx):
        if call.name == "terminal" and "prod" in call.args["command"]:
            return Block("not on prod")

An implementation names only the arguments that it wants. A mistyped hook name is refused when the plugin loads.

To add a hook, add a method to one of the classes below, and the code that calls it: ``await session.call_hook("NAME", ...)`` for
a hook around a run, a step of the dispatcher that asks ``plan.hooks.of("NAME")`` for a hook around a call, a function in
``adders`` of load_plugins for a setup hook. The checks of plugins, the order of calls and the reference follow the declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from toolcrib.contract.after import After
    from toolcrib.contract.context import RunIdentity, ToolCallContext
    from toolcrib.contract.decision import Decision
    from toolcrib.contract.entry import ToolEntry
    from toolcrib.contract.records import AuditEntry
    from toolcrib.contract.registry import ToolRegistry
    from toolcrib.contract.tool_sources import ToolSource
    from toolcrib.contract.types import Answer, SuspendTicket, ToolCall, ToolResult

hookspec = pluggy.HookspecMarker("toolcrib")
hookimpl = pluggy.HookimplMarker("toolcrib")
"""Marks a function of a plugin as a hook, by its name. With ``@hookimpl(tryfirst=True)`` it runs before other plugins'
implementations, with ``trylast=True`` after them.
"""


class ToolHooks:
    """Hooks around one call. Each plugin's implementation is called in isolation from those of other plugins."""

    @hookspec
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Decision | Awaitable[Decision | None] | None:
        """Decide whether this call may run now. None means no objection.

        It must be pure and replayable: it is asked again after an answer, and after a restart. ``ctx.answer_to(binds)`` returns
        the answer to a ticket that it suspended the call with. If it raises or exceeds its time limit, the call is blocked. A
        sync implementation runs in a worker thread, so that the time limit holds for it too.
        """

    @hookspec
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> Awaitable[None] | None:
        """A ticket of this call was answered; the gates are not asked again yet. The gate that suspended the call records here
        what the answer grants. If it raises, the call is blocked.
        """

    @hookspec
    def pre_tool_call(self, call: ToolCall, ctx: ToolCallContext) -> Awaitable[None] | None:
        """The call is about to run. An observer: an exception is logged, and the call continues."""

    @hookspec
    def transform_tool_result(
        self, call: ToolCall, result: ToolResult, ctx: ToolCallContext
    ) -> ToolResult | Awaitable[ToolResult | None] | None:
        """Return another result, before secrets are removed and the result is clipped; None keeps the result.

        An exception is logged, and the result stays.
        """

    @hookspec
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> After | Awaitable[After | None] | None:
        """The final result, even of calls that a gate blocked or gave a result. An observer.

        It may return an ``After``: changes of the session's state, events, functions to call later. The result never changes; any
        other return value than an After or None is logged and ignored.
        """


class RunHooks:
    """Hooks around the agent loop. Observers: an exception or an exceeded time limit is logged, and the run continues."""

    @hookspec
    def on_session_start(self, identity: RunIdentity) -> Awaitable[None] | None:
        """A session starts in this process. Nothing else has happened in it yet."""

    @hookspec
    def on_session_end(self, identity: RunIdentity) -> Awaitable[None] | None:
        """A session that did something is closed. Its environment still exists."""

    @hookspec
    def on_run_start(self, identity: RunIdentity) -> Awaitable[None] | None:
        """A run begins, or continues after it was parked or its process ended. ``identity.run_id`` is its id."""

    @hookspec
    def on_run_end(self, identity: RunIdentity, stopped: str, error: str) -> Awaitable[None] | None:
        """The run ends or pauses in this process: ``stopped`` is the reason (done, parked, interrupted, max_turns ...), ``error``
        the class of the exception that ended it, "" for none. Not called if the process is killed.
        """

    @hookspec
    def pre_llm_call(self, identity: RunIdentity, model: str, provider: str) -> Awaitable[None] | None:
        """A turn is requested: called once per turn, however often the request is retried. ``model`` and ``provider`` are those
        of the request, as the configuration names them.
        """

    @hookspec
    def post_llm_call(
        self, identity: RunIdentity, text: str, calls: int, model: str, usage: Mapping[str, int], finish: str
    ) -> Awaitable[None] | None:
        """A turn arrived: its text and the number of its calls. ``model`` is the server's name for the model that answered;
        ``usage`` and ``finish`` are those of ProviderTurn.
        """

    @hookspec
    def on_llm_error(self, identity: RunIdentity, error: str) -> Awaitable[None] | None:
        """The turn that ``pre_llm_call`` announced failed: ``error`` is the class of the exception, ``Cancelled`` if it was
        interrupted.
        """

    @hookspec
    def on_decision(self, decision: AuditEntry) -> Awaitable[None] | None:
        """The approval gate decided on a call that acts: ``at`` (Unix seconds), ``session_id``, ``call_id``, ``tool``,
        ``decision`` (allowed, granted, approved:SCOPE, denied, blocked), ``by`` and ``detail`` (keys, findings, command or
        paths, reason), without secrets. The decision is already recorded.
        """


class ProcessHooks:
    """Hooks around the use of a plugin in a process. They run in one event loop, so they can open lasting resources."""

    @hookspec
    def on_start(self) -> Awaitable[None] | None:
        """Before the first session of this process does anything, or when the host calls ``await crib.start()``.

        Plugins start one after another. An exception or an exceeded time limit is logged and reported with the plugin, whose
        tools and gates stay; the other plugins still start.
        """

    @hookspec
    def on_stop(self) -> Awaitable[None] | None:
        """The process closes its plugins, in reverse order. Not called if ``on_start`` failed, or if nothing was started.

        An exception or an exceeded time limit is logged.
        """


class SetupHooks:
    """Hooks that are called once, when the plugin is loaded."""

    @hookspec
    def configure(self, settings: Mapping[str, str], folder: Path, redact: Callable[[str], str]) -> None:
        """Called before the other setup hooks. ``settings`` are ``plugins.settings.NAME`` of the configuration, as strings;
        ``folder`` is for the plugin's own files, and does not exist yet; ``redact`` removes the secrets known at that time
        from a text. An exception keeps the plugin from loading: a plugin that must fail closed catches it, and blocks calls
        in its gate.
        """

    @hookspec
    def register_tools(self, registry: ToolRegistry) -> None:
        """Call ``registry.register(...)`` or ``registry.add(...)``. Replacing another tool of the same name needs the operator's
        permission.
        """

    @hookspec
    def register_toolsets(self, add: Callable[[str, Mapping[str, Any]], None]) -> None:
        """Call ``add("weather", {"description": "...", "tools": ["forecast"], "includes": []})``."""

    @hookspec
    def register_command(self, add: Callable[[str, Any], None]) -> None:
        """Call ``add("name", module)`` to add a subcommand of ``toolcrib``.

        The module has ``HELP`` (a line), ``configure(parser)``, which adds arguments to an argparse parser, and ``run(args)``,
        which returns the exit code.
        """

    @hookspec
    def register_slash(self, add: Callable[..., None]) -> None:
        """Call ``add("sky", function)`` to add the command ``/sky`` to the chat in a terminal. With
        ``surfaces=["terminal", "chat"]`` and ``role="owner"`` it is also added to a gateway's chats, for users of that role
        ("" for every user who may speak).

        The function (sync or async) is called with the text after the command and a RunIdentity, and returns text to show, or
        None. If it raises a ToolcribError, the user sees its message. The first line of its docstring is the command's help.
        """

    @hookspec
    def register_environment(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """Call ``add("name", factory)`` to add a backend: a factory of toolcrib.Environment.

        The factory is called with the keyword argument cwd, the folder to start in.
        """

    @hookspec
    def register_provider(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """Call ``add("name", factory)`` to add a model provider: a factory of toolcrib.ProviderSession.

        The factory is called with the keyword arguments model, base_url ("" for its own), api_key ("" for none), system, tools,
        records, stream and max_tokens; later versions may pass more, so it takes ``**more``. See examples/hello-provider.
        """

    @hookspec
    def register_tool_source(self, add: Callable[[str, ToolSource], None]) -> None:
        """Call ``add("name", source)`` to add a toolcrib.ToolSource, whose tools may change, such as those of a server.

        The source starts and stops with the plugins. A tool whose name is taken is left out, and reported.
        """

    @hookspec
    def register_platform(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """Call ``add("telegram", factory)`` to add a chat service: a factory of toolcrib.chat.Platform.

        The factory is called with the keyword arguments name and host (a toolcrib.chat.Host); later versions may pass more, so it
        takes ``**more``.
        """


GROUPS = (ToolHooks, RunHooks, ProcessHooks, SetupHooks)


def declared_in(group: type) -> dict[str, Callable[..., Any]]:
    """Return the hooks of a group by name, in the order of declaration."""
    return {name: hook for name, hook in vars(group).items() if not name.startswith("_")}
