"""Turn a command line into an exit code: find the subcommand, parse its options, print every expected error."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from agent._version import __version__
from agent.cli import commands
from agent.cli.hidden import OPTION
from agent.cli.logs import logging_to_stderr
from agent.cli.parsing import CommandParser, fitted, meant_by
from agent.cli.signals import Ended, ending_in_order, interrupting
from agent.cli.streams import prepare_streams, print_json_as_ascii
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError, ProviderError, ToolcribError
from toolcrib.contract.passing import SHORTAGE, is_passing
from toolcrib.contract.paths import real_path, with_home

if TYPE_CHECKING:
    import asyncio

    from agent.api import Crib
    from agent.config import Config
    from toolcrib.contract.registry import ToolRegistry

_log = logging.getLogger(__name__)
OK, FAILED, USAGE, DENIED, UNASKED, CAPPED, TIMED_OUT, PARKED, NO_RUN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 130
UNREAD = 141
"""Exit code if the reader of the output is gone: the code that a shell reports for a program killed by SIGPIPE."""
TOPS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")
"""Top-level names that the distribution installs. Other distributions may install packages with the same names."""
_GONE = (errno.EPIPE, errno.EIO)
"""Error numbers that mean that the reader of our output, a pipe or a terminal, is gone."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
"""Error numbers of an OSError that only our own output can cause: tools and the store raise ToolcribError instead."""
_EPILOG = """\
examples:
  toolcrib setup                                           set up a model, a backend and toolsets
  toolcrib chat                                            chat with a model; without one, call tools by hand
  toolcrib run "what does this project do?"                run one task, also in scripts
  toolcrib config set model '{base_url: "http://127.0.0.1:11434/v1", name: qwen3}'     set the model for chat and run
  toolcrib plugins new mine                                create your own plugin with a first tool
  toolcrib call terminal '{"command": "uname -a"}'         run one call and print its JSON
  toolcrib tools                                           list tools, and why one is missing
  toolcrib toolsets --platform telegram                    list the tools of a platform
  toolcrib explain 'rm -rf build'                          show how a command would be judged, and who must approve
  toolcrib usage --by model                                show tokens and cost; also by day, session and tool
  toolcrib undo                                            revert changes that file tools made
  toolcrib gateway --help                                  how to chat with toolcrib on other platforms
  toolcrib cron add "every day at 9" "what changed here?"  run a task on a schedule
  toolcrib doctor                                          find problems and their fixes

`toolcrib COMMAND --help` shows details. `toolcrib docs` is the manual, `toolcrib docs settings` the configuration.
"""


_CODES = """\
exit codes: 0 done, 1 failed, 2 wrong command line, name or configuration (nothing was done), 130 interrupted.
"""


def run(argv: Sequence[str]) -> int:
    """Run the command line and return the exit code: 0 done, 1 failed, 2 a wrong command line or configuration, 130
    interrupted, 141 if the reader of the output is gone. Commands may have other codes.
    """
    prepare_streams()
    try:
        with ending_in_order(), ExitStack() as stack:
            code = _run(argv, stack)
            sys.stdout.flush()
            return code
    except SystemExit as end:  # argparse exits this way
        return end.code if isinstance(end.code, int) else FAILED
    except ToolcribError as error:
        _say(str(error))
        return FAILED if isinstance(error, ProviderError) else USAGE
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in TOPS:
            raise
        _say(f"this installation is damaged: {error}\n`toolcrib doctor` lists files that differ from the release")
        return USAGE
    except Ended as end:
        return 128 + end.number
    except KeyboardInterrupt as error:
        _say("; ".join(["interrupted", *getattr(error, "__notes__", ())]))
        return INTERRUPTED
    except OSError as error:
        if error.errno == errno.ENOENT and _is_nowhere():
            _say("the current folder no longer exists; change to another one, for example: cd ~")
            return USAGE
        return _short(error) if is_passing(error) else _without_output(error)
    except (MemoryError, RuntimeError) as error:
        if not is_passing(error):
            raise
        return _short(error)


def _short(error: Exception) -> int:
    """Report a temporary shortage on this machine, and return the exit code."""
    _log.debug("the command failed", exc_info=error)
    _say(f"{str(error) or 'out of memory'}; {SHORTAGE}")
    return FAILED


def _is_nowhere() -> bool:
    from pathlib import Path

    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _without_output(error: OSError) -> int:
    """Return the exit code for output that can't be written, or whose reader is gone. Re-raises any other error.

    If the reader of a pipe is gone, the command ends silently, like a program killed by SIGPIPE.
    """
    if error.errno in _UNWRITABLE:
        _say(f"the output cannot be written: {error.strerror}")
    elif error.errno not in _GONE:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python prints another error when it flushes at exit
    return UNREAD if error.errno == errno.EPIPE else FAILED


def built_in() -> dict[str, str]:
    """Map the name of each subcommand to the name of its module. Each file of agent/cli/commands is a subcommand."""
    return {info.name.replace("_", "-"): f"{commands.__name__}.{info.name}" for info in iter_modules(commands.__path__)}


def _run(argv: Sequence[str], stack: ExitStack) -> int:
    before, name, after = _split(argv)
    parser = _parser()
    options = parser.parse_args(before)
    if name is None:
        if options.version:
            print(f"toolcrib {__version__}")
            return OK
        stack.enter_context(logging_to_stderr(verbose=options.verbose))
        from agent.cli.terminal import columns_of

        print(fitted(_help(options, stack, full=options.help), columns_of(sys.stdout)), end="")
        return OK
    stack.enter_context(logging_to_stderr(verbose=options.verbose or _asks_for_more(after)))
    if options.help:
        after = ["--help"]
    known = built_in()
    command: Any = import_module(known[name]) if name in known else _of_plugins(name, options, after, stack, known)

    def run() -> int:
        parser = parser_of(name, command)
        words = command.prepared(after) if hasattr(command, "prepared") else after
        try:
            args = _reader(parser, is_own=name in known)(words, options)
        except SystemExit as end:
            if end.code == USAGE and "--json" in words and hasattr(command, "refused"):
                print_json_as_ascii()
                command.refused(parser.said.strip().removeprefix(f"{parser.prog}: "))
            raise
        if getattr(args, "json", False):
            print_json_as_ascii()
        result = command.run(args)
        return OK if result is None else int(result)

    return run() if name in known else _isolated(name, command, run)


def _reader(parser: argparse.ArgumentParser, *, is_own: bool) -> Callable[..., argparse.Namespace]:
    """Return the function that parses the words after a subcommand.

    If one of toolcrib's own subcommands takes several words, options may appear between them. Such parsing is slower, so it is
    not used for a single word. A plugin's parser may not support it.
    """
    several = sum(not action.option_strings for action in parser._actions) > 1
    return parser.parse_intermixed_args if is_own and several else parser.parse_args


def parser_of(name: str, command: Any) -> CommandParser:
    """Return the parser of the words after a subcommand, given the subcommand's module."""
    parser = CommandParser(
        prog=f"toolcrib {name}",
        description=command.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # a command may describe a common option in its own words
    )
    _common(parser, argparse.SUPPRESS)
    command.configure(parser)
    if "exit code" not in (parser.epilog or "").lower():
        parser.epilog = f"{parser.epilog or ''}\n{_CODES}"
    return parser


def _isolated(name: str, command: Any, run: Callable[[], int]) -> int:
    """Run a plugin's command. An unexpected exception becomes one line that names the plugin's module."""
    try:
        return run()
    except ToolcribError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (*_UNWRITABLE, *_GONE):
            raise
        _log.debug("the command %r failed", name, exc_info=True)
        where = getattr(command, "__module__", "") or getattr(command, "__name__", "")
        _say(f"the command {name!r} of a plugin ({where}) failed: {type(error).__name__}: {error}\n--verbose shows the traceback")
        return FAILED


def _split(argv: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Return the options before the subcommand, the subcommand, and the words after it."""
    takes_value = False
    for index, word in enumerate(argv):
        if not takes_value and not word.startswith("-"):
            return list(argv[:index]), word, list(argv[index + 1 :])
        takes_value = word in ("--config", "--profile")
    return list(argv), None, []


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="toolcrib", usage="toolcrib [OPTIONS] COMMAND ...", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-V", "--version", action="store_true")
    _common(parser, None)
    return parser


def _common(parser: argparse.ArgumentParser, default: Any) -> None:
    """Add the options that may stand before or after the subcommand."""
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--config", metavar="FILE", default=default, help="configuration file (default: $XDG_CONFIG_HOME/toolcrib/config.yaml)"
    )
    group.add_argument(
        "--profile", metavar="NAME", default=default, help="profile of the configuration, like TOOLCRIB_PROFILE ('': none)"
    )
    group.add_argument(
        "-v", "--verbose", action="store_true", default=default or False, help="log to stderr, like TOOLCRIB_LOG=debug"
    )
    group.add_argument(
        OPTION, action="store_true", default=default or False, help="let a debugger attach and other processes read this one"
    )


def _asks_for_more(words: Sequence[str]) -> bool:
    return "--verbose" in words or "-v" in words


def _help(options: argparse.Namespace, stack: ExitStack, *, full: bool) -> str:
    found = [(name, str(import_module(module).HELP)) for name, module in sorted(built_in().items())]
    lines = ["toolcrib - a guarded platform that gives tools to agents", "", "usage: toolcrib [OPTIONS] COMMAND ...", ""]
    lines += ["commands:", *(f"  {name:<12} {text}" for name, text in found)]
    added = _plugin_help(options, stack)
    if added:
        lines += ["", "commands of plugins:", *(f"  {name:<12} {text}" for name, text in added)]
    lines += ["", "options: --help  --version  --verbose  --debuggable  --config FILE  --profile NAME"]
    lines += ["", _EPILOG] if full else ["", "`toolcrib --help` shows examples; `toolcrib chat` starts a chat.", ""]
    return "\n".join(lines)


def _plugin_help(options: argparse.Namespace, stack: ExitStack) -> list[tuple[str, str]]:
    from agent.config import load_config

    try:
        if not load_config(options.config, profile=options.profile).plugins.enabled:
            return []
        crib = stack.enter_context(open_crib(options))
    except ConfigError as error:
        _say(f"the commands of plugins are not shown: {error}")
        return []
    return sorted((name, str(getattr(module, "HELP", ""))) for name, module in crib.commands.items())


def _of_plugins(name: str, options: argparse.Namespace, after: Sequence[str], stack: ExitStack, known: dict[str, str]) -> Any:
    """Return the module of a plugin's subcommand. Its plugin stays loaded until the command has run."""
    from agent.config import load_config

    early, _ = _early_options().parse_known_args(list(after))
    options.config = early.config or options.config
    options.profile = options.profile if early.profile is None else early.profile
    added: dict[str, Any] = {}
    if load_config(options.config, profile=options.profile).plugins.enabled:
        added = dict(stack.enter_context(open_crib(options)).commands)
    if name in added:
        return added[name]
    raise ToolcribError(f"unknown command {name!r}; {meant_by(name, [*known, *added])}")


def _early_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--profile")
    return parser


def open_crib(options: argparse.Namespace, *, looks: bool = False, as_confirmed: bool = False) -> Crib:
    """Assemble a crib from these options and return it; it is a context manager. Raises ConfigError.

    The store is opened at first use, which raises StoreFailed; most commands that only read never use it. ``looks`` is for
    commands that only read or change stored data. They create no store, so that the next start still counts as the first one,
    which accepts the configuration as it is. ``as_confirmed`` uses the configuration as last confirmed.
    """
    from pathlib import Path

    from agent.api import assemble, open_store
    from agent.cli.confirming import confirmed_config, looking_config
    from agent.config import load_config
    from agent.policy.confirmation import require_confirmed

    cwd = getattr(options, "cwd", None)
    folder = real_path(with_home("." if cwd and _is_far(options) else cwd or "."))
    if not folder.is_dir():
        raise ToolcribError(f"--cwd: {folder} is not a folder")
    file = Path(options.config) if options.config else None
    if file is not None and not file.exists():
        raise ToolcribError(f"--config: {file} does not exist; to create it: toolcrib config set KEY VALUE --config {file}")
    config = load_config(file, profile=options.profile, project_dir=folder)
    if as_confirmed:
        config = looking_config(config, options.profile, folder)
    elif getattr(options, "asks", True):
        confirmed_config(config)
    else:
        require_confirmed(config)
    if getattr(options, "develop_toolcrib", False):
        config = replace(config, approval=replace(config.approval, develop_toolcrib=True))
    allows = getattr(options, "allow", ()) or getattr(options, "allow_file", ())
    if allows:
        from agent.policy.one_run_rules import allowed_words, with_allowed

        config, rules = with_allowed(config, options.allow, options.allow_file, folder)
    crib = assemble(config=config, project_dir=folder, store=open_store(config, late=True, looks=looks))
    if allows:
        options.allowed = allowed_words(rules, crib.registry)
        for words in options.allowed:
            _say(f"allowed for this run: {words}")
    for notice in (*crib.config.notices, *mistyped(crib.config, crib.registry)):
        _say(notice)
    return crib


@contextmanager
def running_crib(
    options: argparse.Namespace, *, looks: bool = False, as_confirmed: bool = False
) -> Iterator[tuple[Crib, asyncio.Runner]]:
    """Yield the crib of ``open_crib``, and a runner to open sessions with. At the end the runner closes the crib."""
    import asyncio

    with open_crib(options, looks=looks, as_confirmed=as_confirmed) as crib, asyncio.Runner() as runner:
        try:
            yield crib, runner
        finally:
            with interrupting(lambda: None):
                runner.run(crib.aclose())


def mistyped(config: Config, registry: ToolRegistry) -> Iterator[str]:
    """Yield a warning for each misspelt name of a disabled tool. Other unknown names may belong to a disabled plugin."""
    lists = {"tools.disabled": config.tools.disabled}
    lists |= {f"platforms.{name}.disabled_tools": one.disabled_tools for name, one in config.platforms.items()}
    lists |= {f"users.{name}.disabled_tools": one.disabled_tools for name, one in config.users.items()}
    for key, names in lists.items():
        for name in names:
            if registry.get(name) is None and (near := registry.closest(name)) is not None:
                yield f"{config.path}: {key}: unknown tool {name!r}; did you mean {near!r}?"


def _is_far(options: argparse.Namespace) -> bool:
    """Return whether --cwd is a folder of another host. For an unknown backend return False; a later step reports it."""
    from agent.backends import Backends
    from agent.config import load_config

    try:
        config = load_config(options.config, profile=options.profile)
        return Backends(config, ()).get(getattr(options, "backend", "")).is_remote
    except ConfigError:
        return False


def _say(text: str) -> None:
    print(f"toolcrib: {text}", file=sys.stderr)
