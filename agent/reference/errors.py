"""Errors that toolcrib raises on purpose, with a remedy for each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from agent.reference.page import Page, code, doc_of

_WORDS = """\
Errors that toolcrib raises deliberately; all are subclasses of `ToolcribError`. The command line prints each with its fix and
exits with code 2 (1 if a model's server failed). Subclasses of `ToolError` end one call: its result has the reason, and the run
continues. In `toolcrib run --json` the name is the `kind` of an `error`."""

TO_DO: Mapping[str, str] = {
    "ToolcribError": "Read its text: it describes the problem, and the command or key that fixes it.",
    "ToolError": "Return its text to the model; raise a subclass if one fits.",
    "InvalidArguments": "Nothing: the model reads the problem and calls again. To see the schema: `toolcrib tools show NAME`.",
    "ExecutionFailed": "Read the result. If the tool needs something that is missing here, `toolcrib doctor` names it.",
    "Denied": "See who decided and why: `toolcrib approvals history`. To see who would decide now: `toolcrib explain 'COMMAND'`.",
    "NotFound": "Check the name: `toolcrib tools` lists tools, and why one is missing.",
    "Internal": "Report it, with the output of `toolcrib trace` and `toolcrib doctor`. An error in a plugin names the plugin.",
    "StateConflict": "Nothing: the call gets an error, because its change of the state was not stored. It can be repeated.",
    "Timeout": "Raise the limit of the call: its own `timeout`, or `tools.timeout` in the configuration.",
    "Cancelled": "Nothing: a user interrupted the call. Resume the session to continue.",
    "RegistrationError": "Fix the registration at the module, tool and JSON path in the message.",
    "ToolsetError": "List the names: `toolcrib toolsets`. If a toolset contains itself, the message has the whole chain.",
    "ConfigError": "Fix the file at the line and key in the message; `toolcrib config check` lists all errors at once.",
    "PluginError": "List plugins with their errors and fixes: `toolcrib plugins`.",
    "ProviderError": "Find the subclass below. To list the models of the configured servers: `toolcrib models`.",
    "ConnectionFailed": "Check that the server runs at `model.base_url`, and that no proxy or firewall cuts the connection.",
    "RateLimited": "Wait: toolcrib retries, up to `retry.attempts` times. If it persists, ask the vendor for a higher limit.",
    "Overloaded": "Wait: toolcrib retries. To use another model meanwhile, set `model.fallback`.",
    "AuthFailed": "Put a valid key into the variable of `model.api_key_env`, or into `secrets.env` beside the configuration.",
    "ContextTooLong": "Use `/compress` in the chat, or lower `compression.threshold`; `/new` starts a new session.",
    "BadRequest": "Read the server's message. Often the model's name is wrong, or it can't call tools: set `model.protocol`.",
    "StreamBroken": "Send the message again: the part of the reply that arrived is kept.",
    "EnvironmentFailed": "Find the problem: `toolcrib env test NAME`. A command that was running may have finished.",
    "StoreFailed": "Follow the message: free disk space, fix permissions, or run `toolcrib doctor --repair-store`.",
    "LeaseLost": "Continue in the process that has the session now.",
    "InvalidTransition": "Report it: a call was moved to a status that it cannot reach.",
    "RunError": "Find the subclass below. The conversation can continue: send another message.",
    "MaxTurnsReached": "Allow more turns (`max_turns`), or request an answer in the last one: `run.on_max_turns: final_answer`.",
    "TokenCapReached": "Raise `run.max_tokens`, or split the task.",
    "CostCapReached": "Raise `run.max_cost`, or split the task.",
    "NoProgress": "Check the last failed calls (`toolcrib trace`), then give the model the facts it lacks, or use another model.",
    "AnswerUnfit": "Use its `text`, or retry with a simpler schema, or with a model whose server enforces schemas.",
    "UnconfirmedConfig": "Run `toolcrib config confirm` at a terminal. A program that trusts a file passes it as `config=`.",
    "NotSent": "Nothing: the gateway sends it again, unless it is `for_good`. To see failures: `toolcrib gateway status`.",
}


def pages() -> Iterator[Page]:
    """Yield the single page of all errors."""
    from agent.conversation import limits
    from agent.policy import confirmation
    from toolcrib.contract import chat, errors
    from toolcrib.contract.errors import ToolcribError

    found = [
        one
        for module in (errors, limits, confirmation, chat)
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, ToolcribError) and one.__module__ == module.__name__
    ]
    lines = ["# Errors", "", _WORDS, ""]
    for error in found:
        code_name = getattr(error, "code", "")
        parents = [one.__name__ for one in error.__mro__[1:] if issubclass(one, ToolcribError)]
        lines += [f"## {code(error.__name__)}", "", doc_of(error), ""]
        lines += [f"It is {' and '.join(code(one) for one in parents)}." if parents else "", ""]
        own = {errors.__name__: "toolcrib", chat.__name__: "toolcrib.chat"}.get(error.__module__, error.__module__)
        lines += [f"Import it from {code(own)}.", ""]
        lines += [f"Kind in a result: {code(code_name)}.", ""] if code_name else []
        lines += [f"What to do: {TO_DO[error.__name__]}", ""]
    yield Page("reference/errors", "\n".join(lines))
