"""``toolcrib completion``: a completion script for the shell, generated from the commands' parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from agent.cli.app import OK, built_in, parser_of
from agent.cli.choices import KINDS, OPTIONS, PLACES, names_of
from toolcrib.contract.errors import ToolcribError

HELP = "Install completion for bash, zsh or fish, or print its script."
_EPILOG = """\
install it into a file that your shell reads; it keeps working with newer versions:
  toolcrib completion --install                 for the shell in $SHELL
  toolcrib completion --install zsh             also prints a line for .zshrc, if .zshrc needs it
  toolcrib completion --uninstall

or load it at each start:
  eval "$(toolcrib completion bash)"            in ~/.bashrc
  eval "$(toolcrib completion zsh)"             in ~/.zshrc, after compinit
  toolcrib completion fish | source             in ~/.config/fish/config.fish

print names for your own script (names that need quotes are left out):
  toolcrib completion --names tools              tools of a session
  toolcrib completion --names backends
  toolcrib completion --names values --key display.theme
"""
_BASH = """\
_toolcrib() {
    local line=${COMP_LINE:0:$COMP_POINT} valued=" %(valued)s "
    local current=${line##*[[:space:]]} before= named= action= key= word= skip= offered= kind= at= count=0
    for ((at = 1; at < COMP_CWORD; at++)); do  # bash splits words at = and :
        word=${COMP_WORDS[at]}
        if [[ $word == [=:] ]]; then skip=1
        elif [[ $skip ]]; then skip=
        elif [[ $valued == *" $word "* ]]; then skip=1
        elif [[ $word != -* ]]; then
            ((++count))
            case $count in 1) named=$word ;; 2) action=$word ;; 3) key=$word ;; esac
        fi
    done
    before=${line%%"$current"}
    before=${before%%"${before##*[![:space:]]}"} before=${before##*[[:space:]]}
    if [[ $current == --*=* ]]; then before=${current%%%%=*} current=${current#*=}; fi
    case $before in
%(options)s
        *) if [[ $valued == *" $before "* ]]; then return
           elif [[ $current == -* ]]; then
               case $named in
%(cases)s
                   *) offered="%(everywhere)s" ;;
               esac
           elif ((count == 0)); then offered="%(commands)s"
           else
               ((count > 1)) || case $named in
%(actions)s
               esac
               case "$named:$action" in
%(places)s
               esac
               if [[ $named:$action == config:set ]] && ((count > 2)); then
                   kind=
                   ((count > 3)) || offered=$(toolcrib completion --names values --key "$key" 2>/dev/null)
               fi
           fi ;;
    esac
    [[ $kind ]] && offered+=" $(toolcrib completion --names "$kind" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
    if [[ ${ZSH_VERSION-} ]]; then  # zsh passes and expects whole words
        word=${line##*[[:space:]]}
        [[ $word == --*=* ]] && COMPREPLY=("${COMPREPLY[@]/#/${word%%%%=*}=}")
    elif [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%%"${current##*:}"}"}")
    fi
}
complete -o default -F _toolcrib toolcrib
"""
_FISH = """\
function __toolcrib_at --description 'Succeed if exactly these words were typed; with --below, if the typed words begin with them'
    set -l valued %(valued)s
    set -l words
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
        else if contains -- $word $valued
            set skip 1
        else if not string match -q -- '-*' $word
            set -a words $word
        end
    end
    if test "$argv[1]" = --below
        set -e argv[1]
        test (count $words) -ge (count $argv); or return 1
        test (count $argv) -gt 0; and set words $words[1..(count $argv)]
    end
    test "$words" = "$argv"
end
complete -c toolcrib -f
"""
_NAMES = "toolcrib completion --names"
_SETS = ("config", "set")
"""The command that takes a key, and then one of the key's values."""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_EVERYWHERE = ("--help", "--version", "--verbose", "--config", "--profile")


@dataclass(frozen=True, slots=True)
class CompletionWords:
    """Words that may follow a command."""

    actions: tuple[str, ...]
    options: tuple[str, ...]
    valued: tuple[str, ...]
    """Options that take a value, such as a file, a name or a number."""
    help: str = ""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Option -> its values, for options with a fixed list of values."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), nargs="?", help="the shell to complete toolcrib commands in")
    parser.add_argument("--install", action="store_true", help="write the file that the shell reads, and print its path")
    parser.add_argument("--uninstall", action="store_true", help="remove that file")
    parser.add_argument(
        "--names", metavar="KIND", choices=sorted(KINDS), help=f"print names, one on each line: {', '.join(sorted(KINDS))}"
    )
    parser.add_argument("--key", metavar="KEY", default="", help="with --names values: the configuration key")


def run(args: argparse.Namespace) -> int:
    if args.names:
        args.asks = False  # the shell wants names; no user can answer questions
        print("\n".join(names_of(args.names, args)))
        return OK
    if args.install or args.uninstall:
        return _file(args)
    if not args.shell:
        raise ToolcribError("name the shell: toolcrib completion bash, zsh or fish; --install installs completion")
    known = {name: _words(parser_of(name, import_module(module))) for name, module in sorted(built_in().items())}
    if args.shell == "fish":
        print(_fish(known), end="")
    else:
        print((_ZSH if args.shell == "zsh" else "") + _bash(known), end="")
    return OK


def _file(args: argparse.Namespace) -> int:
    """Write or remove the completion file of the named shell, or of $SHELL if none is named. Return the exit code."""
    from agent.cli.completion_file import install, shell_of_person, uninstall
    from agent.config import load_config
    from agent.policy.self_protection import folders_of, refuse_below

    if args.install and args.uninstall:
        raise ToolcribError("give either --install or --uninstall")
    refuse_below(folders_of(load_config(args.config, profile=args.profile)), "changing the shell's completion")
    print("\n".join((install if args.install else uninstall)(args.shell or shell_of_person())))
    return OK


def _bash(known: dict[str, CompletionWords]) -> str:
    def rows(indent: int, cases: Iterable[str]) -> str:
        return "\n".join(" " * indent + case for case in cases)

    return _BASH % {
        "valued": " ".join(_valued(known)),
        "everywhere": " ".join(_EVERYWHERE),
        "commands": " ".join(known),
        "options": rows(
            8,
            [
                *(f"{option}) kind={kind} ;;" for option, kind in OPTIONS.items()),
                *(f'{option}) offered="{" ".join(words)}" ;;' for option, words in _choices(known).items()),
            ],
        ),
        "cases": rows(19, (f'{name}) offered="{" ".join(one.options)}" ;;' for name, one in known.items())),
        "actions": rows(19, (f'{name}) offered="{" ".join(one.actions)}" ;;' for name, one in known.items() if one.actions)),
        "places": rows(19, (f"{command}:{action or '*'}) kind={kind} ;;" for (command, action), kind in PLACES.items())),
    }


def _choices(known: dict[str, CompletionWords]) -> dict[str, tuple[str, ...]]:
    """Return the values of options with a fixed list, across all commands."""
    found: dict[str, tuple[str, ...]] = {}
    for one in known.values():
        for option, words in one.choices.items():
            found[option] = tuple(dict.fromkeys([*found.get(option, ()), *words]))
    return {option: words for option, words in found.items() if option not in OPTIONS}


def _valued(known: dict[str, CompletionWords]) -> list[str]:
    """Return all options that take a value. Such an option takes one in every command that has it."""
    return sorted({"--config", "--profile", *(option for words in known.values() for option in words.valued)})


def _words(parser: argparse.ArgumentParser) -> CompletionWords:
    actions: list[str] = []
    options: list[str] = []
    valued: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:
        named = [option for option in action.option_strings if option.startswith("--")]
        if not action.option_strings:
            actions += map(str, action.choices or ())
        options += named
        valued += named if action.nargs is None else []
        choices |= {option: tuple(map(str, action.choices)) for option in named if action.choices}
    return CompletionWords(tuple(actions), tuple(options), tuple(valued), parser.description or "", choices)


def _fish(known: dict[str, CompletionWords]) -> str:
    begin = "complete -c toolcrib"
    lines = [f"{begin} -n __toolcrib_at -a {name} -d {_text(words.help)}" for name, words in known.items()]
    lines += [f"{begin} -n __toolcrib_at -l {option[2:]}" for option in _EVERYWHERE if option not in _valued(known)]
    for name, words in known.items():
        lines += [f"{begin} -n '__toolcrib_at {name}' -a {word}" for word in words.actions]
        below = f"{begin} -n '__toolcrib_at --below {name}'"
        valued = {option: " -rF" for option in words.valued if option not in OPTIONS}
        valued |= {option: f" -x -a '{' '.join(choices)}'" for option, choices in words.choices.items()}
        lines += [f"{below} -l {option[2:]}{valued.get(option, '')}" for option in words.options if option not in OPTIONS]
        if not words.actions and (name, "") not in PLACES:
            lines.append(f"{below} -F")
    for (command, action), kind in PLACES.items():
        below = "" if (command, action) == _SETS else "--below "
        lines.append(f"{begin} -n '__toolcrib_at {below}{command} {action}' -a '({_NAMES} {kind} 2>/dev/null)'")
    key = "(commandline -opc)[4]"
    lines.append(f"{begin} -n '__toolcrib_at config set {key}' -a '({_NAMES} values --key {key} 2>/dev/null)'")
    for option, kind in OPTIONS.items():
        takers = " ".join(name for name, words in known.items() if option in words.valued)
        when = "" if option == "--profile" else f" -n '__fish_seen_subcommand_from {takers}'"
        lines.append(f"{begin}{when} -l {option[2:]} -x -a '({_NAMES} {kind} 2>/dev/null)'")
    return _FISH % {"valued": " ".join(_valued(known))} + "\n".join(lines) + f"\n{begin} -l config -rF\n"


def _text(words: str) -> str:
    return "'" + words.replace("\\", "").replace("'", "\\'") + "'"
