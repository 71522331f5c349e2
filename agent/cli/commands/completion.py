"""``toolcrib completion``: a script for the shell, made of what the commands' own parsers take."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module

from agent.cli.app import OK, built_in, parser_of
from agent.cli.choices import KINDS, OPTIONS, PLACES, names_of
from toolcrib import ToolcribError

HELP = "Print a completion script for bash, zsh or fish."
_EPILOG = """\
install it:
  eval "$(toolcrib completion bash)"                                        in ~/.bashrc
  eval "$(toolcrib completion zsh)"                                         in ~/.zshrc, after compinit
  toolcrib completion fish > ~/.config/fish/completions/toolcrib.fish
"""
_BASH = """\
_toolcrib() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    local words valued kind=
    case $command in
%(cases)s
        *) words="%(options)s" valued=" --config --profile " ;;
    esac
    if ((COMP_CWORD == 1)); then words="%(commands)s %(options)s"
    else
        case $before in
%(named)s
            *) if [[ $valued == *" $before "* ]]; then words=
               elif [[ $word != -* ]]; then
                   case "$command:$((COMP_CWORD > 2 ? 1 : 0)):${COMP_WORDS[2]}" in
%(places)s
                   esac
               fi ;;
        esac
        [[ $kind ]] && words=$(toolcrib completion --names "$kind" 2>/dev/null)
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _toolcrib toolcrib
"""
_NAMES = "toolcrib completion --names"
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True, slots=True)
class CompletionWords:
    """Words that may follow a command."""

    actions: tuple[str, ...]
    options: tuple[str, ...]
    valued: tuple[str, ...]
    """Options with a value behind them: a file, a name, a number."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), nargs="?")
    parser.add_argument("--names", choices=sorted(KINDS), help="print the names of a kind, as the scripts ask for them")


def run(args: argparse.Namespace) -> int:
    if args.names:
        print("\n".join(names_of(args.names, args)))
        return OK
    if not args.shell:
        raise ToolcribError("name the shell: toolcrib completion bash, zsh or fish")
    known = {name: _words(parser_of(name, import_module(module))) for name, module in sorted(built_in().items())}
    if args.shell == "fish":
        print("\n".join(_fish(known)))
        return OK
    cases = "\n".join(
        f'        {name}) words="{" ".join(one.actions + one.options)}" valued=" {" ".join(one.valued)} " ;;'
        for name, one in known.items()
    )
    everywhere = "--help --config --profile --verbose --version"
    named = "\n".join(f"            {option}) kind={kind} ;;" for option, kind in OPTIONS.items())
    places = "\n".join(
        f"                       {command}:{1 if action else 0}:{action or '*'}) kind={kind} ;;"
        for (command, action), kind in PLACES.items()
    )
    script = _BASH % {"commands": " ".join(known), "options": everywhere, "cases": cases, "named": named, "places": places}
    print((_ZSH if args.shell == "zsh" else "") + script, end="")
    return OK


def _words(parser: argparse.ArgumentParser) -> CompletionWords:
    actions: list[str] = []
    options: list[str] = []
    valued: list[str] = []
    for action in parser._actions:
        named = [option for option in action.option_strings if option.startswith("--")]
        if not action.option_strings:
            actions += map(str, action.choices or ())
        options += named
        valued += named if action.nargs is None else []
    return CompletionWords(tuple(actions), tuple(options), tuple(valued))


def _fish(known: dict[str, CompletionWords]) -> list[str]:
    lines = [f"complete -c toolcrib -f -n __fish_use_subcommand -a {name!r}" for name in known]
    lines += ["complete -c toolcrib -n __fish_use_subcommand -l version"]
    for name, words in known.items():
        when = f"complete -c toolcrib -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{when} -a {word}" for word in words.actions]
        lines += [f"{when} -l {option[2:]}{' -r' if option in words.valued else ''}" for option in words.options]
    for (command, action), kind in PLACES.items():
        seen = f"__fish_seen_subcommand_from {command}" + (f"; and __fish_seen_subcommand_from {action}" if action else "")
        lines.append(f"complete -c toolcrib -f -n '{seen}' -a '({_NAMES} {kind} 2>/dev/null)'")
    return [
        *lines,
        *(f"complete -c toolcrib -l {option[2:]} -x -a '({_NAMES} {kind} 2>/dev/null)'" for option, kind in OPTIONS.items()),
    ]
