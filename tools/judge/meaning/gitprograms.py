"""Programs that git runs because of files or words of a call: helpers on PATH, hooks, settings in included files.

Only the session's own files count; files that existed before the session belong to the project.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.gitsettings import pairs
from tools.judge.meaning import external, filestate, owned
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import knows_origins
from tools.judge.meaning.value import HOLE, Value, names, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner

Values = Sequence[Value]

_REMOTE = Regex(r"([A-Za-z][\w+.-]*)::.*")
_COMMITS = "pre-commit prepare-commit-msg commit-msg post-commit"
_HOOKS: dict[str, str] = {
    "commit": _COMMITS,
    "merge": f"pre-merge-commit {_COMMITS} post-merge",
    "pull": f"pre-merge-commit {_COMMITS} post-merge post-checkout post-rewrite",
    "rebase": f"pre-rebase {_COMMITS} post-checkout post-rewrite",
    "cherry-pick": _COMMITS,
    "revert": _COMMITS,
    "am": f"applypatch-msg pre-applypatch post-applypatch {_COMMITS}",
    "checkout": "post-checkout",
    "switch": "post-checkout",
    "clone": "post-checkout",
    "worktree": "post-checkout",
    "push": "pre-push",
}
"""Hooks that a subcommand runs."""
_CONNECTS = names("clone fetch pull push ls-remote submodule archive remote fetch-pack send-pack")
_MERGE_OPTIONS = names("-o -q -a")
_HOLDS_SETTINGS = Regex(r"git|config|\.inc", re.IGNORECASE)
_WORD = Regex(r"[^\s\"';|&()]+")
_RUN = Regex(
    r"pager\..*|.*(?:pager|editor|fsmonitor|command|askpass|proxy|external|textconv|driver|clean|smudge|process|cmd|program|helper)",
    re.IGNORECASE,
)
"""Keys of settings with a value that git runs."""
_MOST = 20


def run_by(it: Walker, state: State, argv: Values, at: int, tops: Callable[[], Sequence[str]]) -> list[Inner]:
    """Return the programs that git runs besides its subcommand at ``at``; ``tops`` returns its working trees."""
    sub, rest = argv[at].text, argv[at + 1 :]
    found: list[Inner] = []
    if sub in _CONNECTS:
        for value in rest:
            if (match := _REMOTE.fullmatch(value.text)) is not None:
                helpers = external.placed(it, state, f"git-remote-{match[1]}")
                found += [Inner(argv=[Value(file), value], own=True) for file in helpers]
    elif sub == "merge-index":
        given = [value for value in rest if value.text not in _MERGE_OPTIONS]
        found += [Inner(argv=[given[0], unknown()], own=True)] if given else []
    known: Sequence[str] = it.snapshot.own_below("/") if knows_origins(it.snapshot) else ()
    own = [*state.files, *known]
    settings = any(map(_holds_settings, own))
    if it.context.place or not own:
        return found
    for folder in tops():
        if folder[:1] != "/" or HOLE in folder:
            continue
        found += [Inner(text=Value(one), own=True, cwd=Value(folder)) for one in _set_programs(it, state, folder, own)]
        if sub in _HOOKS:
            found += [Inner(argv=[Value(file)], own=True, cwd=Value(folder)) for file in _hooks(it, state, folder, sub, own)]
        if settings:
            said = frozenset(value.text for value in argv)
            more = [Value(word) for pair in _included(it, state, folder) if pair not in said for word in ("-c", pair)]
            found += [Inner(argv=[argv[0], *more, *argv[1:]], own=True)] if more else []
    return found


def _hooks(it: Walker, state: State, folder: str, sub: str, own: Sequence[str]) -> Iterator[str]:
    """Yield the hooks of the repository that name the session's own files."""
    if not (inside := _inside(folder, own)):
        return
    for name in _HOOKS[sub].split():
        text = filestate.at(it, state, f"{folder}/.git/hooks/{name}")
        if text is not None and _names_any(text.text, inside):
            yield f"{folder}/.git/hooks/{name}"


def _set_programs(it: Walker, state: State, folder: str, own: Sequence[str]) -> Iterator[str]:
    """Yield the commands in the repository's settings that name the session's own files."""
    inside = _inside(folder, own)
    text = filestate.content(it, state, Value(f"{folder}/.git/config")) if inside else None
    for key, value in pairs(text.text) if text is not None else ():
        if _RUN.fullmatch(key) and _names_any(value, inside):
            yield value.removeprefix("!")


def _inside(folder: str, own: Sequence[str]) -> tuple[str, ...]:
    """Return the session's own files below ``folder``, relative to it, each with a leading slash."""
    below = f"{folder}/"
    return tuple([file[len(folder) :] for file in own if file.startswith(below)])


def _names_any(text: str, inside: tuple[str, ...]) -> bool:
    return any(f"/{word}".replace("/./", "/").endswith(inside) for word in _WORD.findall(text))


@functools.lru_cache(maxsize=2_048)
def _holds_settings(file: str) -> bool:
    return _HOLDS_SETTINGS.search(posixpath.basename(file)) is not None


def _included(it: Walker, state: State, folder: str) -> Iterator[str]:
    """Yield the settings, as ``KEY=VALUE``, in the session's own files that the repository's settings include."""
    git = f"{folder}/.git"
    texts = [(f"{git}/config", filestate.content(it, state, Value(f"{git}/config")))]
    for file, text in texts:
        for key, value in pairs(text.text) if text is not None else ():
            if key.lower().startswith("include") and key.lower().endswith(".path") and len(texts) < _MOST:
                home = value.replace("~", it.now.home or "~", 1) if value[:1] == "~" else value
                path = posixpath.normpath(posixpath.join(posixpath.dirname(file), home))
                mine = owned.content(it, state, path)
                texts.append((path, mine or filestate.content(it, state, Value(path))))
                if mine is not None:
                    yield from (f"{name}={given}" for name, given in pairs(mine.text))
