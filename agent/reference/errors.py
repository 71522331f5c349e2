"""Errors that toolcrib raises on purpose, with a remedy for each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from agent.reference.page import Page, code, doc_of

_WORDS = """\
What toolcrib raises on purpose; all are `ToolcribError`. At the command line each is told in words that name the fix, and
ends with the exit code 2 (1 where a model's server failed). Those below `ToolError` end one call: its result says why, and
the run goes on. In `toolcrib run --json` the name stands as `kind` of an `error`."""

TO_DO: Mapping[str, str] = {
    "ToolcribError": "Read its text: it names what is wrong, and the command or key that mends it.",
    "ToolError": "Return its text to the model; raise one of those below where one fits.",
    "InvalidArguments": "Nothing: the model reads what is wrong and calls again. `toolcrib tools show NAME` has the schema.",
    "ExecutionFailed": "Read the result. Where the tool needs something that is missing here, `toolcrib doctor` names it.",
    "Denied": "`toolcrib approvals history` says who decided and why; `toolcrib explain 'COMMAND'` how it would be judged now.",
    "NotFound": "Look at the name: `toolcrib tools` lists tools, and why one is missing.",
    "Internal": "Report it, with the output of `toolcrib trace` and `toolcrib doctor`. A plugin's fault names the plugin.",
    "StateConflict": "Nothing: the call is told that what it wrote to the state was not kept, and may be made again.",
    "Timeout": "Give the call longer: its own `timeout`, or `tools.timeout` in the configuration.",
    "Cancelled": "Nothing: somebody interrupted. The session goes on where it is resumed.",
    "RegistrationError": "Mend the registration at the module, tool and JSON path that it names.",
    "ToolsetError": "`toolcrib toolsets` lists the names; one that contains itself is named with the way round.",
    "ConfigError": "Mend the file at the line and key that it names; `toolcrib config check` finds all faults at once.",
    "PluginError": "`toolcrib plugins` says what keeps the plugin out, and what to do.",
    "ProviderError": "Read which of those below it is. `toolcrib models` asks the configured servers what they offer.",
    "ConnectionFailed": "See that the server runs at `model.base_url`, and that nothing between cuts the connection.",
    "RateLimited": "Wait: it is asked again by itself, as `retry.attempts` says. Ask the vendor for more where it stays so.",
    "Overloaded": "Wait: it is asked again by itself. `model.fallback` names another model for then.",
    "AuthFailed": "Put a good key where `model.api_key_env` says: the environment, or `secrets.env` beside the configuration.",
    "ContextTooLong": "`/compress` in the chat, or set `compression` so that it comes earlier; `/new` begins anew.",
    "BadRequest": "Read the server's words. Often the model's name is wrong, or it takes no tools: `model.protocol` then helps.",
    "StreamBroken": "Ask again: what had come is kept as the reply's beginning.",
    "EnvironmentFailed": "`toolcrib env test NAME` says what is wrong there. A command that was under way may have run.",
    "StoreFailed": "Do what it says of the file: free the disk, own the folder, or `toolcrib doctor --repair-store`.",
    "LeaseLost": "Go on in the process that has the session now.",
    "InvalidTransition": "Report it: a call was asked to move to a status that it may not reach.",
    "RunError": "Read which of those below it is. The conversation can go on: say something, or ask again.",
    "MaxTurnsReached": "Give it more turns (`max_turns`), or have it answer at the last one: `run.on_max_turns: final_answer`.",
    "TokenCapReached": "Raise `run.max_tokens`, or ask for less at once.",
    "CostCapReached": "Raise `run.max_cost`, or ask for less at once.",
    "NoProgress": "Look at the calls that failed last (`toolcrib trace`), and say what the model can't know; or take another.",
    "AnswerUnfit": "Take its `text`, or ask again by a simpler schema, or a model whose server can hold replies to one.",
    "UnconfirmedConfig": "`toolcrib config confirm` at a terminal. A program that vouches for a file gives it: `config=`.",
    "NotSent": "Nothing: the gateway sends it again, unless it is `for_good`. `toolcrib gateway status` tells what failed.",
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
