"""Every hook, declared in this one file. A plugin implements any of them with ``@toolcrib.hookimpl``; sync or async, as it likes.

    from toolcrib import Block, hookimpl

    @hookimpl
    def tool_gate(call, ctx):
        if call.name == "terminal" and "prod" in call.args["command"]:
            return Block("not on prod")

An implementation names only the arguments that it wants. A mistyped hook name is refused when the plugin loads.

A new hook is a method of one of the classes below, and the line that calls it: around a run
``await session.call_hook("NAME", ...)``, around a call a step of the dispatcher that asks ``plan.hooks.of("NAME")``, at setup a
function in ``adders`` of load_plugins. The checks of plugins, the order of calls and the reference go by the declaration.
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
"""Marks a function of a plugin as a hook, by its name. ``@hookimpl(tryfirst=True)`` goes before other plugins', ``trylast=True``
after them.
"""


class ToolHooks:
    """Around one call. Each is called for every plugin, isolated from the others."""

    @hookspec
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Decision | Awaitable[Decision | None] | None:
        """May this call run now? None means no objection.

        Pure and replayable: it is asked again after an answer, and after a restart. ``ctx.answer_to(binds)`` finds the answer
        to a ticket that it suspended with. One that raises, or does not answer in time, closes: the call is blocked. A worker
        thread calls a synchronous one, so that the time limit holds for it too.
        """

    @hookspec
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> Awaitable[None] | None:
        """Somebody answered a ticket of this call, before the gates are asked again. The gate that suspended records here what
        the answer grants. What it raises closes: the call is blocked."""

    @hookspec
    def pre_tool_call(self, call: ToolCall, ctx: ToolCallContext) -> Awaitable[None] | None:
        """The call is about to run. An observer: what it raises is logged, and the call goes on."""

    @hookspec
    def transform_tool_result(
        self, call: ToolCall, result: ToolResult, ctx: ToolCallContext
    ) -> ToolResult | Awaitable[ToolResult | None] | None:
        """Replace the result, before secrets are taken out and it is clipped. None leaves it.

        What it raises is logged; the result stands.
        """

    @hookspec
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> After | Awaitable[After | None] | None:
        """The result, as it will leave. Also for calls that were blocked or given a result. An observer.

        It may return an ``After``: changes of the session's state, events, actions for later. The result stands, whatever it
        returns; anything but an After or None is logged and left out.
        """


class RunHooks:
    """Around the loop. Observers: what they raise, or a late one, is logged, and the run goes on."""

    @hookspec
    def on_session_start(self, identity: RunIdentity) -> Awaitable[None] | None:
        """Before the first thing that happens in a session, in this process."""

    @hookspec
    def on_session_end(self, identity: RunIdentity) -> Awaitable[None] | None:
        """A session in which something happened is closed. Its environment is still there."""

    @hookspec
    def on_run_start(self, identity: RunIdentity) -> Awaitable[None] | None:
        """A run begins, or goes on after it was parked or its process ended. ``identity.run_id`` is its id."""

    @hookspec
    def on_run_end(self, identity: RunIdentity, stopped: str, error: str) -> Awaitable[None] | None:
        """The run does not go on in this process: ``stopped`` says why (done, parked, interrupted, max_turns ...), ``error`` is
        the class of what broke it off, "" where nothing did. Not called where the process is killed.
        """

    @hookspec
    def pre_llm_call(self, identity: RunIdentity, model: str, provider: str) -> Awaitable[None] | None:
        """A turn is asked for. Once a turn, however often a server that fails is asked again. ``model`` and ``provider`` are
        those that are asked, as the configuration names them.
        """

    @hookspec
    def post_llm_call(
        self, identity: RunIdentity, text: str, calls: int, model: str, usage: Mapping[str, int], finish: str
    ) -> Awaitable[None] | None:
        """The turn is there: its text, and how many calls it has. ``model`` is the server's name for what answered; ``usage`` and
        ``finish`` are as ProviderTurn has them.
        """

    @hookspec
    def on_llm_error(self, identity: RunIdentity, error: str) -> Awaitable[None] | None:
        """No turn came of ``pre_llm_call``: ``error`` is the class of what was raised, ``Cancelled`` where it was interrupted."""

    @hookspec
    def on_decision(self, decision: AuditEntry) -> Awaitable[None] | None:
        """The approval gate decided on a call that acts: ``at`` (Unix seconds), ``session_id``, ``call_id``, ``tool``,
        ``decision`` (allowed, granted, approved:SCOPE, denied, blocked), ``by`` and ``detail`` (keys, findings, command or paths,
        reason), without secrets. It was recorded before.
        """


class ProcessHooks:
    """Around all that a process does with a plugin. In one event loop, where things can be opened that last."""

    @hookspec
    def on_start(self) -> Awaitable[None] | None:
        """Before the first session of this process does anything, or when the host says ``await crib.start()``.

        Plugins are started one after another. What it raises, or a late one, is logged and reported with the plugin, whose tools
        and gates stay; the other plugins are started all the same.
        """

    @hookspec
    def on_stop(self) -> Awaitable[None] | None:
        """The process closes what it has; in the reverse order. Not called where ``on_start`` failed, or nothing was started.

        What it raises, or a late one, is logged.
        """


class SetupHooks:
    """Once, when the plugin is loaded."""

    @hookspec
    def configure(self, settings: Mapping[str, str], folder: Path, redact: Callable[[str], str]) -> None:
        """Before the other setup hooks: ``settings`` are ``plugins.settings.NAME`` of the configuration, as texts; ``folder`` is
        for files of the plugin's own, and is not made yet; ``redact`` takes out of a text the secrets that are known then. What
        it raises keeps the plugin from loading: one that must fail closed keeps it for its gate.
        """

    @hookspec
    def register_tools(self, registry: ToolRegistry) -> None:
        """Call ``registry.register(...)`` or ``registry.add(...)``. A tool of another's name needs the operator's leave."""

    @hookspec
    def register_toolsets(self, add: Callable[[str, Mapping[str, Any]], None]) -> None:
        """``add("weather", {"description": "...", "tools": ["forecast"], "includes": []})``."""

    @hookspec
    def register_command(self, add: Callable[[str, Any], None]) -> None:
        """``add("name", module)``: a subcommand of ``toolcrib``.

        The module has ``HELP`` (a line), ``configure(parser)``, which adds arguments to an argparse parser, and ``run(args)``,
        which returns the exit code.
        """

    @hookspec
    def register_slash(self, add: Callable[..., None]) -> None:
        """``add("sky", function)``: the command ``/sky`` of the chat in a terminal. ``add("sky", function, surfaces=["terminal",
        "chat"], role="owner")``: also of a gateway's chats, there for that role ("" for whoever may speak).

        Called with the text behind it and a RunIdentity, the function (sync or async) returns text to show, or None. A
        ToolcribError that it raises is told to the person. Its docstring's first line is its help.
        """

    @hookspec
    def register_environment(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """``add("name", factory)``: a backend, as a factory of toolcrib.Environment.

        It is called with the keyword argument cwd, the folder to start in.
        """

    @hookspec
    def register_provider(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """``add("name", factory)``: a model provider, as a factory of toolcrib.ProviderSession.

        It is called with the keyword arguments model, base_url ("" for its own), api_key ("" for none), system, tools, records,
        stream and max_tokens; later versions may give more, so it takes ``**more``. examples/hello-provider is one.
        """

    @hookspec
    def register_tool_source(self, add: Callable[[str, ToolSource], None]) -> None:
        """``add("name", source)``: a toolcrib.ToolSource, which brings tools that come and go, such as those of a server.

        It is started with the plugins, and stopped with them. A tool of a name that is taken is left out, and reported.
        """

    @hookspec
    def register_platform(self, add: Callable[[str, Callable[..., Any]], None]) -> None:
        """``add("telegram", factory)``: where people chat, as a factory of toolcrib.chat.Platform.

        It is called with the keyword arguments name and host (a toolcrib.chat.Host); later versions may give more, so it takes
        ``**more``.
        """


GROUPS = (ToolHooks, RunHooks, ProcessHooks, SetupHooks)


def declared_in(group: type) -> dict[str, Callable[..., Any]]:
    """Return the hooks of a group by name, as they are declared."""
    return {name: hook for name, hook in vars(group).items() if not name.startswith("_")}
