"""Add the environment's name to results of calls that ran elsewhere: neither on this machine nor in its sandbox."""

from __future__ import annotations

from toolcrib.contract.dataclass import replace
from toolcrib.contract.types import ToolResult
from tools.contained.outside import is_elsewhere
from tools.dispatch.progress import CallInProgress


def placed(current: CallInProgress, result: ToolResult) -> ToolResult:
    """Return ``result`` with the environment's name added to its error, or to its data and its views.

    The result of a call that did not use the environment, or ran on this machine, is unchanged, as is one that names the
    environment itself (an error with its name, data with ``where``). Nothing is added to data that looks like JSON text.
    """
    if not current.ctx.used_environment or not is_elsewhere(where := current.scope.where):
        return result
    data, views, failure = result.data, result.views, result.failure
    line = f"[where: {where}]"
    if failure is not None:
        if where in failure.text:
            return result
        return replace(result, message=f"{result.message} {line}", failure=replace(failure, text=f"{failure.text} {line}"))
    if isinstance(data, dict):
        if "where" in data:
            return result
        data = {**data, "where": where}
    elif isinstance(data, str) and not data.lstrip().startswith(("{", "[", '"')):
        data = f"{data}\n{line}"
    if views:
        views = {reader: f"{text}\n{line}" for reader, text in views.items()}
    return replace(result, data=data, views=views)
