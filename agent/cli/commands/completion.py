"""``toolcrib completion``: a script for the shell, made of what the commands' own parsers take."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module

from agent.cli.app import OK, built_in, parser_of

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
    local words valued
    case $command in
%(cases)s
        *) words="%(options)s" valued=" --config --profile " ;;
    esac
    if ((COMP_CWORD == 1)); then words="%(commands)s %(options)s"
    elif [[ $command == call && COMP_CWORD -eq 2 ]] ||
        [[ $command == tools && ${COMP_WORDS[2]} =~ ^(show|enable|disable)$ && $word != -* ]]; then
        words=$(toolcrib tools --names 2>/dev/null)
    elif [[ $before == --backend ]] || [[ $command == env && ${COMP_WORDS[2]} =~ ^(test|shell|stop)$ && $word != -* ]]; then
        words=$(toolcrib env --names 2>/dev/null)
    elif [[ $before == --mode ]]; then words="default confirm-edits plan"
    elif [[ $valued == *" $before "* ]]; then words=
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _toolcrib toolcrib
"""
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
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    known = {name: _words(parser_of(name, import_module(module))) for name, module in sorted(built_in().items())}
    if args.shell == "fish":
        print("\n".join(_fish(known)))
        return OK
    cases = "\n".join(
        f'        {name}) words="{" ".join(one.actions + one.options)}" valued=" {" ".join(one.valued)} " ;;'
        for name, one in known.items()
    )
    everywhere = "--help --config --profile --verbose --version"
    script = _BASH % {"commands": " ".join(known), "options": everywhere, "cases": cases}
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
    lines += ["complete -c toolcrib -n '__fish_seen_subcommand_from call' -a '(toolcrib tools --names 2>/dev/null)'"]
    lines += ["complete -c toolcrib -n '__fish_seen_subcommand_from env' -a '(toolcrib env --names 2>/dev/null)'"]
    lines += ["complete -c toolcrib -l mode -x -a 'default confirm-edits plan'"]
    return [*lines, "complete -c toolcrib -l backend -x -a '(toolcrib env --names 2>/dev/null)'"]
