"""Discovery of tools and plugins, the definitions for a model, and the synchronous interface for calls.

Importing this module registers the built-in tools. The dispatcher, and everything else that calls need, is imported with the
first call, so that code that only shows the tools to a model stays fast.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.contract.context import RunIdentity
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.registry import Dispatch, Problem, ToolRegistry, registry
from toolcrib.contract.tool_sources import ImportedTools, ToolSources, import_tools
from toolcrib.contract.types import Json, ToolCall
from tools.arguments import check_schema
from tools.clip import encode
from tools.environments import LOCAL, known_environments, open_environment, row_of
from tools.environments.own_files import OwnFiles
from toolsets import catalog

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from agent.config import Config
    from agent.plugin_host.plugins import PluginInfo
    from agent.plugin_host.process_plugins import ProcessPlugins
    from tools.approval.gate import ApprovalGate
    from tools.dispatch.hooks import HookManager
    from tools.dispatch.pipeline import Dispatcher
    from tools.dispatch.scope import CallScope
    from tools.judge.setting import Setting

_log = logging.getLogger(__name__)
T = TypeVar("T")

BUILT_IN = (
    "tools.terminal_tool",
    "tools.file_tools",
    "tools.todo_tool",
    "tools.memory_tool",
    *("tools.session_search_tool", "tools.delegate_tool"),
    *("tools.clarify_tool", "tools.send_message_tool", "tools.cronjob_tool", "tools.process_registry"),
)
"""Tool modules, imported in this order. A new one must be added here."""
_SCOPES = 64
"""Maximum number of the synchronous interface's tasks that keep a shell. The least recently used idle one is closed."""


def _run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, from any sync code. The specification's name for the bridge (003-22)."""
    from tools.dispatch.bridge import run_async

    return run_async(coroutine)


def _discover_tools(modules: Sequence[str] = BUILT_IN) -> list[Problem]:
    """Import tool modules in order (003-4), and return the problems. The specification's name for this (003-33)."""
    return import_tools(registry, modules)


def get_tool_definitions(
    enabled_toolsets: Sequence[str] | None = None, disabled_toolsets: Sequence[str] | None = None, quiet_mode: bool = False
) -> list[Any]:
    """Return schemas in OpenAI's form, for a model (003-13, 003-14).

    They are those of ``enabled_toolsets`` if given, else all, except those of ``disabled_toolsets``. Tools that cannot work here
    are left out. Unless ``quiet_mode``, the names of the returned tools are logged. The schemas are shared and read-only; to
    change one, make a ``copy.deepcopy``. Tools of plugins are included after ``load_plugins``. Raises ToolsetError for an
    unknown toolset.
    """
    definitions = registry.get_definitions(_wanted(enabled_toolsets, disabled_toolsets))
    if not quiet_mode and _log.isEnabledFor(logging.INFO):
        _log.info("tools: %s", ", ".join(definition["function"]["name"] for definition in definitions))
    return definitions


_wanted_cache: dict[Any, tuple[tuple[int, int], list[str] | None]] = {}


def _wanted(enabled: Sequence[str] | None, disabled: Sequence[str] | None) -> list[str] | None:
    if enabled is None and not disabled:
        return None
    key = (None if enabled is None else tuple(enabled), tuple(disabled or ()))
    generations = (registry.generation, catalog.generation)
    known = _wanted_cache.get(key)
    if known is None or known[0] != generations:
        if len(_wanted_cache) > 256:
            _wanted_cache.clear()
        known = _wanted_cache[key] = (generations, catalog.select(enabled, disabled))
    return known[1]


def own_paths(more: Iterable[str | Path] = ()) -> list[str]:
    """Return the paths that no tool may touch: toolcrib's configuration and its state, and ``more``."""
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "toolcrib"
    state = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "toolcrib"
    given = [Path(os.environ[name]) for name in ("TOOLCRIB_CONFIG", "TOOLCRIB_STATE") if os.environ.get(name)]
    return with_targets([config, state, *given, *more])


def with_targets(paths: Iterable[str | Path]) -> list[str]:
    """Return each path as named and with links resolved, because tools name the first and open the second."""
    folders: dict[str, str] = {}
    named = [os.fspath(path) for path in paths]
    return list(dict.fromkeys(name for path in named for name in (os.path.abspath(path), _target(path, folders))))  # noqa: PTH100 - as a tool names it


def _target(path: str, folders: dict[str, str]) -> str:
    """Return the real path. ``folders`` caches resolved folders, because most of these files are in the same folders."""
    folder, name = os.path.split(path)
    if name in ("", ".", "..") or os.path.islink(path):  # noqa: PTH114 - a Path would be made for each, only to become text again
        return os.path.realpath(path)  # resolve() raises on a loop
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)  # noqa: PTH118 - likewise


dispatcher: Dispatcher
"""The dispatcher of the process's registry."""
_dispatcher: Dispatcher | None = None
_dispatcher_lock = threading.RLock()

if not TYPE_CHECKING:  # a type checker that saw __getattr__ would accept any name

    def __getattr__(name: str) -> object:
        if name != "dispatcher":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _process_dispatcher()


def _process_dispatcher() -> Dispatcher:
    """Return ``dispatcher``, created on first use."""
    global _dispatcher
    with _dispatcher_lock:
        if _dispatcher is None:
            made = _dispatcher = new_dispatcher()
            registry.attach(face_of(lambda: made), check_schema)
        return _dispatcher


def _first_call(name: str, args: Any, **extra: Any) -> str:
    """Create the dispatcher at the first call, and pass the call to its synchronous interface."""
    _process_dispatcher()
    return registry.dispatch(name, args, **extra)


def new_dispatcher(gate: ApprovalGate | None = None, tools: ToolRegistry = registry) -> Dispatcher:
    """Return a dispatcher for ``tools`` with its approval gate (by default one that keeps grants in memory only)."""
    from tools.dispatch.pipeline import Dispatcher

    return Dispatcher(tools, new_hooks(gate or _new_gate(own_paths())))


def new_hooks(gate: ApprovalGate) -> HookManager:
    """Return a hook manager with this approval gate and no plugin."""
    from tools.dispatch.hooks import APPROVAL, new_manager

    hooks = new_manager()
    hooks.register(gate, APPROVAL)
    return hooks


def _new_gate(protected: Sequence[str]) -> ApprovalGate:
    from tools.approval.gate import ApprovalGate
    from tools.approval.grants import MemoryGrants

    return ApprovalGate(MemoryGrants(), setting=_setting(protected))


def _setting(protected: Sequence[str]) -> Setting:
    from tools.installed import installed
    from tools.judge.setting import Setting, person_home

    return Setting(protected=protected, home=person_home(), installed=installed())


def face_of(runs: Callable[[], Dispatcher]) -> Dispatch:
    """Return the synchronous interface of the dispatcher from ``runs``, for its registry. A session's scope uses its own
    dispatcher.
    """
    from tools.dispatch.json_results import as_json

    def dispatch(name: str, args: Any, *, call_id: str | None = None, scope: CallScope | None = None, **extra: Any) -> str:
        call = ToolCall(call_id or ToolCall.new_id(), name if type(name) is str else str(name), args)
        if scope is not None:
            given = {key: value for key, value in extra.items() if value is not None or key not in scope.extra}
            return as_json((scope.dispatcher or runs()).call_sync(call, scope, given))
        scope = _begin(extra.setdefault("task_id", None) or "")
        try:
            return as_json(runs().call_sync(call, scope, extra))
        finally:
            scope.calls.pop()

    return dispatch


# -- plugins -----------------------------------------------------------------------------------------------------------

_plugins: ProcessPlugins | None = None
_plugins_lock = threading.Lock()
_protected: list[str] = []
"""Paths that the gate protects besides ``own_paths``: the files of the configuration that plugins were loaded from."""


def load_plugins(config: Config | None = None) -> list[PluginInfo]:
    """Load the plugins that a configuration enables (003-5), by default the user's own, for the whole process.

    From then on, ``get_tool_definitions`` includes their tools, after the built-in ones, and ``handle_function_call`` and
    ``registry.dispatch`` run them. Their gates and other hooks apply to every such call, as the approval gate does. Their
    toolsets and backends are registered too. Only the section ``plugins`` of the configuration is used. None of this affects a
    Crib, which loads the plugins of its own configuration for itself; ``crib.registry`` shows and dispatches their tools. A
    plugin that fails is removed as a whole, with the reason in ``error``. Plugins that are loaded already stay. Raises
    ConfigError.
    """
    global _plugins
    from agent.plugin_host.process_plugins import ProcessPlugins  # an upper layer: see tests/house/test_layers.py

    with _plugins_lock:
        plugins = _plugins = _plugins or ProcessPlugins(_process_dispatcher(), catalog)
    return plugins.load(config, _protect)


def unload_plugins() -> None:
    """Unload the plugins of ``load_plugins``."""
    if _plugins is not None:
        _plugins.unload()


def _protect(paths: Iterable[Path]) -> None:
    """Keep tools from changing these files too."""
    from tools.approval.gate import ApprovalGate
    from tools.dispatch.hooks import APPROVAL
    from tools.judge.folders import under

    known = [*own_paths(), *_protected]
    more = [path for path in with_targets(paths) if not any(under(path, folder) for folder in known)]
    if more:
        _protected.extend(more)
        gate = _process_dispatcher().hooks.get_plugin(APPROVAL)
        if isinstance(gate, ApprovalGate):
            gate.judge_by(_setting([*known, *more]))


# -- the synchronous interface ---------------------------------------------------------------------------------------

_scopes: dict[str, CallScope] = {}
"""Scopes by task, the last used at the end."""
_last: tuple[str, CallScope] | None = None
_scopes_lock = threading.Lock()

_environments: dict[str, Mapping[str, Any]] = {}
"""Options of each task's environment, including ``backend``."""


def set_task_environment(task_id: str, *, cwd: str | None = None, backend: str = LOCAL, **options: Any) -> None:
    """Choose the environment of a task (003-30) before its first call: the folder, and a backend of tools.environments with its
    options, as in ``set_task_environment("t1", backend="docker", image="debian:12", cwd="/home/me/project")``.

    It applies until ``end_task``. If the environment is unavailable, the task's calls fail: they run nowhere else. Raises
    EnvironmentFailed for an unknown backend, and ToolcribError for a task that has made a call, which stays in its environment.
    """
    if backend not in known_environments():
        raise EnvironmentFailed(f"unknown environment {backend!r}; known: {', '.join(known_environments())}")
    with _scopes_lock:
        if task_id in _scopes:
            raise ToolcribError(f"the task {task_id!r} already runs in another environment: call end_task({task_id!r}) first")
        _environments[task_id] = {**options, "cwd": cwd, "backend": backend}


def _open(task_id: str) -> Environment:
    options = dict(_environments.get(task_id, {"backend": LOCAL, "cwd": None}))
    backend = options.pop("backend")
    if options.get("sandbox", "none") != "none":
        from tools.environments.local.plan import MASKED

        options["masked"] = [*options.get("masked", MASKED), *own_paths()]
    gets = row_of(backend).gets
    name = "".join(char if char.isalnum() or char in "._-" else "-" for char in task_id)
    known = {key: value for key, value in {"session": name, "protected": own_paths()}.items() if key in gets}
    own = {"own": OwnFiles([*own_paths(), *_protected], _setting(()).installed.closed)} if "own" in gets else {}
    return open_environment(backend, **own, **{**known, **options})


def end_task(task_id: str) -> None:
    """End a task's processes, remove its folders, and forget its environment. Its next call starts anew."""
    global _last
    with _scopes_lock:
        _environments.pop(task_id, None)
        scope = _scopes.pop(task_id, None)
        _last = None
    if scope is not None:
        _run_async(scope.close())


def _scope(task_id: str) -> CallScope:
    """Return a scope for callers without a session. Every tool is granted, and approval requests are denied, because no user
    can be asked.
    """
    scope = _begin(task_id)
    scope.calls.pop()
    return scope


def _begin(task_id: str) -> CallScope:
    """Return the task's scope for a new call. While the call is in ``calls``, the scope is not closed to make room for others."""
    last = _last
    if last is not None and last[0] == task_id:
        last[1].calls.append(None)
        if _last is last:  # so no thread was about to close it
            return last[1]
        last[1].calls.pop()
    return _begin_slowly(task_id)


@functools.cache
def _mind_forks_and_exit() -> None:
    importlib.import_module("tools.dispatch.bridge")  # registers its exit handler first, so its loop closes last
    atexit.register(close_tasks)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_tasks)


def _forget_tasks() -> None:
    """Forget the tasks in a forked child. Their shells belong to the parent, which continues to use them."""
    global _last, _scopes_lock
    _last, _scopes_lock = None, threading.Lock()
    _scopes.clear()


def _begin_slowly(task_id: str) -> CallScope:
    from tools.dispatch.scope import CallScope

    global _last
    _mind_forks_and_exit()
    evicted: list[CallScope] = []
    with _scopes_lock:
        scope = _scopes.pop(task_id, None) or CallScope(
            identity=RunIdentity(session_id=f"direct:{task_id}", task_id=task_id),
            open_environment=lambda: _open(task_id),
        )
        scope.calls.append(None)
        if len(_scopes) >= _SCOPES:
            last = None if _last is None else _last[0]
            idle = [name for name, each in _scopes.items() if not each.calls and name != last]
            evicted = [_scopes.pop(name) for name in idle[: len(_scopes) + 1 - _SCOPES]]
        _scopes[task_id] = scope
        _last = (task_id, scope)
    for each in evicted:
        _run_async(each.close())
    return scope


def close_tasks() -> None:
    """End the processes of all tasks, and remove their folders. The next call starts anew."""
    global _last
    with _scopes_lock:
        scopes, _last = list(_scopes.values()), None
        _scopes.clear()
        _environments.clear()
    for scope in scopes:
        _run_async(scope.close())


def handle_function_call(name: str, args: Json, task_id: str | None = None, user_task: str | None = None, **extra: Any) -> str:
    """Run one call of a model, and return JSON text. The second guard of 003-20: it never raises.

    ``task_id`` keeps a shell and its folder between calls (see set_task_environment), until ``end_task`` or until 64 other tasks
    were used after it. ``scope=`` is a session's CallScope, with that session's plugins and grants. ``task_id``, ``user_task``
    and ``extra`` are passed to handlers that take keywords; the session's values are used if the first two are not given.
    """
    try:
        return registry.dispatch(name, args, task_id=task_id, user_task=user_task, **extra)
    except Exception as error:  # noqa: BLE001 - 003-20: the second guard
        _log.exception("dispatching %s failed", name)
        return encode({"error": f"Error executing {name}: {error}"})


_sources = ToolSources(registry)
_sources.begin("built-in", ImportedTools(registry, BUILT_IN))
registry.attach(_first_call, check_schema, trusted=BUILT_IN)
