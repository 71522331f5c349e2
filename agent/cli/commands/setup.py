"""``toolcrib setup``: a short wizard that configures the model, the backend and the toolsets."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, UNASKED

if TYPE_CHECKING:
    from agent.cli.setup.detection import SetupFound
    from agent.cli.setup.person import Person
    from agent.cli.setup.wizard import Wizard
    from agent.cli.terminal import Terminal
    from agent.config import Config

HELP = "Set up a model, a backend and toolsets: detect what it can, ask for the rest, test it, then write the configuration."
_EPILOG = """\
examples:
  toolcrib setup                                            at a terminal; again after any change
  toolcrib setup --dry-run                                  everything except writing
  toolcrib setup --provider manual --backend bubblewrap     no model; commands in a sandbox
  toolcrib setup --base-url http://127.0.0.1:11434/v1 --model qwen3 --yes
  toolcrib setup --provider anthropic --model claude-sonnet-4-5 --key-env WORK_KEY --no-test
  toolcrib setup --sandbox workspace                        commands write only the project, private caches and a private /tmp
  toolcrib setup --backend docker --image debian:12 --toolsets coding,todo
  toolcrib setup --toolsets preset                          use each platform's default tools again

setup detects model servers on this machine (Ollama, llama.cpp, vLLM, LM Studio), keys of vendors in the environment and in
secrets.env, and backends and tools that can work here. The current value is the default of each question, and it stays if you do
not change it. A question with a single sensible answer is not asked. Each answer is tested: the model calls a tool, the backend
runs a command. Nothing is written before the end; Ctrl-C at any question writes nothing.

Keys: you type a key without echo, and it goes to secrets.env beside the configuration, which only you can read. --key-env names a
variable, or a line of that file; no option takes the key itself.

Without a terminal, flags are the answers; for the rest, current or detected values are used. As with `toolcrib config set`, a
setting that loosens or redirects applies only after a user confirms it, and inside a session the command refuses.

exit codes: 0 done, or nothing to change; 1 a test failed and nothing was written; 2 wrong command line or configuration, or an
answer is missing (the message names its flag); 4 written, but a user must confirm it first; 130 interrupted, nothing was written.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from agent.providers.rows import MANUAL, PROVIDERS
    from tools.environments.rows import ROWS, needed_settings

    parser.epilog = _EPILOG
    model = parser.add_argument_group("the model")
    model.add_argument("--model", metavar="NAME", default="", help="its name on the server")
    model.add_argument("--base-url", metavar="URL", default="", help="address of its server, such as http://127.0.0.1:11434/v1")
    model.add_argument("--provider", metavar="NAME", default="", help=f"{', '.join(PROVIDERS)}; {MANUAL}: no model")
    model.add_argument("--key-env", metavar="NAME", default="", help="the variable, or line of secrets.env, that holds its key")
    model.add_argument("--ports", metavar="LIST", type=_ports, default=(), help="ports to look for model servers on: 8080,9000")
    backend = parser.add_argument_group("the backend, which runs commands")
    backend.add_argument("--backend", metavar="NAME", default="", help=f"{', '.join(ROWS)}, or your own backend's name")
    backend.add_argument(
        "--sandbox", choices=("workspace", "own", "none"), default="", help="local: the mode of its sandbox, as sandbox.mode"
    )
    for key, rows in needed_settings().items():
        words = "; ".join(f"{name}: {needs.help}" for name, needs in rows.items())
        backend.add_argument(f"--{key}", metavar=next(iter(rows.values())).metavar, default="", help=words)
    tools = parser.add_argument_group("the tools")
    tools.add_argument("--toolsets", metavar="A,B", type=_names, help="these toolsets; preset: each platform's own")
    how = parser.add_argument_group("how")
    how.add_argument("--no-test", action="store_true", help="test nothing")
    how.add_argument("--yes", action="store_true", help="ask nothing: use current or detected values")
    how.add_argument("--dry-run", action="store_true", help="show what would be written")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _ports(text: str) -> tuple[int, ...]:
    try:
        ports = tuple(int(word) for word in text.split(","))
    except ValueError:
        ports = ()
    if not ports or len(ports) > 20 or not all(0 < port < 65536 for port in ports):
        raise argparse.ArgumentTypeError("expected up to 20 ports separated by commas, such as 8080,9000")
    return ports


def run(args: argparse.Namespace) -> int:
    from agent.cli.setup.person import Person
    from agent.cli.setup.wizard import StoppedError
    from agent.config import config_path, load_config
    from agent.policy.confirmation import is_first_start
    from agent.policy.self_protection import folders_of, refuse_below

    file = config_path(args.config)
    first = is_first_start(load_config(file, profile=""))  # read first, since loading the configuration below records a start
    config = _agreed_config(args, file)
    folders = folders_of(config)
    refuse_below(folders, "running the setup")
    with _terminal(folders, asks=not args.yes) as terminal:
        try:
            return _walk(args, config, Person(terminal, lines_only=config.display.screen_reader), first=first)
        except StoppedError as stop:
            print(f"toolcrib: {stop}; nothing was written", file=sys.stderr)
            return FAILED


def _profile(args: argparse.Namespace) -> str:
    from agent.config._layers import PROFILE

    return os.environ.get(PROFILE, "") if args.profile is None else args.profile


def _agreed_config(args: argparse.Namespace, file: Path) -> Config:
    """Return the current configuration for this folder, with the profile if it exists already. Raises ConfigError."""
    from agent.cli.confirming import confirmed_config
    from agent.config import load_config

    profile = _profile(args)
    begun = profile if profile in load_config(file, profile="").profiles else ""
    return confirmed_config(load_config(file, profile=begun, project_dir=Path.cwd()))


@contextmanager
def _terminal(folders: list[Path], *, asks: bool) -> Iterator[Terminal | None]:
    """Yield the user's terminal, or None if there is none, or if the user must not be asked."""
    from contextlib import ExitStack

    from agent.cli.terminal import controlling_terminal, is_terminal
    from toolcrib.contract.errors import ToolcribError

    with ExitStack() as stack:
        terminal = None
        if asks and is_terminal(sys.stdin):
            try:
                terminal = stack.enter_context(controlling_terminal(folders))
            except ToolcribError:
                terminal = None
        yield terminal


def _walk(args: argparse.Namespace, config: Config, person: Person, *, first: bool) -> int:
    from agent.cli.setup import backend, model, tools
    from agent.cli.setup.wizard import Wizard, persons_config
    from agent.model_choice.models import environment

    before = persons_config(config.path, _profile(args))
    environ = environment(config)
    found = _look(args, config, person)
    wizard = Wizard(args, person, config.path, _profile(args), Path.cwd(), before, environ, found)
    parts = (model.configure_model, backend.choose_backend, tools.choose_toolsets)
    while True:
        for part in parts:
            part(wizard)
        if _agrees(wizard):
            return _write(wizard, first=first)


def _look(args: argparse.Namespace, config: Config, person: Person) -> SetupFound:
    from agent.cli.setup.detection import detect_setup
    from agent.cli.setup.flags import check
    from agent.cli.setup.wizard import crib_of, names
    from agent.model_choice.models import environment
    from tools.dispatch.bridge import run_async

    with crib_of(config, Path.cwd()) as crib:
        check(args, crib)
        with person.waits("detecting model servers, keys and backends"):
            found = run_async(detect_setup(crib, environment(config), args.ports))
    for server in found.servers:
        person.print_text(f"found {server.kind} at {server.base_url}, models: {names(server.models) or 'none yet'}")
    for key in found.keys.values():
        person.print_text(f"found {key}")
    return found


def _agrees(wizard: Wizard) -> bool:
    """Show the changes, and ask. Return whether to write them. Raises StoppedError."""
    from agent.cli.setup.person import Option
    from agent.cli.setup.wizard import BACK, STOP, StoppedError

    lines = wizard.lines()
    if wizard.args.dry_run or not (lines or wizard.secret) or not wizard.person.is_there:
        return True
    wizard.person.print_text(f"to be written to {wizard.file}:")
    wizard.person.print_text("\n".join([*lines, *_secret_lines(wizard)]), mark="  ")
    options = [Option("write it", ""), Option("back: change answers", BACK), Option("stop, write nothing", STOP)]
    chosen = wizard.person.choose("Write this?", options, 0, "--yes")
    if chosen == STOP:
        raise StoppedError("stopped")
    if chosen == BACK:
        wizard.begin_anew()
    return not chosen


def _secret_lines(wizard: Wizard) -> list[str]:
    from agent.config import secrets_path

    return [f"{wizard.secret[0]}: (hidden), in {secrets_path(wizard.file.parent)}"] if wizard.secret else []


def _write(wizard: Wizard, *, first: bool) -> int:
    from agent.cli.confirming import set_all_as_person
    from agent.config import write_secret

    lines, person = wizard.lines(), wizard.person
    if not lines and wizard.secret is None:
        person.print_text(f"nothing to change in {wizard.file}")
    elif wizard.args.dry_run:
        person.print_text(f"would write to {wizard.file}:")
        person.print_text("\n".join([*lines, *_secret_lines(wizard)]), mark="  ")
    counts = True
    if not wizard.args.dry_run and (lines or wizard.secret):
        if wizard.secret is not None:
            write_secret(*wizard.secret, wizard.file.parent)
        if lines:
            counts = set_all_as_person(wizard.file, wizard.edits(), first=first)
        person.print_text(f"wrote to {wizard.file}:")
        person.print_text("\n".join([*lines, *_secret_lines(wizard)]), mark="  ")
    begun = f" --profile {wizard.profile}" if wizard.profile else ""
    person.print_text(f"next: toolcrib{begun} chat" if counts else "next: toolcrib config confirm")
    return OK if counts else UNASKED
