"""An operator's rules in config.yaml: rows about commands, in addition to the judge's table, and decisions about tools.

A row of ``approval.rules`` with the level ask, ask-once or block matches a command that has the row's subcommand, one of its
options, and an operand or option value that fits its expression. What the row does not name is not compared. An unknown program's
options may or may not take the next word, so both readings are tried. Values that are unknown before the command runs count as
matching, except for block, which no user could override. A row with the level allow matches only a command that it covers
completely: no unknown value, no redirect, wrapper or environment, only listed options and matching operands. It removes the
``ask`` findings of that command, never an ask-once or a block.

Of the rules in ``approval.tools`` that match a call, the strictest applies, regardless of order: deny, then ask, then allow.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.judge.findings import Level
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value
from tools.judge.table import ANY, ActView, Rule, Test, opt

if TYPE_CHECKING:
    from tools.judge.meaning.state import ShellNow

Decision: TypeAlias = Literal["allow", "ask", "deny"]

MAX_ARG_CHARS = 100_000
"""Maximum length of an argument to match. A longer one matches a rule that denies or asks, but not one that allows."""

_LEVELS = ("allow", "ask", "ask-once", "block")
_DECISIONS = ("deny", "ask", "allow")
_KEY = Regex(r"[a-z0-9][a-z0-9._-]{0,63}")
_OPTION = Regex(r"--?[^\s=]+")
_MISSING = object()
_HOME = "/home/dev"
_PATH = "path"
"""The name in a rule's ``args`` that stands for files, whatever the tool calls its argument."""


# rows about commands


def operator_rules(entries: Sequence[Mapping[str, object]]) -> list[Rule]:
    """Return the rows for the entries of ``approval.rules``, each tested with its own examples.

    An entry has ``key``, ``level``, ``command`` (names separated by blanks), ``sub``, ``options``, ``operands`` (a regular
    expression), ``why``, ``example`` and ``counter`` (commands). Raises ConfigError with the entry, its wrong key and the
    expected value, also if an example does not match or a counter-example does.
    """
    return [_row(entry, f"approval.rules[{index}]") for index, entry in enumerate(entries)]


def _row(entry: Mapping[str, object], where: str) -> Rule:
    key = _text(entry, "key", where, "a name such as deploy.production (small letters, digits, . _ -)", _KEY.fullmatch)
    where = f"{where} ({key})"
    level = _text(entry, "level", where, f"one of {', '.join(_LEVELS)}", _LEVELS.__contains__)
    names = _text(entry, "command", where, "one or more names of commands, without a path", _plain_names)
    why = _text(entry, "why", where, "a few words for the user who is asked", bool)
    options = _text(entry, "options", where, "options separated by spaces, such as '-f --force'", _are_options, default="")
    pattern = _regex(_text(entry, "operands", where, "a regular expression", _always, default=""), f"{where}: operands")
    words = _text(entry, "sub", where, "subcommands separated by spaces", _always, default="")
    touches = _touches(words, options, pattern, unknown=level != "block")
    parts = _covers(words, options, pattern) if level == "allow" else touches
    examples = _list(entry, "example", where, "at least one command that the rule matches", least=1)
    counters = _list(entry, "counter", where, "a list of commands that the rule does not match")
    files_under = tuple(names.split())
    row = Rule(key, cast(Level, level), files_under, parts, why, examples, counters, effect="outside")  # no layer contains it
    for text in examples:
        if not _matches(row, text):
            raise ConfigError(f"{where}: example: the rule must match this command, but does not: {text!r}")
    for text in counters:
        if _matches(row, text):
            raise ConfigError(f"{where}: counter: the rule must not match this command, but does: {text!r}")
    return row


def never_allowed(entry: Mapping[str, object]) -> list[str]:
    """Return the examples of an entry of ``approval.rules`` that are asked about or refused even if the entry allows them."""
    from tools.judge.assess import assess
    from tools.judge.meaning import interpret
    from tools.judge.meaning.state import NoFiles

    row = _row(entry, "approval.rules[0]")
    found = {text: assess(interpret(text, _somewhere(), NoFiles()), home=_HOME, extra=[row]) for text in row.yes}
    return [text for text, findings in found.items() if any(one.level in ("ask-once", "block") for one in findings)]


def _touches(words: str, options: str, pattern: re.Pattern[str] | None, *, unknown: bool) -> Test:
    wanted = [frozenset(one.split("|")) for one in words.split()]
    test = Test(lambda view: any(True for _ in _behind(view, wanted))) if wanted else ANY
    if options:
        test = test & _any_option(frozenset(options.split()))
    if pattern is not None:
        like = _like(pattern, unknown=unknown)
        test = test & Test(lambda view: any(like(value) for rest in _behind(view, wanted) for value in rest))
    return test


def _behind(view: ActView, wanted: Sequence[frozenset[str]]) -> Iterator[list[Value]]:
    """Yield, for each reading of the subcommand, all other operands and all values that are joined to an option.

    The subcommand begins with the first operand, or after words that an option may have taken.
    """
    joined = [value._replace(text=text) for value in view.act.argv[1:] for text in _joined(value.text)]
    operands: list[tuple[Value, bool]] = []
    after_option = ended = False
    for value in view.act.argv[1:]:
        is_option = not ended and len(value.text) > 1 and value.text[0] == "-"
        if not is_option:
            operands.append((value, after_option))
        ended = ended or value.text == "--"
        after_option = is_option and not ended and "=" not in value.text
    for start in range(len(operands) + 1):
        if all(taken for _, taken in operands[:start]):
            found = [value for value, _ in operands[start:]]
            if len(found) >= len(wanted) and all(value.text in ok for value, ok in zip(found, wanted, strict=False)):
                yield [*(value for value, _ in operands[:start]), *found[len(wanted) :], *joined]


def _joined(option: str) -> Iterator[str]:
    """Yield the possible values in an option with a value, such as ``prod`` in ``--env=prod`` and ``-eprod``."""
    if len(option) > 2 and option[0] == "-" and option != "--":
        name, equals, given = option.partition("=")
        if equals:
            yield given
        if name[1] != "-":
            yield option[2:]


def _like(pattern: re.Pattern[str], *, unknown: bool) -> Callable[[Value], bool]:
    return lambda value: pattern.fullmatch(value.text) is not None or (unknown and HOLE in value.text)


def _any_option(names: frozenset[str]) -> Test:
    """Return a test for options: ``-f`` also in a cluster, ``--force`` also abbreviated; ``-force`` only literally."""
    usual = " ".join(name for name in names if name.startswith("--") or len(name) == 2)
    literal = Test(lambda view: any(text.partition("=")[0] in names for text in _dashed(view)))
    return literal | opt(usual) if usual else literal


def _covers(words: str, options: str, pattern: re.Pattern[str] | None) -> Test:
    """Return a test for commands that consist only of the words in the row."""
    listed, wanted = frozenset(options.split()), words.split()

    def ask(view: ActView) -> bool:
        act = view.act
        aside = act.redirects or act.wrappers or act.environment or act.place or act.fed or act.taint or act.code
        if aside or act.stdin is not None or not all(value.known and not value.pattern for value in act.argv):
            return False
        if "/" in act.argv[0].text or "--" in view.words or not all(text.partition("=")[0] in listed for text in _dashed(view)):
            return False
        given = [text for text in view.words if text[:1] != "-" or text == "-"]  # includes values of options, which are unlisted
        if len(given) < len(wanted) or not all(text in one.split("|") for text, one in zip(given, wanted, strict=False)):
            return False
        rest = given[len(wanted) :]
        return not rest if pattern is None else all(pattern.fullmatch(text) for text in rest)

    return Test(ask)


def _dashed(view: ActView) -> list[str]:
    """Return the words before ``--`` that begin with a dash, including values of options."""
    words = view.words[: view.words.index("--")] if "--" in view.words else view.words
    return [text for text in words if len(text) > 1 and text[0] == "-"]


def _matches(row: Rule, text: str) -> bool:
    from tools.judge.dry_runs import only_says
    from tools.judge.meaning import interpret
    from tools.judge.meaning.state import NoFiles
    from tools.judge.rules import family

    def applies(act: Act) -> bool:
        names, view = family(act.name), ActView(act)
        return not set(names).isdisjoint(row.names) and row.test(view) and not only_says(view, names)

    return any(applies(act) for act in interpret(text, _somewhere(), NoFiles()).acts)


def _somewhere() -> ShellNow:
    """Return the shell state for testing examples."""
    from tools.judge.meaning.state import ShellNow

    return ShellNow(cwd="/srv", home=_HOME, user="dev")


# tools by name and argument


@dataclass(frozen=True, slots=True)
class ToolRule:
    """``decision`` for every call of a tool whose name matches the glob ``tool``, whose toolset matches the glob ``toolset``, and
    whose arguments match ``args``. ``toolset`` "" matches all.

    ``args``: dotted names of arguments, each with its required value; all must match. A value is a glob (``*`` and ``?`` do not
    cross ``/``, ``**`` does), or ``re:`` and a regular expression for the whole value. A text that differs from the value is also
    tried with ``.`` and ``..`` resolved. One matching element of a list is enough to deny or ask; to allow, all must match. To
    deny or ask, ``path`` also stands for each file that the call would read, write or delete, under any argument name.
    """

    tool: str
    decision: Decision
    why: str
    args: Mapping[str, str]
    toolset: str = ""

    @property
    def subject(self) -> str:
        """The tools that it is about, for people and for the log."""
        return subject_of(self.tool, self.toolset)

    def match(self, name: str, args: Mapping[str, Json], paths: Sequence[str] = (), toolset: str = "") -> bool:
        """Return whether the rule applies to this call, which touches the files ``paths``. Never raises."""
        return applies_to(self.tool, self.toolset, name, toolset) and all(
            self._fits(_argument(args, key), wanted)
            or (key == _PATH and self.decision != "allow" and self._fits(list(paths), wanted))
            for key, wanted in self.args.items()
        )

    def _fits(self, given: object, wanted: str) -> bool:
        if given is _MISSING:
            return False
        every = all if self.decision == "allow" else any
        values = given if isinstance(given, list) else [given]
        return bool(values) and every(self._text_fits(as_text(value), wanted, every) for value in values)

    def _text_fits(self, text: str, wanted: str, every: Callable[[list[bool]], bool]) -> bool:
        if len(text) > MAX_ARG_CHARS:
            return self.decision != "allow"
        if wanted in (text, f"re:{re.escape(text)}"):  # exactly this text, so it needs no other form
            return True
        pattern = _pattern(wanted)
        forms = {text, posixpath.normpath(text)} if "/" in text or text.startswith(".") else {text}
        return every([pattern.fullmatch(form) is not None for form in forms])


def tool_rules(entries: Sequence[Mapping[str, object]]) -> list[ToolRule]:
    """Return the rules for the entries of ``approval.tools``: ``tool`` or ``toolset``, ``decision``, ``why``, perhaps ``args``.

    Raises ConfigError with the entry, its wrong key and the expected value.
    """
    return [_tool_rule(entry, f"approval.tools[{index}]") for index, entry in enumerate(entries)]


def rule_faults(rules: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, int, str]]:
    """Yield each invalid entry: approval.rules or approval.tools, its index, and the error."""
    for key, entries, read in (("approval.rules", rules, _row), ("approval.tools", tools, _tool_rule)):
        for index, entry in enumerate(entries):
            try:
                read(entry, f"{key}[{index}]")
            except ConfigError as error:
                yield key, index, str(error)


def decide(
    rules: Sequence[ToolRule], name: str, args: Mapping[str, Json], paths: Sequence[str] = (), toolset: str = ""
) -> ToolRule | None:
    """Return the rule that applies to this call: the first of the strictest matching ones; None if none matches."""
    matching = [rule for rule in rules if rule.match(name, args, paths, toolset)]
    return min(matching, key=lambda rule: _DECISIONS.index(rule.decision), default=None)


def _tool_rule(entry: Mapping[str, object], where: str) -> ToolRule:
    toolset = _text(entry, "toolset", where, "the name of a toolset, or a glob such as mcp-*", _always, default="")
    expected = "the name of a tool, or a glob such as mcp_*"
    tool = _text(entry, "tool", where, expected, bool, default="*" if toolset else None)
    where = f"{where} ({subject_of(tool, toolset)})"
    decision = _text(entry, "decision", where, "one of allow, ask, deny", _DECISIONS.__contains__)
    why = _text(entry, "why", where, "a few words for the user who is asked", bool)
    args = entry.get("args") or {}
    if not isinstance(args, Mapping) or not all(isinstance(part, str) and part for pair in args.items() for part in pair):
        raise ConfigError(f"{where}: args: expected names of arguments, each with a glob, or with re: and a regular expression")
    for name, wanted in args.items():
        if wanted.startswith("re:"):
            _regex(wanted[3:], f"{where}: args.{name}")
    return ToolRule(tool, cast(Decision, decision), why, dict(args), toolset)


def applies_to(tool: str, toolset: str, name: str, of: str) -> bool:
    """Return whether a rule's globs match a tool's name and its toolset. ``toolset`` "" matches all."""
    return _name_pattern(tool).fullmatch(name) is not None and (not toolset or _name_pattern(toolset).fullmatch(of) is not None)


def subject_of(tool: str, toolset: str) -> str:
    """Return the tools that a rule is about, for people and for the log."""
    if not toolset:
        return tool
    return f"toolset {toolset}" if tool == "*" else f"{tool} of the toolset {toolset}"


def _argument(args: Mapping[str, Json], dotted: str) -> object:
    if dotted in args:
        return args[dotted]
    found: object = args
    for part in dotted.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _MISSING
        found = found[part]
    return found


def as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pattern(wanted: str) -> re.Pattern[str]:
    """Return the compiled pattern; ``re`` caches it."""
    return re.compile(wanted[3:] if wanted.startswith("re:") else _from_glob(wanted, across="/"), re.DOTALL)


def _name_pattern(tool: str) -> re.Pattern[str]:
    return re.compile(_from_glob(tool, across=""), re.DOTALL)


def _from_glob(glob: str, across: str) -> str:
    """Return the glob as a regular expression. ``across``: the separator that only ``**`` matches; "" if ``*`` matches
    anything.
    """
    one = f"[^{across}]" if across else "."
    made = {"**/": "(?:.*/)?", "**": ".*", "*": f"{one}*", "?": one}
    return "".join(made.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", glob))


# parsing entries


def _text(
    entry: Mapping[str, object], key: str, where: str, expected: str, good: Callable[[str], object], default: str | None = None
) -> str:
    given = entry.get(key)
    if given is None:
        given = default
    if not isinstance(given, str) or (given != default and not good(given)):
        raise ConfigError(f"{where}: {key}: expected {expected}" + ("" if given is None else f", got {given!r}"))
    return given


def _list(entry: Mapping[str, object], key: str, where: str, expected: str, least: int = 0) -> tuple[str, ...]:
    given = entry.get(key) or ()
    if (
        not isinstance(given, list | tuple)
        or len(given) < least
        or not all(isinstance(one, str) and one.strip() for one in given)
    ):
        raise ConfigError(f"{where}: {key}: expected {expected}")
    return tuple(given)


def _regex(text: str, where: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"{where}: expected a regular expression, got {text!r}: {error}") from None


def _plain_names(names: str) -> bool:
    return bool(names.split()) and all(re.fullmatch(r"[\w.+@-]+", name) for name in names.split())


def _are_options(names: str) -> bool:
    return all(_OPTION.fullmatch(name) for name in names.split())


def _always(_text: str) -> bool:
    return True
