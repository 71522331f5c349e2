"""Find plugins, and load the ones that the user enabled.

Bundled plugins come first, then those of the user's folder, of a trusted project and of installed distributions (003-5). A plugin
that fails is removed completely and reported; the others stay.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent.config import Config
from agent.plugin_host import sources as sources
from agent.plugin_host.additions import Add, collect, leave_out
from agent.plugin_host.settings import configure
from agent.plugin_host.sources import PluginInfo, ProjectFiles, canonical, project_digest
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.errors import PluginError, RegistrationError
from toolcrib.contract.hooks import SetupHooks, declared_in
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.suggest import near

if TYPE_CHECKING:
    import pluggy

    from tools.dispatch.hooks import HookManager

__all__ = ["PluginInfo", "canonical", "discover", "load_plugins", "project_digest"]

_log = logging.getLogger(__name__)
RESERVED = frozenset({"approval"})
"""Names that have a meaning for the dispatcher."""
_loading = threading.RLock()
"""Modules belong to the whole process, so only one thread loads plugins at a time."""
_at_import: dict[str, Sequence[ToolEntry]] = {}
"""Tools that installed plugins registered on import, by entry point, for later loads: Python runs a module only once."""


def discover(config: Config, project_dir: Path | None = None) -> list[PluginInfo]:
    """Return every existing plugin, enabled or not, and every enabled one that is missing. Runs no plugin's code."""
    return _found(config, project_dir)


def newly_enabled(before: Config, now: Config, known: Sequence[PluginInfo]) -> Config:
    """Return ``now`` with only the plugins that ``before`` did not enable and that this process has not loaded yet."""
    gone = {canonical(name) for name in before.plugins.enabled} | {canonical(info.name) for info in known if info.loaded}
    enabled = tuple(name for name in now.plugins.enabled if canonical(name) not in gone)
    return replace(now, plugins=replace(now.plugins, enabled=enabled))


def load_plugins(
    config: Config,
    manager: HookManager,
    registry: ToolRegistry,
    *,
    add_toolset: Add,
    add_command: Add,
    add_slash: Add,
    add_environment: Add,
    add_provider: Add,
    add_platform: Add,
    project_dir: Path | None = None,
    adders: Mapping[str, Add] | None = None,
) -> list[PluginInfo]:
    """Load the enabled plugins and return the results; do nothing if none are enabled.

    Their hooks are called in the order of ``plugins.enabled``. Each ``add_*`` takes a name and a value as the hookspecs define,
    and raises an exception to refuse them. ``adders`` has the functions of further setup hooks, by hook; additions by other
    hooks are ignored. The functions are called after a plugin's setup has succeeded. KeyboardInterrupt, as when a user stops a
    plugin that hangs, is raised again with a note that names the plugin.
    """
    if not config.plugins.enabled:
        return []
    adders = {
        **(adders or {}),
        "register_toolsets": add_toolset,
        "register_command": add_command,
        "register_slash": add_slash,
        "register_environment": add_environment,
        "register_provider": add_provider,
        "register_platform": add_platform,
    }
    loader = _Loader(config, manager, registry, adders)
    with _loading:
        found = [info for info in _found(config, project_dir) if info.enabled or info.name == sources.ALL]
        manager.rank(info.name for info in sorted(found, key=lambda info: _place(config, info)))
        return [loader.load(info) if info.enabled and not info.error else info for info in _by_source(config, found)]


def _place(config: Config, info: PluginInfo) -> int:
    """Return the plugin's index in the user's list of enabled plugins."""
    names = [canonical(name) for name in config.plugins.enabled]
    return names.index(canonical(info.name)) if canonical(info.name) in names else len(names)


def _by_source(config: Config, found: Sequence[PluginInfo]) -> list[PluginInfo]:
    """Return the plugins in loading order: by source (003-5), and within a source as they were enabled."""
    order = list(dict.fromkeys(info.source for info in found))
    return sorted(found, key=lambda info: (order.index(info.source), _place(config, info)))


def _found(config: Config, project_dir: Path | None) -> list[PluginInfo]:
    enabled = {canonical(name) for name in config.plugins.enabled}
    taken: dict[str, PluginInfo] = {}
    found: list[PluginInfo] = []
    for plain in _all(config, project_dir):
        key = canonical(plain.name)
        info = replace(plain, enabled=key in enabled)
        if key in RESERVED:
            info = replace(info, error=f"the name {plain.name!r} is reserved; rename the plugin")
        elif key in taken:
            first = taken[key]
            error = f"the name is taken by the {first.source} plugin at {first.where}; rename one of the two plugins"
            info = replace(info, enabled=False, error=error)
            if key in enabled:
                _log.warning("plugin %r at %s is skipped: %s", info.name, info.where, info.error)
        elif info.trusted:
            taken[key] = info
        found.append(info)
        if info.error and (info.enabled or info.name == sources.ALL):
            _log.error("plugin %r (%s) is not loaded: %s", info.name, info.where, info.error)
    return found + list(_missing(config, found))


def _all(config: Config, project_dir: Path | None) -> Iterator[PluginInfo]:
    yield from sources.bundled()
    yield from sources.user(config)
    yield from sources.project(config, project_dir)
    try:
        yield from sources.pip()
    except Exception as error:  # noqa: BLE001 - another distribution's broken metadata
        _log.error("plugins of installed packages can't be listed: %s: %s", type(error).__name__, error)


def _missing(config: Config, found: list[PluginInfo]) -> Iterator[PluginInfo]:
    names = {canonical(info.name): info.name for info in found}
    for name in dict.fromkeys(config.plugins.enabled):
        if canonical(name) not in names:
            alike = near(canonical(name), names)
            hint = f"did you mean {names[alike[0]]!r}?" if alike else "install it, or remove it from plugins.enabled"
            error = f"there is no such plugin; {hint}"
            _log.error("plugin %r is enabled in %s, but %s", name, config.path, error)
            yield PluginInfo(name, "missing", str(config.path), enabled=True, error=error)


@dataclass(slots=True)
class _Loader:
    config: Config
    manager: HookManager
    registry: ToolRegistry
    adders: Mapping[str, Add]
    modules: list[str] = field(default_factory=list)

    def load(self, info: PluginInfo) -> PluginInfo:
        """Load a plugin and return its info. If that fails, remove its changes and return the info with the reason."""
        before = {entry.name: entry for entry in self.registry.entries()}
        take_back = self.registry.checkpoint()
        self.registry.guard(_guard(self.config, info.name, before))
        self.modules.clear()
        plugin: Any = None
        try:
            with self.registry.adopting():
                plugin = self._import(info)
                _check_hooks(self.manager, plugin)
                self.manager.register(plugin, name=info.name)
                platforms = self._set_up(info, plugin, before)
        except BaseException as error:  # a plugin may also call sys.exit or raise CancelledError
            take_back()
            self._forget(plugin, info.name)
            if isinstance(error, KeyboardInterrupt):
                error.add_note(f"while the plugin {info.name!r} ({info.where}) was loading")
                _log.error("interrupted while the plugin %r (%s) was loading", info.name, info.where)
                raise
            reason = _reason(error)
            _log.error(
                "plugin %r (%s) is not loaded: %s", info.name, info.where, reason, exc_info=_log.isEnabledFor(logging.DEBUG)
            )
            return replace(info, error=reason, origin=None)
        finally:
            self.registry.guard(None)
        return replace(info, loaded=True, origin=None, platforms=platforms)

    def _import(self, info: PluginInfo) -> Any:
        _log.debug("loading plugin %r from %s", info.name, info.where)
        if isinstance(info.origin, Path):
            module_name = f"toolcrib_plugin_{info.source}_{canonical(info.name)}"
            _purge(module_name)
            return self._run(module_name, _file_spec(module_name, info.origin))
        if isinstance(info.origin, ProjectFiles):
            module_name = f"toolcrib_plugin_project_{canonical(info.name)}"
            _purge(module_name)
            finder = _ProjectFinder(module_name, info.origin, info.where)
            sys.meta_path.append(finder)
            return self._run(module_name, finder.find_spec(module_name))
        plugin = self._entry_point(info.origin)
        if isinstance(plugin, type):
            raise PluginError(f"the entry point {info.origin.value!r} is a class; name a module or an object with hooks")
        return plugin

    def _entry_point(self, origin: Any) -> Any:
        known = {entry.name: entry for entry in self.registry.entries()}
        plugin = origin.load()
        new = [entry for entry in self.registry.entries() if known.get(entry.name) is not entry]
        if new:
            _at_import[origin.value] = new
        for entry in () if new else _at_import.get(origin.value, ()):
            self.registry.put(entry)
        return plugin

    def _run(self, name: str, spec: Any) -> ModuleType:
        from importlib.util import module_from_spec

        self.modules.append(name)
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def _set_up(self, info: PluginInfo, plugin: Any, before: Mapping[str, ToolEntry]) -> tuple[str, ...]:
        """Call the plugin's setup hooks, and apply their additions only if all succeed. Return its platforms."""
        added: list[tuple[Add, str, Any]] = []
        configure(self.manager, plugin, info.name, self.config)
        _call_hook(self.manager, "register_tools", plugin, self.registry)
        for hook in declared_in(SetupHooks):
            if hook.startswith("register_") and hook != "register_tools":
                _call_hook(self.manager, hook, plugin, collect(hook, self.adders.get(hook, leave_out), added))
        _check_kept(self.config, self.registry, info.name, before)
        unchanged = all(before.get(entry.name) is entry for entry in self.registry.entries())
        if unchanged and not self.manager.get_hookcallers(plugin):
            raise PluginError("it does nothing: no function is marked with @toolcrib.hookimpl, and no tool was registered")
        for adder, name, value in added:
            adder(name, value)
        return tuple(name for adder, name, _ in added if adder == self.adders["register_platform"])

    def _forget(self, plugin: Any, name: str) -> None:
        if plugin is not None and self.manager.get_plugin(name) is plugin:
            self.manager.unregister(plugin)
        for module in self.modules:
            _purge(module)


def _reason(error: BaseException) -> str:
    if isinstance(error, (PluginError, RegistrationError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r}) while it was loading"
    text = "; ".join(line.strip() for line in str(error).splitlines())  # pluggy's messages have several lines
    fix = f"; install the package that has it for {sys.executable}" if isinstance(error, ModuleNotFoundError) else ""
    return f"{type(error).__name__}: {text}{fix}"


# -- replaced tools -----------------------------------------------------------------------------------------------------


def _guard(config: Config, plugin: str, before: Mapping[str, ToolEntry]) -> Callable[[ToolEntry | None, ToolEntry], None]:
    def check(old: ToolEntry | None, new: ToolEntry) -> None:
        if old is not None and new.name in before:
            _may_replace(config, plugin, before[new.name])

    return check


def _may_replace(config: Config, plugin: str, old: ToolEntry) -> None:
    if canonical(config.plugins.allow_override.get(old.name, "")) != canonical(plugin):
        raise RegistrationError(
            f"plugin {plugin!r} may not replace the tool {old.name!r} of {old.module} (toolset {old.toolset!r}); "
            f"to allow it, add to {config.path}: plugins: {{allow_override: {{{old.name}: {plugin}}}}}"
        )


def _check_kept(config: Config, registry: ToolRegistry, plugin: str, before: Mapping[str, ToolEntry]) -> None:
    """Raise RegistrationError for changes that the guard does not notice.

    The plugin may have registered a tool in the name of a module of toolcrib, or unregistered a tool without permission.
    """
    for entry in registry.entries():
        if entry.is_built_in and before.get(entry.name) is not entry:
            raise RegistrationError(f"plugin {plugin!r} may not register the tool {entry.name!r} as one of {entry.module}")
    for name, old in before.items():
        if registry.get(name) is not old:
            _may_replace(config, plugin, old)


# -- hooks ---------------------------------------------------------------------------------------------------------


def _check_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    """Raise PluginError for an unknown hook, and for a function with a hook's name that isn't marked as a hook.

    Such a function may be meant as a gate, but would never be called.
    """
    known = [name for name, caller in vars(manager.hook).items() if not name.startswith("_") and caller.has_spec()]
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            if name in known and callable(getattr(plugin, name, None)):
                raise PluginError(f"{name} is named as a hook but not marked: put @toolcrib.hookimpl above it")
            continue
        hook = options.get("specname") or name
        if hook not in known and not options.get("optionalhook"):
            alike = near(hook, known)
            raise PluginError(
                f"there is no hook {hook!r}; " + (f"did you mean {alike[0]!r}?" if alike else f"there are {', '.join(known)}")
            )
        if hook in known:
            _check_arguments(hook, getattr(plugin, name), getattr(manager.hook, hook).spec.argnames)


def _check_arguments(hook: str, function: Callable[..., Any], known: Sequence[str]) -> None:
    """Raise PluginError for a parameter that the hook does not have, or that is keyword-only."""
    import inspect

    takes = f"{hook} takes any of {', '.join(known)}, by name" if known else f"{hook} takes no arguments"
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.default is not parameter.empty:
            continue
        if parameter.name not in known:
            alike = near(parameter.name, known)
            meant = f"; did you mean {alike[0]!r}?" if alike else ""
            raise PluginError(f"{takes}; it has no {parameter.name!r}{meant}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise PluginError(f"{takes}; {parameter.name!r} must come before the * in its parameters")


def _call_hook(manager: pluggy.PluginManager, name: str, plugin: Any, value: Any) -> None:
    """Call one plugin's implementations of a setup hook; each has one argument, which it may omit."""
    import inspect

    for implementation in getattr(manager.hook, name).get_hookimpls():
        if implementation.plugin is plugin:
            returned = implementation.function(*([value] if implementation.argnames else []))
            if inspect.iscoroutine(returned):
                returned.close()
                raise PluginError(f"{name} must be a plain function, not async")


# -- modules -------------------------------------------------------------------------------------------------------


def _file_spec(name: str, main: Path) -> Any:
    from importlib.util import spec_from_file_location

    inner = [str(main.parent)] if main.name == "__init__.py" else None
    return spec_from_file_location(name, main, submodule_search_locations=inner)


def _purge(module: str) -> None:
    """Remove a module and its submodules from memory after a failure, or before a reload."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "prefix", None) != module]
    for loaded in [key for key in sys.modules if key == module or key.startswith(f"{module}.")]:
        del sys.modules[loaded]


class _ProjectFinder:
    """Imports a project's plugin from the bytes that the trusted digest covers, and never from bytecode."""

    def __init__(self, prefix: str, origin: ProjectFiles, where: str) -> None:
        self.prefix = prefix
        self._files = origin.files
        self._main = origin.main
        self._folder = where.removesuffix(origin.main)
        self._sources: dict[str, str] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        from importlib.machinery import ModuleSpec

        source = self._source_of(fullname)
        if source is None:
            return None
        self._sources[fullname] = source
        is_package = source.endswith("/__init__.py")
        loader: Any = self  # duck-typed: importlib.abc costs 4 ms to import
        spec = ModuleSpec(fullname, loader, origin=self._folder + source, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = []  # importlib must not search the disk for submodules
        return spec

    def _source_of(self, fullname: str) -> str | None:
        if fullname == self.prefix:
            return self._main
        if not fullname.startswith(f"{self.prefix}.") or not self._main.endswith("/__init__.py"):
            return None
        stem = self._main.removesuffix("__init__.py") + fullname.removeprefix(f"{self.prefix}.").replace(".", "/")
        return next((path for path in (f"{stem}/__init__.py", f"{stem}.py") if path in self._files), None)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source = self._sources[module.__name__]
        code = compile(self._files[source], self._folder + source, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - running a trusted plugin is the purpose
