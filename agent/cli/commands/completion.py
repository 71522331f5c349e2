"""``toolcrib completion``: a script for the shell."""

from __future__ import annotations

import argparse

from agent.cli.app import OK, built_in

NAME = "completion"
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
    local words
    if ((COMP_CWORD == 1)); then words="%(commands)s %(options)s"
    elif [[ $command == call && COMP_CWORD -eq 2 ]] ||
        [[ $command == tools && ${COMP_WORDS[2]} =~ ^(show|enable|disable)$ && $word != -* ]]; then
        words=$(toolcrib tools --names 2>/dev/null)
    elif [[ $before == --backend ]] || [[ $command == env && ${COMP_WORDS[2]} =~ ^(test|shell|stop)$ && $word != -* ]]; then
        words=$(toolcrib env --names 2>/dev/null)
    else
        case $command in
%(cases)s
            *) words="%(options)s" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _toolcrib toolcrib
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_OPTIONS = "--help --config --profile --verbose"
_MODEL = "--model --base-url --api-key-env --provider"
_SESSION = "--max-turns --max-tokens --toolsets --disable --trace --cwd --backend --continue --resume"
_WORDS = {
    "approvals": "list narrow revoke pending deny history --session --limit --json",
    "call": "--plain --backend",
    "chat": f"{_MODEL} {_SESSION}",
    "completion": "bash zsh fish",
    "config": "show get set unset path check --origins --json",
    "env": "list test shell stop prune --session --all --older-than --yes --json --names",
    "explain": "--cwd --json --jsonl --replay --session",
    "run": f"--json --timeout {_MODEL} {_SESSION}",
    "sessions": "list show --json --here --limit",
    "tools": "list show enable disable --platform --json --names",
    "trace": "",
    "toolsets": "list show resolve --platform --user --explain --json",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    names = sorted(built_in())
    if args.shell == "fish":
        print("\n".join(_fish(names)))
        return OK
    cases = "\n".join(f'            {name}) words="{_OPTIONS} {words}" ;;' for name, words in _WORDS.items())
    script = _BASH % {"commands": " ".join(names), "options": f"{_OPTIONS} --version", "cases": cases}
    print((_ZSH if args.shell == "zsh" else "") + script, end="")
    return OK


def _fish(names: list[str]) -> list[str]:
    lines = [f"complete -c toolcrib -f -n __fish_use_subcommand -a {name!r}" for name in names]
    lines += [f"complete -c toolcrib -l {option.removeprefix('--')}" for option in f"{_OPTIONS} --version".split()]
    for name, words in _WORDS.items():
        when = f"-n '__fish_seen_subcommand_from {name}'"
        for word in words.split():
            lines.append(f"complete -c toolcrib {when} " + (f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"))
    lines += ["complete -c toolcrib -n '__fish_seen_subcommand_from call' -a '(toolcrib tools --names 2>/dev/null)'"]
    lines += ["complete -c toolcrib -n '__fish_seen_subcommand_from env' -a '(toolcrib env --names 2>/dev/null)'"]
    return [*lines, "complete -c toolcrib -l backend -x -a '(toolcrib env --names 2>/dev/null)'"]
