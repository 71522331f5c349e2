"""Additions to a copy of the sources work with only the changes that the table "Where things go" of CONTRIBUTING.md names.

Backends: tests/agent/test_new_backend.py. Providers and wires: tests/agent/providers/test_rows.py. Hooks:
tests/agent/plugin_host/test_new_hook.py. Platforms: tests/agent/test_example_platform.py. Clients of the front desk:
docs/front-desk.md, whose example the tests run.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.untraced  # it runs a copy of the sources

TOOL = '''"""A counter of a session."""

from tools.registry import registry
from toolcrib.contract.state import StateKey
from toolcrib.contract.types import ToolOutput, ToolResult

TALLY = StateKey("tally", int)


def _add(args, ctx):
    total = (ctx.state(TALLY) or 0) + args["by"]
    return ToolOutput(ToolResult.success(ctx.tool_name, {"total": total}), [(TALLY, total)])


registry.register(
    name="tally",
    toolset="tally",
    schema={
        "description": "Add to a number.",
        "parameters": {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
    },
    handler=_add,
    changes="nothing",
    state=[TALLY],
)
'''
USES_TOOL = """
import asyncio
from pathlib import Path
from agent.api import assemble
from agent.config import load_config

config = load_config(Path("home.yaml"))
with assemble(config=config, project_dir=Path()) as crib:
    one, other = crib.open_session(), crib.open_session()
    assert "tally" in one.names and "tally" in [line["function"]["name"] for line in one.definitions]
    for by in (1, 2):
        one.call("tally", {"by": by})
    print([session.call("tally", {"by": 4}).result.data["total"] for session in (one, other)])
    asyncio.run(one.mode.switch("plan"))
    assert one.call("tally", {"by": 0}).result.is_success
    for session in (one, other):
        session.close_sync()
"""
TALLY, RING = "tally_tool", "ring"
RULE = """    rule(
        "resource.bell",
        "ask",
        "ring-bell",
        opt("-f --forever"),
        "rings until the user stops it",
        yes="ring-bell --forever",
        no="ring-bell",
    ),
"""
KEY = """    bells: int = setting(3, "Bells that ring after a run.", expect=COUNT, check=at_least_one)
"""
SUBCOMMAND = '''"""``toolcrib ring``: ring."""

HELP = "Ring the bells."


def configure(parser):
    parser.epilog = "examples:\\n  toolcrib ring 2"
    parser.add_argument("times", type=int)


def run(args):
    from agent.config import load_config

    print("ding " * args.times, load_config(args.config).run.bells)
'''
SLASH_ROW = """    "/ring": SlashCommand("ring the bell", arguments="[TIMES]", surfaces=SURFACES),
"""
SLASH = """async def _ring(chat: Conversation, rest: str) -> None:
    chat.screen.text(f"ding {rest}")


"""
SLASH_IN_CHAT = """async def _ring(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    return f"ding {text}"


"""
COMMAND = """
import io, sys
from agent.cli import main

def toolcrib(*words, expect=0):
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    assert (code or 0) == expect, (words, code)
"""


def test_a_tool_with_state_is_its_module_its_name_and_its_toolset(project_copy: Any) -> None:
    project_copy.write(f"tools/{TALLY}.py", TOOL)
    project_copy.insert("model_tools.py", '"tools.memory_tool"', f'"tools.{TALLY}", ')
    project_copy.insert("toolsets.py", '"memory", "session_search", "delegation")', '"tally", ')
    assert project_copy.run(USES_TOOL) == "[7, 4]\n"


def test_a_rule_is_its_row(project_copy: Any) -> None:
    """Its examples are tested by tests/tools/judge/test_table.py; the judge, its reference page and its effect follow."""
    source = (project_copy.root / "tools/judge/rules/exhaustion.py").read_text("utf-8")
    project_copy.write("tools/judge/rules/exhaustion.py", source.replace("RULES = (\n", f"RULES = (\n{RULE}"))
    printed = project_copy.run(
        """
from agent.reference.rules import pages
from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting
for command in ("ring-bell -f", "ring-bell"):
    found = examine(command, "/home", None, NoFiles(), Setting(home="/home")).findings
    print([(one.key, one.level, one.effect) for one in found])
assert any("rings until the user stops it" in page.text for page in pages())
"""
    )
    assert printed.splitlines() == ["[('resource.bell', 'ask', 'local')]", "[]"]


def test_a_key_a_subcommand_and_a_slash_command_are_their_rows(project_copy: Any) -> None:
    """The example configuration, completion, help, the manual, both interfaces and the judge follow."""
    project_copy.insert("agent/config/_model.py", "    max_cost: float | None = setting(", KEY)
    project_copy.write(f"agent/cli/commands/{RING}.py", SUBCOMMAND)
    project_copy.insert("agent/desk/commands.py", '    "/keys": SlashCommand(', SLASH_ROW)
    for file, function in (("agent/cli/slash.py", SLASH), ("agent/gateway/commands.py", SLASH_IN_CHAT)):
        project_copy.insert(file, "async def _tools(", function)
        project_copy.insert(file, '    "/tools": _tools', '    "/ring": _ring,\n')
    printed = project_copy.run(
        COMMAND
        + """
toolcrib("config", "set", "run.bells", "5")
toolcrib("ring", "2")
toolcrib("--help")
toolcrib("completion", "--names", "keys")
toolcrib("explain", "toolcrib ring 2", expect=1)
toolcrib("chat", "--help")
sys.stdin = io.StringIO("/ring 3\\n/help\\n")
toolcrib("chat", "--provider", "manual")
from agent.config import example_text
assert "bells: 3" in example_text()
from agent.cli.command_pages import pages
assert "Ring the bells." in {page.path: page.text for page in pages()}["reference/commands/ring"]
from agent.desk.commands import on
from agent.gateway.commands import COMMANDS
assert set(COMMANDS) == set(on("chat")) and "/ring" in COMMANDS
"""
    )
    lines = printed.splitlines()
    assert "ding ding  5" in lines
    assert "  ring         Ring the bells." in lines
    assert "run.bells" in lines
    assert "block: denied, despite any grant" in lines
    assert "  /help  /ring [TIMES]  /keys" in printed
    assert "ding 3" in lines
    assert "/ring      ring the bell" in lines
