"""Settings of network programs in files of the session: ``ssh -F c``, ``curl -K c``, ``WGETRC=c wget``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import owned, preset
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import GivenOption, grammar, path_of, read

Values = Sequence[Value]

_RUNS = Regex(r"^\s*(?:(?:Proxy|Local|KnownHosts)Command\s*[ \t=]\s*|Match\s.*?\bexec\s+)(\S.*)", re.IGNORECASE | re.MULTILINE)
_SOCKETS = Regex(
    r"^\s*(?:(?:Local|Remote)Forward\s*[ \t=]\s*\S+\s+|IdentityAgent\s*[ \t=]\s*)\"?([/~][^\s\"]+)", re.IGNORECASE | re.MULTILINE
)
_INCLUDES = Regex(r"\s*Include\s*[ \t=]\s*(.+)", re.IGNORECASE)
_LINE = Regex(r'\s*(-{0,2}[^\s=:#"]+)(?:\s*[=:]\s*|\s+|$)(?:"((?:[^"\\]|\\.)*)"|(\S*))')
_MOST = 8
"""Maximum number of files to follow for one program."""


def _ssh(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the commands that ssh and similar programs connect through, and the sockets that they connect to."""
    options = read([value.text for value in argv], path_of(argv[0].text.rpartition("/")[2])).options
    files = [given.value for given in options if given.name == "-F" and given.value]
    for given in options:
        if given.name == "-o" and given.value and (match := _INCLUDES.fullmatch(given.value)) is not None:
            files += match[1].split()
    found: list[Inner] = []
    for file in files:
        text = owned.content(it, state, file) if len(files) <= _MOST else None
        if text is None:
            continue
        files += [one for line in text.text.splitlines() if (match := _INCLUDES.fullmatch(line)) for one in match[1].split()]
        found += [Inner(text=Value(match[1].strip().strip('"'), text.taint), own=True) for match in _RUNS.finditer(text.text)]
        sockets = [Value(match[1], text.taint) for match in _SOCKETS.finditer(text.text)]
        found += [Inner(argv=[Value("@socket"), one], own=True) for one in sockets]
    return found


def _curl(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the command with the options from its configuration files."""
    words = [value.text for value in argv]
    named = [given for given in read(words, "curl").options if given.name in ("-K", "--config") and given.value]
    files = [given.value or "" for given in named]
    if words[1:2] not in (["-q"], ["--disable"]):
        files += [f"{one.text}/.curlrc" for one in preset.given(it, state, ["CURL_HOME", "HOME"])]
        files += [f"{one.text}/curlrc" for one in preset.given(it, state, ["XDG_CONFIG_HOME"])]
    return _with(argv, named, "-q", list(_settings(it, state, files, _curl_words)))


def _wget(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the command with the settings from its configuration files and its options ``-e``."""
    words = [value.text for value in argv]
    options = read(words, "wget").options
    named = [given for given in options if given.name == "--config" and given.value]
    files = [given.value or "" for given in named]
    if "--no-config" not in words:
        files += [one.text for one in preset.given(it, state, ["WGETRC"])]
        files += [f"{one.text}/.wgetrc" for one in preset.given(it, state, ["HOME"])]
    more = list(_settings(it, state, files, _wget_words))
    for given in options:
        if given.name in ("-e", "--execute") and given.value and (meant := list(_wget_words(given.value))):
            named.append(given)
            more += [Value(word, argv[given.value_at].taint) for word in meant]
    return _with(argv, named, "--no-config", more)


def _with(argv: Values, named: Sequence[GivenOption], alone: str, more: list[Value]) -> list[Inner]:
    """Return ``argv`` with ``more`` in place of the options in ``named``. ``alone`` makes the program read no other settings."""
    if not more:
        return []
    left = {0, *(at for given in named for at in (given.at, given.value_at))}
    kept = [value for at, value in enumerate(argv) if at not in left]
    return [Inner(argv=[argv[0], Value(alone), *kept, *more], own=True)]


def _settings(it: Walker, state: State, files: Sequence[str], words: Callable[[str], Iterator[str]]) -> Iterator[Value]:
    for file in files:
        text = state.stdin if file == "-" else owned.content(it, state, file)
        if text is not None:
            yield from (Value(word, text.taint) for line in text.text.splitlines() for word in words(line))


def _curl_words(line: str) -> Iterator[str]:
    match = _LINE.match(line)
    if match is not None:
        yield match[1] if match[1][0] == "-" else f"--{match[1]}"
        if match[2] is not None or match[3]:
            yield match[3] if match[2] is None else match[2].replace('\\"', '"').replace("\\\\", "\\")


def _wget_words(line: str) -> Iterator[str]:
    name, equals, value = line.partition("=")
    plain = name.strip().replace("_", "").replace("-", "").lower()
    long = next((one for one in grammar("wget").longs if one[2:].replace("-", "") == plain), "")
    if equals and long:
        yield f"{long}={value.strip()}"


RECIPES = {
    **dict.fromkeys(["ssh", "autossh", "scp", "sftp"], _ssh),
    **dict.fromkeys(["curl", "curlie"], _curl),
    "wget": _wget,
}
