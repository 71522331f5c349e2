"""Manual pages of ``toolcrib`` and of each subcommand, generated from their argument parsers, and config.example.yaml."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from agent._version import __version__
from agent.cli.app import _EPILOG, built_in, parser_of
from agent.config import example_text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "man"
_HEADING = re.compile(r"([a-z][a-z' ]+):$")
_CODES = re.compile(r"exit codes?:\s*", re.IGNORECASE)
_ENVIRONMENT: Mapping[str, str] = {
    "TOOLCRIB_CONFIG": "The configuration file.",
    "TOOLCRIB_PROFILE": "A profile of the configuration.",
    "TOOLCRIB_STATE": "The folder of stored sessions and grants.",
    "TOOLCRIB_LOG": "The log level on stderr: debug, info, warning or error.",
    "NO_COLOR": "If set, output has no colours.",
}
_FILES: Mapping[str, str] = {
    "$XDG_CONFIG_HOME/toolcrib/config.yaml": "The configuration; `toolcrib docs settings` describes each key.",
    "$XDG_CONFIG_HOME/toolcrib/secrets.env": "Keys and tokens, readable only by their owner.",
    "$XDG_STATE_HOME/toolcrib": "Sessions, grants and other stored data.",
}


def pages() -> dict[str, str]:
    """Return each page's text by its file name."""
    known = {name: import_module(module) for name, module in sorted(built_in().items())}
    made = {f"toolcrib-{name}.1": _page(name, parser_of(name, command)) for name, command in known.items()}
    return {"toolcrib.1": _main({name: str(command.HELP) for name, command in known.items()})} | made


def _page(name: str, parser: argparse.ArgumentParser) -> str:
    about = (parser.description or "").rstrip(".")
    lines = [*_head(f"toolcrib-{name}", about), ".SH SYNOPSIS", f".B toolcrib {_text(name)}", *_synopsis(parser)]
    lines += [".SH DESCRIPTION", _text(f"{about}."), ".SH OPTIONS", *_options(parser), *_epilog(parser.epilog or "")]
    return _ended([*lines, ".SH SEE ALSO", ".BR toolcrib (1)"])


def _main(commands: Mapping[str, str]) -> str:
    lines = [*_head("toolcrib", "guarded tools for language-model agents"), ".SH SYNOPSIS"]
    lines += [".B toolcrib", r"[\fIOPTIONS\fR] \fICOMMAND\fR ...", ".SH COMMANDS"]
    for name, about in commands.items():
        lines += [".TP", f".BR toolcrib\\-{_text(name)} (1)", _text(about)]
    lines += [".SH OPTIONS"]
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("-h", "--help", action="store_true", help="show the commands, with examples")
    options.add_argument("-V", "--version", action="store_true", help="show the version")
    lines += [*_options(options), ".PP", "All commands take the options", r"\-\-config, \-\-profile and \-\-verbose, too."]
    lines += _epilog(_EPILOG)
    for title, named in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        lines += [f".SH {title}", *(line for one, about in named.items() for line in (".TP", f".B {_text(one)}", _text(about)))]
    also = ", ".join(f"toolcrib\\-{_text(name)}(1)" for name in commands)
    return _ended([*lines, ".SH SEE ALSO", also])


def _head(name: str, about: str) -> list[str]:
    title = _text(name.upper())
    return [
        r".\" Written by scripts/man: change what the command's --help says instead.",
        f'.TH "{title}" "1" "" "toolcrib {__version__}" "toolcrib"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(about[:1].lower() + about[1:])}",
    ]


def _synopsis(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield r"[\fIOPTIONS\fR]"
    yield from (_placed(action) for action in parser._actions if not action.option_strings and action.help != argparse.SUPPRESS)


def _placed(action: argparse.Action) -> str:
    """Return a positional argument with its repetition, such as ``[NAME ...]``."""
    name = f"\\fI{_text(_named(action))}\\fR"
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]", argparse.REMAINDER: f"[{name} ...]"}
    return forms.get(str(action.nargs), name)


def _named(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return action.dest.upper()


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        words = formatter._expand_help(action) if action.help else ""
        if action.choices and not isinstance(action.metavar, str):
            words = (
                f"{words.rstrip('.')}: {', '.join(map(str, action.choices))}" if words else ", ".join(map(str, action.choices))
            )
        value = "" if action.nargs == 0 else f" \\fI{_text(_named(action))}\\fR"
        if action.nargs == "?" and action.option_strings:
            value = f" [{value.strip()}]"
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
        yield ".TP"
        yield f"{names}{value}" if names else _placed(action)
        yield _text(" ".join(words.split())) or "."


def _epilog(text: str) -> Iterator[str]:
    """Yield the text below the options: a title becomes a section, indented lines stay unchanged, other lines are reflowed."""
    literal, begun = False, False
    for line in text.strip("\n").split("\n"):
        indented = line.startswith(" ") and bool(line.strip())
        if literal and not indented:
            yield ".EE"
            literal = False
        if not line.strip():
            yield ".PP"
        elif (title := _HEADING.match(line)) is not None:
            yield f".SH {_text(title[1].upper())}"
            begun = True
        elif (codes := _CODES.match(line)) is not None:
            yield ".SH EXIT STATUS"
            yield from filter(None, [_text(line[codes.end() :])])
            begun = True
        else:
            if not begun:
                yield ".SH NOTES"
                begun = True
            if indented and not literal:
                yield ".EX"
                literal = True
            yield _text(line if indented else line.strip())
    if literal:
        yield ".EE"


def _text(text: str) -> str:
    """Return the text without characters that roff would read as a request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    safe = safe.replace("`", "\\(ga")
    return f"\\&{safe}" if safe.startswith((".", "\\(aq")) else safe


def _ended(lines: list[str]) -> str:
    """Return the joined lines, without paragraphs that are empty or only begin a section."""
    kept: list[str] = []
    for line in lines:
        if line == ".PP" and kept and kept[-1].startswith((".SH", ".PP", ".EX")):
            continue
        if line.startswith(".SH") and kept and kept[-1] == ".PP":
            kept.pop()
        kept.append(line)
    return "\n".join(kept) + "\n"


def main(words: list[str]) -> int:
    """Write the files, or with ``--check`` report files that differ from the code. Return the exit code."""
    example = ROOT / "config.example.yaml"
    made = {example: example_text()} | {FOLDER / name: text for name, text in pages().items()}
    there = {path: path.read_text(encoding="utf-8") for path in (*FOLDER.glob("*.1"), example) if path.exists()}
    other = sorted(path for path in {*made, *there} if made.get(path) != there.get(path))
    if words == ["--check"]:
        print("".join(f"{path.relative_to(ROOT)} is out of date: run scripts/man\n" for path in other), end="")
        return 1 if other else 0
    FOLDER.mkdir(exist_ok=True)
    for path in other:
        if path in made:
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(made) - 1} pages in docs/man, and config.example.yaml; {len(other)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
