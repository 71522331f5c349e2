"""Background processes as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping

from agent.cli.escape import one_line
from agent.cli.short_forms import ago
from toolcrib.contract.types import Json

HEAD = ("NAME", "STATE", "STARTED", "PORTS", "CPU", "MEMORY", "COMMAND")
SPARE = (4, 5, 2)
"""Columns that a narrow terminal leaves out, in this order."""


def process_cells(one: Mapping[str, Json], now: float) -> tuple[str, ...]:
    """Return the cells of a process's row, in the order of HEAD."""
    cpu, memory = one.get("cpu_seconds"), one.get("memory_mb")
    state = "running, terminal" if one.get("pty") and one["state"] == "running" else str(one["state"])
    return (
        str(one["name"]),
        f"exit code {one['exit_code']}" if one["state"] == "exited" else state,
        "-" if one["at"] is None else ago(float(one["at"]), now),
        ", ".join(map(str, one.get("ports") or ())) or "-",
        "-" if cpu is None else f"{cpu:.1f} s",
        "-" if memory is None else f"{memory:.0f} MB",
        one_line(str(one["command"])) or "-",
    )
