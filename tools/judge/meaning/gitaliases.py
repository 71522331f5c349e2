"""Aliases of git: an unknown subcommand stands for a setting's text, or for a program ``git-NAME``.

Settings come from the line (``-c``, ``--config-env``, or earlier commands), the repository and the account.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence

from tools.judge.gitsettings import pairs
from tools.judge.meaning import changes, external, filestate, gitprograms
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Value, joined, names
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner, words_of
from tools.judge.options import GivenOption, Reading, read

Values = Sequence[Value]

_COMMANDS = names(
    "add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap"
    " check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config"
    " count-objects credential describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch"
    " fetch-pack fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep hash-object help hook"
    " index-pack init init-db interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base"
    " merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs patch-id"
    " prune prune-packed pull push range-diff read-tree rebase receive-pack reflog remote repack replace rerere reset restore"
    " rev-list rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage"
    " stash status stripspace submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref"
    " update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree"
    " write-tree"
)
"""Git's own commands, which an alias cannot replace."""

_MOST_INCLUDED = 8
_READS = names("--get --get-all --get-regexp --list -l --unset --unset-all --edit -e")


def _reading(argv: Values) -> Reading:
    return read([value.text for value in argv], "git")


def _aliased(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the command that an alias stands for. For a subcommand of git itself, or one whose name is unknown, return the
    programs that git runs for it.
    """
    reading = _reading(argv)
    if not reading.operands:
        return []
    at = reading.operands[0]
    name, rest = argv[at], argv[at + 1 :]
    if name.text in _COMMANDS or not name.known:
        before = [one for one in reading.options if one.at < at]
        return gitprograms.run_by(it, state, argv, at, lambda: _folders(it, state, before))
    given = [one for one in reading.options if one.at < at]
    found = [Inner(argv=[Value(file), *rest], own=True) for file in external.placed(it, state, f"git-{name.text}")]
    folders = _folders(it, state, given)
    text = _alias(it, state, name.text.lower(), given, folders)
    if text is None or not text.text.strip():
        return found
    if text.text.startswith("!"):
        words = [value._replace(text=shlex.quote(value.text)) if value.known else value for value in rest]
        top = Value(folders[0]) if len(folders) == 1 else None
        return [*found, Inner(text=joined([text._replace(text=text.text[1:], shown=""), *words], " "), own=True, cwd=top)]
    meant = [Value(word, text.taint) for word in words_of(text.text)]
    return [*found, Inner(argv=[*argv[:at], *meant, *rest], own=True)]


def _alias(it: Walker, state: State, name: str, given: Sequence[GivenOption], folders: Sequence[str]) -> Value | None:
    for one in reversed(given):
        key, _, value = (one.value or "").partition("=")
        if key.lower() == f"alias.{name}" and one.name == "-c":
            return Value(value)
        if key.lower() == f"alias.{name}" and one.name == "--config-env":
            return _variable(it, state, value)
    wanted = (f"alias.{name}", f"alias.{name}.command")
    found: Value | None = None
    for taint_of, key, value in _settings(it, state, folders):
        if key.lower() in wanted:
            found = Value(value, taint_of.taint)
    return found


def _variable(it: Walker, state: State, name: str) -> Value:
    var = state.vars.get(name)
    value = state.env.get(name) or (var.scalar() if var is not None else None)
    return value if value is not None else Value(it.now.variables.get(name, HOLE))


def _folders(it: Walker, state: State, given: Sequence[GivenOption]) -> list[str]:
    """Return the top folders of the repositories that git would work in."""
    folder = "."
    for one in given:
        if one.name in ("-C", "--work-tree") and one.value is not None:
            folder = posixpath.join(folder, one.value)
    return changes.roots(it, state, folder)


def _settings(it: Walker, state: State, folders: Sequence[str]) -> Iterator[tuple[Value, str, str]]:
    """Yield the settings of the account and then of the repository, with the text of their file."""
    files = [f"{it.now.home}/{name}" for name in (".config/git/config", ".gitconfig") if it.now.home]
    files += [file for folder in folders for file in _own_files(it, state, folder)]
    last = len(files) + _MOST_INCLUDED
    for file in files:
        text = filestate.content(it, state, Value(file))
        for key, value in pairs(text.text) if text is not None and text.known else ():
            yield text or Value(""), key, value
            if key.lower().startswith("include") and key.lower().endswith(".path") and len(files) < last:
                files.append(value if value[:1] in ("~", "/") else f"{posixpath.dirname(file)}/{value}")


def _own_files(it: Walker, state: State, folder: str) -> list[str]:
    """Return the configuration files of the repository at ``folder``; its ``.git`` may be a file that names git's folder."""
    git = posixpath.join(folder, ".git")
    seen = it.snapshot.inspect_path(git) if folder[:1] == "/" else None
    if seen is None or seen.kind != "file" or not (seen.text or "").startswith("gitdir:"):
        return [f"{git}/config", f"{git}/config.worktree"]
    git = posixpath.normpath(posixpath.join(folder, (seen.text or "")[7:].strip()))
    above = posixpath.dirname(git)
    whole = [f"{posixpath.dirname(above)}/config"] if posixpath.basename(above) == "worktrees" else []
    return [*whole, f"{git}/config", f"{git}/config.worktree"]


# -- set on the same line ----------------------------------------------------------------------------------------------


def _set(it: Walker, state: State, argv: Values) -> None:
    """Record that ``git config`` writes an alias or an ``include.path`` into a configuration file."""
    reading = _reading(argv)
    at = reading.operands[0] if reading.operands else len(argv)
    if at >= len(argv) or argv[at].text != "config":
        return
    below = read([value.text for value in argv[at:]], "", names("-f --file --blob --type -t --default --comment --value --url"))
    if any(one.name in _READS for one in below.options):
        return
    given = [argv[at + place] for place in below.operands]
    given = given[1:] if given and given[0].text in ("set", "add") else given
    if len(given) < 2 or not given[0].text.lower().startswith(("alias.", "include.path")):
        return
    section, _, key = given[0].text.partition(".")
    text = joined([Value(f'\n[{section}]\n\t{key} = "'), given[1]._replace(text=_quoted(given[1].text)), Value('"\n')])
    named = [one.value for one in below.options if one.name in ("-f", "--file") and one.value]
    if any(one.name == "--global" for one in below.options):
        named = [f"{it.now.home or '~'}/.gitconfig"]
    before = [one for one in reading.options if one.at < at]
    for file in named or [f"{folder}/.git/config" for folder in _folders(it, state, before)]:
        filestate.write(it, state, Value(file), text, append=True)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


RECIPES = {"git": _aliased}
EFFECTS = {"git": _set}
