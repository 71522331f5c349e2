"""Acts that touch, copy or name toolcrib's own settings, keys and state, or other processes' data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.judge.act_findings import finding_of
from tools.judge.context import Basis
from tools.judge.effects import effect_of
from tools.judge.findings import Finding
from tools.judge.folders import under
from tools.judge.globs import is_wild as is_pattern
from tools.judge.listfiles import listed_in
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.paths import (
    READABLE,
    is_protected,
    may_be_above,
    may_go_into,
    may_match,
    spelled,
)
from tools.judge.procfs import WHY, is_folder, names_process
from tools.judge.reads import TAKES, copied, places, searched, taken_by_git, takes_folders

LOOKS = frozenset(
    {"ls", "stat", "test", "[", "[[", "echo", "printf", "du", "file", "realpath", "readlink", "cd", "pushd", "dirname"}
)
"""Commands that print at most names, never a file's content."""

_NAMES_ONLY = LOOKS | {"rm", "unlink", "git", "mkdir", "rmdir", "export", "kill"}
"""Commands that act on a link itself and not on its target, or whose words are not paths."""

_STORES = frozenset({"hash-object", "add", "stage", "diff", "grep"})
"""Subcommands of git that read the files in their arguments."""

MOST_NAME = 1_000
"""Maximum number of characters of a word that may be a path."""

_READS = frozenset({"cat", "head", "tail", "less", "grep", "rg", "wc"})


def is_wild(act: Act, path: Value) -> bool:
    """Return whether a path, or its folder, is the result of a pattern."""
    return path.pattern or (HOLE in path.text and bool(path.taint & Taint.FOUND)) or any(HOLE in cwd for cwd in act.cwds)


def process_of(act: Act, given: Value) -> Finding:
    return finding_of(act, "secret.process", "ask-once", WHY, scope=given.for_people(), paths=(given.text,))


# toolcrib's own files


def touched_own(act: Act, basis: Basis) -> Iterator[Finding]:
    if act.place.startswith("ssh:"):
        return
    whole = act.name in TAKES
    given = [
        one
        for one in act.argv[1:]
        if len(one.text) > 1 or one.text.isalnum() or (one.text and one.pattern) or (whole and one.text == ".")
    ]
    given += [target.path for target in act.redirects if len(target.path.text) > 1]
    given += listed_in(act, basis.home, basis.looks.inspect_path)
    for one in given:
        forms = _forms(one)
        led = _led(act, one, forms, basis)
        if any(names_process(there) or (takes_folders(act) and is_folder(there)) for there in led):
            yield process_of(act, one)
        if _reaches_own(act, one, forms, led, basis):
            why = "touches toolcrib's own settings, keys or state"
            yield finding_of(act, "self.settings", "block", why, scope=one.for_people())
            return
        if any(may_go_into(path, own) for path in spelled(one, act.cwds, basis.home) if one.pattern for own in basis.protected):
            why = "may reach toolcrib's own settings, keys or state"
            yield finding_of(act, "self.above", "ask-once", why, scope=one.for_people())
            return
    if any(_is_found(act, one) for one in _opened(act)) and any(
        is_protected(there, basis.protected) for cwd in act.cwds for there in basis.links.real(f"{cwd}/**")
    ):
        why = "may reach toolcrib's own settings, keys or state through a hard link"
        yield finding_of(act, "self.above", "ask-once", why)
        return
    if into := [path for path in _gone_through(act, basis) if any(_leads_into(path, folder) for folder in basis.protected)]:
        why = "includes toolcrib's own settings, keys or state"
        yield finding_of(act, "self.above", "ask-once", why, scope=into[0].replace(HOLE, "…"), paths=_below(act, into, basis))
        return
    if any(_names_own(code.text.text, basis) for code in act.code):
        yield finding_of(act, "self.settings", "ask-once", "runs code that names toolcrib's own settings, keys or state")


def _opened(act: Act) -> Iterator[Value]:
    """Yield the words and redirects that may name a file that the command opens."""
    if act.name not in _NAMES_ONLY:
        yield from act.argv[1:]
    yield from (target.path for target in act.redirects)


def _is_found(act: Act, path: Value) -> bool:
    """Return whether a path is unknown and comes from a search or a list."""
    return HOLE in path.text and (act.fed or bool(path.taint & Taint.FOUND))


def _gone_through(act: Act, basis: Basis) -> Sequence[str]:
    """Return the absolute folders and patterns whose whole content the command reads, copies or moves."""
    if act.name == "git":
        return taken_by_git(act)
    found = [*searched(act, basis.protected, basis.home, basis.links.real), *copied(act, basis.home)]
    everything = [f"{path.rstrip('/')}/**" for path in found]  # hard links in a folder may name files elsewhere
    led = [there for path in everything for there in basis.links.real(path) if there != path]
    return [*found, *(there for path in found for there in basis.links.real(path)), *led]


def _below(act: Act, into: Sequence[str], basis: Basis) -> tuple[str, ...]:
    """Return toolcrib's own folders that a command reads only because they are in ``into``. A sandbox that masks them hides them
    from the command.

    () if the command may read one in another way, such as through a hard link, or outside the sandbox.
    """
    if effect_of("fs.", act.place, act.wrappers) != "local" or any(is_pattern(path) or HOLE in path for path in into):
        return ()
    if any(under(path, folder) for path in into for folder in basis.protected):
        return ()
    return tuple(folder for folder in basis.protected if any(under(folder, path) for path in into))


def _leads_into(path: str, own: str) -> bool:
    return under(own, path) or under(path, own) or (is_pattern(path) and may_be_above(path, own))


def _names_own(text: str, basis: Basis) -> bool:
    """Return whether a text names one of toolcrib's folders, in full or from a home (``~/.config/toolcrib``, ``Path.home() /
    ".config/toolcrib"``).
    """
    home = basis.home
    names = [folder[len(home) + 1 :] if home and folder.startswith(f"{home}/.") else folder for folder in basis.protected]
    # The command may run under another account, whose settings are below another home.
    names += [name[at + 1 :] for name in names if (at := name.find("/.")) >= 0 and "toolcrib" in name[at:]]
    return any(name in text for name in names)


def _forms(one: Value) -> list[Value]:
    """Return the word, and the paths that it may hold: ``of=x``, ``@x``, ``a:b``."""
    text = one.text
    forms = [one]
    if "=" in text or text[0] == "@":
        forms.append(one._replace(text=text.rpartition("=")[2].lstrip("@") or "."))
    if ":" in text:
        forms += [one._replace(text=part) for part in text.split(":") if part[:1] in ("/", "~")]
    return forms


def _led(act: Act, one: Value, forms: Sequence[Value], basis: Basis) -> list[str]:
    """Return the targets of the links that a word names; [] if the command does not open the named file."""
    names_only = act.name in _NAMES_ONLY and not (act.name == "git" and act.argv[1:] and act.argv[1].text in _STORES)
    if names_only and not any(target.path is one for target in act.redirects):
        return []
    return [
        there
        for form in forms[:2]
        if form.text[:1] != "-" and len(form.text) < MOST_NAME
        for path in spelled(form, act.cwds, basis.home)
        for known in (_folders_of(path, act) if HOLE in path and is_wild(act, form) else (path,))
        for there in basis.links.real(known)
    ]


def _folders_of(path: str, act: Act) -> list[str]:
    """Return patterns of all files that a path may mean if only its beginning is known."""
    folder = path[: path.find(HOLE)].rpartition("/")[0]
    return [f"{one}/**" for one in ((folder,) if folder else act.cwds)]


def _reaches_own(act: Act, one: Value, forms: Sequence[Value], led: Sequence[str], basis: Basis) -> bool:
    reads = act.name in _READS
    if any(is_protected(there, basis.protected) and not (reads and there.endswith(READABLE)) for there in led):
        return True
    if reads and not act.redirects and one.text.endswith(READABLE):
        return False
    where = places(act, basis.home)
    for form in forms:
        wild = is_wild(act, form)
        plain = "/" not in form.text and form.text[:1] not in (".", "~", "*") and not wild
        if plain and act.name not in TAKES and not _works_inside(act, basis):
            continue
        for path in spelled(form, where, basis.home):
            if is_protected(path, basis.protected):
                return True
            if wild and any(may_match(path, folder) for folder in basis.protected):
                return True
            if _is_taken(act, path, basis, wild=wild):
                return True
    return False


def _works_inside(act: Act, basis: Basis) -> bool:
    """Return whether a plain name may be one of toolcrib's files, because the working folder may be one of its folders."""
    return any("toolcrib" in cwd or any(map(cwd.startswith, basis.protected)) for cwd in act.cwds)


def _is_taken(act: Act, path: str, basis: Basis, *, wild: bool) -> bool:
    """Return whether the command reads or changes one of toolcrib's folders as a part of ``path``.

    False for the home itself, which ``_gone_through`` covers.
    """
    if act.name not in TAKES or path == basis.home or path.count("/") < 3:
        return False
    if not takes_folders(act):
        return False
    return any(under(folder, path) or (wild and may_be_above(path, folder)) for folder in basis.protected)
