"""All that a person may want to be asked about in one shell command.

The engine: unfold.py turns the text into simple commands, patterns.py's rules are laid over each, paths.py judges what they
would write. Whatever cannot be read is a finding too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from tools.approval.findings import MAX_COMMAND_CHARS, UNKNOWN_PATH, Finding, visible
from tools.approval.operands import changed, is_root, operands, resolve
from tools.approval.paths import READABLE, is_protected, judge_change, judge_process, may_match, under
from tools.approval.patterns import rules_for
from tools.approval.rule import Rule
from tools.approval.unfold import Segment, Unfolded, unfold
from tools.approval.wrappers import INTERPRETERS, SHELLS

MAX_SEGMENT_CHARS = 8_000
"""A simple command longer than this is asked about unread where it feeds an interpreter; else its beginning and end are read."""

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_NO_HELP = (
    SHELLS
    | INTERPRETERS
    | {"docker", "podman", "find", "xargs", "ssh", "kill", "init", "redis-cli", "export", "env", "eval", "curl", ""}
)
_DRY = re.compile(r"--help|--version|--dry-?run(?:=(?!none|false).*)?")
_LOOKS = frozenset({"ls", "stat", "test", "[", "[[", "echo", "printf", "du", "file", "realpath", "readlink"})
_READS = frozenset({"cat", "head", "tail", "less", "grep", "rg", "wc"})
_SAID_BETTER = {"code.piped": frozenset({"code.remote", "code.decoded"})}
"""Findings left out where a more exact one stands."""

_PATTERN = re.compile(r"[*?\[]")
_FIRST_CD = re.compile(r"\s*cd\s+([\w./-]+)\s*&&", re.ASCII)
_MOVES = frozenset({"cd", "pushd", "popd", "chroot"})


def detect_dangerous_command(
    command: str, cwd: str = "", *, protected: Sequence[str] = (), max_chars: int = MAX_COMMAND_CHARS
) -> list[Finding]:
    """Every finding of ``command``, strongest rules not first but in the order of the text; [] where there is none.

    ``cwd`` (absolute) is where it would run, ``protected`` are toolcrib's own folders. Never raises, never runs anything;
    linear in the command's length.
    """
    if len(command) > max_chars:
        return [_opaque("too-long", f"longer than {max_chars} characters: too long to be judged", command)]
    found: dict[tuple[str, tuple[str, ...]], Finding] = {}
    if match := _UNPRINTABLE.search(command):
        shown = f"it holds {match[0].encode('unicode_escape', 'surrogatepass').decode()}, which a screen does not show as it is"
        _add(found, _opaque("characters", shown, command))
    unfolded = unfold(command)
    if unfolded.fault:
        _add(found, _opaque("unreadable", f"it cannot be read: {unfolded.fault}", command))
    bases = _bases(command, cwd, unfolded)
    for segment in unfolded.segments:
        for finding in _of_segment(segment, bases, protected):
            _add(found, finding)
    keys = {key for key, _ in found}
    return [finding for finding in found.values() if not keys & _SAID_BETTER.get(finding.key, frozenset())]


def _add(found: dict[tuple[str, tuple[str, ...]], Finding], finding: Finding) -> None:
    found.setdefault((finding.key, finding.paths), finding)


def _opaque(key: str, why: str, command: str) -> Finding:
    return Finding(f"opaque.{key}", "ask-once", why, visible(command))


def _bases(command: str, cwd: str, unfolded: Unfolded) -> tuple[str, ...]:
    """The folders that a relative path may start from; none where that cannot be told."""
    moves = sum(1 for segment in unfolded.segments if segment.name in _MOVES)
    if not cwd.startswith("/"):
        return ()
    if not moves:
        return (cwd,)
    first = _FIRST_CD.match(command)
    return (cwd, *resolve(first[1], (cwd,))) if first is not None and moves == 1 else ()


def _of_segment(segment: Segment, bases: Sequence[str], protected: Sequence[str]) -> list[Finding]:
    found: list[Finding] = []
    text = segment.text
    if len(text) > MAX_SEGMENT_CHARS:
        half = MAX_SEGMENT_CHARS // 2
        text = f"{text[:half]} {text[-half:]}"
        if segment.name in INTERPRETERS:
            found.append(_opaque("too-long", "its code is too long to be judged", segment.text))
    if segment.name in _NO_HELP or not any(_DRY.fullmatch(word) for word in _before_end_of_options(segment.argv)):
        matches = ((rule, rule.match(text)) for rule in rules_for(segment.name))
        found += [_finding(rule, match, segment, bases) for rule, match in matches if match is not None]
    for word in changed(segment):
        for path in resolve(word, bases):
            absolute = word if path == UNKNOWN_PATH else path
            found += judge_change(absolute, segment.text, protected)
    for word in (*segment.argv[1:], *(target for _, target in segment.redirects)):
        found += judge_process(word, segment.text)
    if protected and segment.name not in _LOOKS:
        found += _own_files(segment, bases, protected)
    return found


def _before_end_of_options(argv: Sequence[str]) -> Sequence[str]:
    return (
        argv[1 : argv.index("--")] if "--" in argv else argv[1:] if len(argv) != 3 or argv[2] != "-h" else (*argv[1:], "--help")
    )


def _finding(rule: Rule, match: re.Match[str], segment: Segment, bases: Sequence[str]) -> Finding:
    at = match.groupdict().get("at")
    key, level, why = (f"{rule.key}@{at}" if at else rule.key), rule.level, rule.why
    paths: tuple[str, ...] = ()
    if rule.files:
        words = operands(segment.argv)
        paths = tuple(dict.fromkeys(path for word in words for path in resolve(word, bases)))
        if segment.fed or not paths:
            paths = (*paths, UNKNOWN_PATH)
        if rule.roots and any(is_root(word, bases) for word in words):
            key, level, why = f"{key}-root", "block", f"{why} of a system root or home"
    scope = at or ", ".join(path for path in paths if path != UNKNOWN_PATH)
    return Finding(key, level, why, visible(segment.text), scope=visible(scope), paths=paths)


def _own_files(segment: Segment, bases: Sequence[str], protected: Sequence[str]) -> list[Finding]:
    """Any mention of toolcrib's own folders by something that could open them."""
    found: list[Finding] = []
    shapes = [shape for folder in protected for shape in _shapes(folder)]
    for word in (*segment.argv[1:], *(target for _, target in segment.redirects)):
        if segment.name in _READS and not segment.redirects and word.endswith(READABLE):
            continue
        value = word.rpartition("=")[2] or word
        paths = resolve(value, bases)
        if (
            any(shape.search(word) for shape in shapes)
            or any(is_protected(path, protected) for path in paths)
            or (_PATTERN.search(value) and any(may_match(_spelled_out(value, bases), folder) for folder in protected))
            or (_takes_away(segment) and any(_is_above(path, protected) for path in paths))
        ):
            why = "touches toolcrib's own settings, keys or state"
            found.append(Finding("self.settings", "block", why, visible(segment.text), scope=visible(word)))
    return found[:1]


def _spelled_out(pattern: str, bases: Sequence[str]) -> str:
    """A shell pattern as an absolute one, from the home or the first of ``bases``."""
    pattern = re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/)", posixpath.expanduser("~"), pattern)
    return posixpath.normpath(posixpath.join(bases[0] if bases else "/", pattern))


def _takes_away(segment: Segment) -> bool:
    return segment.name == "mv" or (
        segment.name == "rm" and any(re.match(r"-\w*[rR]|--recursive$", word) for word in segment.argv[1:])
    )


def _is_above(path: str, protected: Sequence[str]) -> bool:
    """Whether a folder of ours lies below ``path``; a home itself is judged by the rules for roots."""
    home = posixpath.expanduser("~")
    path = f"{home}{path[1:]}" if path.startswith("~/") else path
    return path.startswith(f"{home}/") and any(under(folder, path) for folder in protected)


def _shapes(folder: str) -> list[re.Pattern[str]]:
    """How a folder may be written: as it is, and from a home."""
    home = re.match(r"(?:/home/[^/]+|/Users/[^/]+|/root)/(.+)", folder)
    written = [folder, f"~/{home[1]}", f"$HOME/{home[1]}", f"${{HOME}}/{home[1]}"] if home is not None else [folder]
    return [re.compile(re.escape(text.rstrip("/")) + r"(?![\w.-])") for text in written]
