"""The special facts of a tool are in its own row: no other code knows it by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import model_tools  # noqa: F401 - it finds the built-in tools
from agent.gateway import sending
from toolcrib.contract.registry import registry
from tools import filepair_tool

pytestmark = pytest.mark.untraced  # it reads the sources

OWN = {
    "create_file": "agent/filepair/",
    "cronjob": "agent/cron/",
    "delegate_task": "agent/delegates/",
    "edit_file": "agent/filepair/",
    "memory": "agent/memory/",
    "search_files": "tools/files/",
    "send_file": "agent/gateway/sending.py",
    "send_message": "agent/gateway/messages.py",
    "session_search": "agent/searching.py",
    "todo": "agent/todo.py",
}
"""Places of a tool's handler besides the module that registers it."""

EXCUSES = (
    ("agent/desk/opening.py", "memory session_search cronjob send_message", "Handlers of the agent loop's tools."),
    ("agent/delegates/__init__.py", "session_search", "A delegate's clipped answer names it, and its summaries cost tokens."),
    ("agent/cli/attaching.py", "read_file", "@PATH in a user's message is judged as a call of this tool."),
    ("agent/cli/initing.py", "write_file", "/init writes its draft by a call of this tool."),
    ("agent/explaining.py", "terminal", "`toolcrib explain` judges a command as a call of this tool."),
    ("agent/gateway/messages.py", "read_file", "A file is sent if its session may read files."),
    ("tools/undo/snapshots/calls.py", "terminal", "A killed process did not record whose changes they are."),
    ("tools/processes/arguments.py", "process", "terminal's schema depends on whether a session has the tool."),
    # Words that are not tools.
    ("tools/processes/arguments.py", "terminal", "The toolset."),
    ("tools/processes/starting.py", "process", "A key of the result."),
    ("agent/conversation/transcript.py", "process", "A key of a record."),
    ("tools/contained/ tools/judge/procfs.py", "process", "A kind of denial, and of a path in /proc."),
    ("agent/cli/leftover_checks.py", "process", "A word."),
    ("agent/cli/bundling.py agent/cli/refusing.py agent/cli/slash.py agent/cli/words.py", "terminal", "The device."),
    ("agent/desk/commands.py agent/process.py", "terminal", "The surface of a slash command."),
    ("agent/policy/host_rights.py", "terminal", "The toolset."),
    ("agent/cli/choices.py agent/cli/commands/memory.py agent/cli/format_memory.py", "memory", "The subcommand, and its file."),
    ("agent/context/prompt.py agent/desk/opening.py", "memory", "A key of a record, and a folder."),
    ("agent/policy/tool_selection.py toolcrib/contract/entry.py", "memory", "The part of toolcrib that a tool needs."),
    ("tools/environments/local/_launch.py", "memory", "A limit."),
    ("tools/judge/", "patch", "The program patch, and the verb of kubectl."),
)  # fmt: skip
"""(beginnings of paths, names, the reason) of strings that equal a tool's name but mean something else."""


def _named(sources: Sequence[Any]) -> Iterator[tuple[str, int, str]]:
    """Yield (path, line, name) of each string that is a tool's name, outside of its own modules."""
    offered = registry.child()
    filepair_tool.offer(offered)
    sending.offer(offered)
    homes = {entry.name: entry.module for entry in offered.entries()}
    for source in sources:
        if source.module == "toolsets":
            continue
        for node in source.expressions[0]:
            name = node.value
            if name not in homes:
                continue
            if source.module != homes[name] and not source.path.startswith(OWN.get(name, "-")):
                yield source.path, node.lineno, name


def test_a_tools_name_stands_in_its_own_module_alone(sources: Sequence[Any]) -> None:
    excused = {(path, name) for paths, names, _ in EXCUSES for path in paths.split() for name in names.split()}
    used, wrong = set(), []
    for path, line, name in _named(sources):
        found = next(((begins, of) for begins, of in excused if of == name and path.startswith(begins)), None)
        used.add(found)
        if found is None:
            wrong.append(f"{path}:{line} {name}")
    assert wrong == [], "declare it in the tool's row: see ToolEntry\n" + "\n".join(wrong)
    assert excused - used == set(), "these excuses are unused"


def test_every_home_of_a_tool_is_there(sources: Sequence[Any]) -> None:
    paths = [source.path for source in sources]
    assert [home for home in OWN.values() if not any(path.startswith(home) for path in paths)] == []
