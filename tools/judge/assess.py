"""The assessment of a command: apply the rules to every act, and turn matches into findings for a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from toolcrib.contract.dataclass import replace
from tools.judge import installed as our_code
from tools.judge import unlisted
from tools.judge.act_findings import finding_of
from tools.judge.context import Basis
from tools.judge.databases import at_database
from tools.judge.dry_runs import only_says
from tools.judge.effects import farther
from tools.judge.file_view import Looks
from tools.judge.findings import UNKNOWN_PATH, Finding, Level, visible, without_allowed
from tools.judge.folders import is_home, under
from tools.judge.gitfolders import GitFolders
from tools.judge.globs import dangerous
from tools.judge.key_reads import keys_read
from tools.judge.links import Links
from tools.judge.meaning.act import Act, Meaning
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.own_files import LOOKS, MOST_NAME, is_wild, process_of, touched_own
from tools.judge.passed_on import into_own
from tools.judge.paths import (
    goes_on,
    is_protected,
    path_rules,
    resolve_value,
    root_of,
    spelled,
)
from tools.judge.reads import processes
from tools.judge.rules import ALL, BY_PATH, ENVIRONMENT, REDIRECTED, family, file_rules, rows_for
from tools.judge.rules.environment import assigned
from tools.judge.rules.inputs import open_input_findings
from tools.judge.rules.lines import across
from tools.judge.rules.opaque import code_findings, unknown_command
from tools.judge.rules.sockets import SOCKETS, concerns
from tools.judge.table import ActView, Rule
from tools.judge.targets import Targets
from tools.judge.writes import EXTRACTS, Touch, touched

Found = dict[tuple[str, tuple[str, ...], tuple[str, ...], bool], Finding]
"""Findings by key, paths, argv and plain. These keep apart findings that one grant must not cover together, such as the same
words with and without ``sudo``.
"""


def assess(
    meaning: Meaning,
    *,
    protected: Sequence[str] = (),
    home: str = "",
    extra: Sequence[Rule] = (),
    real: Callable[[str], str] | None = None,
    looks: Looks | None = None,
    ours: our_code.Ours | None = None,
) -> list[Finding]:
    """Return all findings of a command, in the order of its acts. If they all have the level allow, no user is asked.

    ``protected`` are toolcrib's own folders and files, absolute; ``home`` is the home of the account, "" if unknown. ``extra``
    are rows in addition to the table's; if one of the level allow matches an act, that act's findings of the level ask are left
    out. ``real`` returns the known targets of an absolute path's links; ``looks`` reads files; ``ours`` describes toolcrib's own
    code. Apart from ``real``, ``looks`` and ``ours`` this is pure. Findings are unique by key, paths, argv and ``plain``.
    """
    looks = looks or Looks()
    links = Links(real, meaning.links, meaning.unsure, meaning.copies, meaning.arrived, looks.is_late)
    looks.survey(meaning.acts, links)
    closed = {"self.installed": () if ours is None else ours.installed.closed, "self.above": protected}
    targets = Targets(home, closed, looks.inspect_path, meaning.lists)
    basis = Basis(
        protected, home, file_rules(extra) if extra else {}, links, looks, GitFolders(looks.inspect_path, home), targets, ours
    )
    found: Found = {}
    before: Act | None = None
    for act in meaning.acts:
        findings = _of_act(act, basis, before)
        before = act
        if act.name == "@sql":
            bound = (at_database(finding, act, meaning.acts, home) for finding in findings)
            findings = (finding for finding in bound if finding is not None)
        for finding in without_allowed(list(findings)) if extra else findings:
            _add(found, finding)
        basis.looks.record_act(act)
        basis.git.record_act(act)
        targets.record_act(act)
    for act, own, deletes in into_own(meaning.acts, protected, home, links.real) if protected else ():
        if deletes:
            _add(found, finding_of(act, "self.settings", "block", "deletes toolcrib's own settings, keys or state"))
        elif own:
            _add(found, finding_of(act, "self.settings", "block", "passes on toolcrib's own settings, keys or state"))
        else:
            _add(found, finding_of(act, "self.above", "ask-once", "may reach toolcrib's own settings, keys or state"))
    for folder in meaning.unsure if is_home(home, home) else ():
        if home and under(home, folder):
            why = "unpacks, patches or copies into a home: it may change what runs when a shell starts"
            shown = visible(folder)
            _add(found, Finding("persist.unsure", "ask-once", why, shown, shown, (UNKNOWN_PATH,), effect="local"))
    for one in across(meaning.acts, home):
        _add(found, finding_of(one.act, one.key, one.level, one.why))
    for fault in meaning.faults:
        seen = visible(fault.why)
        _add(found, Finding(f"opaque.{fault.kind}", "ask-once", f"it can't be analysed: {seen}", seen, effect="local"))
    return list(found.values())


def _add(found: Found, finding: Finding) -> None:
    place = (finding.key, finding.paths, finding.argv, finding.plain)
    before = found.get(place)
    if before is None:
        found[place] = finding
        return
    stricter = finding if _RANK[finding.level] > _RANK[before.level] else before
    found[place] = replace(stricter, effect=farther(finding.effect, before.effect))


_HIDDEN = Taint.DECODED | Taint.REMOTE
_RANK: Mapping[Level, int] = {"allow": 0, "ask": 1, "ask-once": 2, "block": 3}


def _of_act(act: Act, basis: Basis, before: Act | None) -> Iterator[Finding]:
    findings = _untainted(act, basis, before)
    if act.taint and act.taint & _HIDDEN:
        return (_once(finding) for finding in findings)
    return findings


def _once(finding: Finding) -> Finding:
    """Return the finding as one that a user can only allow once, because its act is in a decoded or remote script."""
    if finding.level != "ask":
        return finding
    return replace(finding, level="ask-once")


def _untainted(act: Act, basis: Basis, before: Act | None) -> Iterator[Finding]:
    name = act.name
    if HOLE in name:
        if why := unknown_command(act):
            yield finding_of(act, "opaque.command", "ask-once", why)
        names: tuple[str, ...] = ()
    else:
        names = family(name) if name else ()
    view = ActView(act)
    yield from _by_rules(act, view, names, basis)
    if act.code:
        for key, why in code_findings(act, before):
            yield finding_of(act, key, "ask-once", why)
    if act.stdin is not None and act.stdin.taint & Taint.INPUT:
        for key, why in open_input_findings(view, names):
            yield finding_of(act, key, "ask-once", why)
    yield from _by_paths(act, view, names, basis)
    if basis.protected and not (name in LOOKS and not act.redirects):
        yield from touched_own(act, basis)
    if basis.ours is not None:
        for key, level, why in our_code.findings(act, view, basis.ours, basis.links.real):
            yield finding_of(act, key, level, why)


# the rows


def _by_rules(act: Act, view: ActView, names: Sequence[str], basis: Basis) -> Iterator[Finding]:
    dry: bool | None = None
    for name in (*names, *_kinds(act, view, basis)):
        rows = rows_for(name, view.words)
        if basis.extra:
            more = basis.extra.get(name, ())
            rows = [*rows, *(row for row in more if row.test.needs is None or not row.test.needs.isdisjoint(view.words))]
        for row in rows:
            if not row.test.ask(view):
                continue
            if row.dry:
                if dry is None:
                    dry = only_says(view, names)
                if dry:
                    continue
            if row.seen is not None and not row.seen(view, basis.looks):
                continue
            yield _of_rule(row, act, view, names, basis)


def _kinds(act: Act, view: ActView, basis: Basis) -> Iterator[str]:
    """Yield the names of those groups of rows that are not about one program, and that may match the act."""
    if act.environment and (basis.extra or assigned(view)):  # the table's rows are about the variables that ``assigned`` tests
        yield ENVIRONMENT
    if act.redirects:
        yield REDIRECTED
    if "/" in act.name or (act.argv and "/" in act.argv[0].text):
        yield BY_PATH
    if concerns(view):
        yield SOCKETS
    yield ALL


def _of_rule(row: Rule, act: Act, view: ActView, names: Sequence[str], basis: Basis) -> Finding:
    at = row.at(view) if row.at is not None else ""
    key, level, why = (f"{row.key}@{visible(at)}" if at else row.key), row.level, row.why
    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    if row.paths is not None:
        given = row.paths(view)
        named = dict.fromkeys(path for one in given for path in resolve_value(one, act.cwds, basis.home))
        paths = (*named, *(there for path in named if path != UNKNOWN_PATH for there in basis.links.moved(path)))
        patterns = tuple(
            path for one in given if one.pattern for path in spelled(one, act.cwds, basis.home) if goes_on(path, one.text)
        )
        if not paths or ((act.fed or not all(map(basis.links.are_sure, paths))) and UNKNOWN_PATH not in paths):
            paths = (*paths, UNKNOWN_PATH)
        if row.roots and (any(root_of(one, act.cwds, basis.home) for one in given) or _leads_to_root(given, act, basis)):
            key, level, why = f"{row.key}-root", "block", f"{why}: a system root or a home"
        elif any(map(basis.looks.was_brought, paths)) and UNKNOWN_PATH not in paths:
            paths = (*paths, UNKNOWN_PATH)
    settings: tuple[tuple[str, str], ...] | None = ()
    if row.bound is not None:
        settings = row.bound(view, basis.looks, basis.home)
    if settings is None or (basis.looks.is_elsewhere and names[:1] == ("git",)):
        settings, paths = (), (UNKNOWN_PATH,)
    found = finding_of(act, key, level, why, scope=at, paths=paths, effect=row.effect)
    if settings and not act.place:
        found = replace(found, settings=settings)
    return replace(found, patterns=patterns) if patterns and not act.place else found


def _leads_to_root(given: Sequence[Value], act: Act, basis: Basis) -> bool:
    """Return whether a path behind a link leads to a root: ``r/*`` and ``r/`` are the link's target, ``r`` is the link itself."""
    for one in given:
        if one.text[-1:] != "/" and not one.pattern:
            continue
        for path in spelled(one, act.cwds, basis.home):
            if any(root_of(one._replace(text=there), (), basis.home) for there in basis.links.real(path)):
                return True
    return False


# paths


def _by_paths(act: Act, view: ActView, names: Sequence[str], basis: Basis) -> Iterator[Finding]:
    for touch in touched(act, names, view):
        yield from _of_touch(act, touch, view, names, basis)
        if HOLE in touch.path.text or is_wild(act, touch.path):
            yield from _of_target(act, touch, view, names, basis)
    yield from _of_unlisted(act, view, names, basis)
    for path, rule in keys_read(act, names, basis):
        yield finding_of(act, rule.key, rule.level, rule.why, scope=path.replace(HOLE, "…"), paths=(path,))
    for folder in basis.git.entered(act, lambda: EXTRACTS(view)):
        yield finding_of(
            act, "persist.git-hooks", "ask-once", "may change what git runs automatically", scope=folder, paths=(folder,)
        )
    for given in processes(act):
        yield process_of(act, given)


def _of_touch(act: Act, touch: Touch, view: ActView, names: Sequence[str], basis: Basis) -> Iterator[Finding]:
    named = spelled(touch.path, act.cwds, basis.home)
    if touch.path.text[:1] == HOLE:  # perhaps relative, in a folder with a rule of its own
        named += [cwd for cwd in act.cwds if path_rules(cwd, touch.mode, basis.home)]
    if wild := is_wild(act, touch.path):
        named += [one for path in named for one in dangerous(path)]
    for path in [*named, *(there for one in named for there in _opened(act, touch, one, basis))]:
        rules = path_rules(path, touch.mode, basis.home)
        ours = None if basis.ours is None else our_code.of_touch(act, touch, path, basis.ours.installed, basis.home)
        if (rules or ours) and act.argv and only_says(view, names) and not act.redirects:
            return
        if ours is not None:
            yield finding_of(act, "self.installed", ours.level, ours.why, scope=path.replace(HOLE, "…"), paths=(path,))
        unknown = wild or HOLE in path or path.startswith("~") or not basis.links.are_sure(path)
        for row in rules:
            shown = (UNKNOWN_PATH,) if unknown else (path,)
            yield finding_of(act, row.key, row.level, row.why, scope=path.replace(HOLE, "…"), paths=shown)
        known = {row.key for row in rules}
        for rule in basis.git.rules(path, touch.mode, act):
            if rule.key not in known:
                shown = (UNKNOWN_PATH,) if unknown else (path,)
                yield finding_of(act, rule.key, rule.level, rule.why, scope=path.replace(HOLE, "…"), paths=shown)
        if touch.mode == "write" and _may_land_in_own(act, path, basis):
            why = "may write into toolcrib's own settings or state"
            yield finding_of(act, "self.above", "ask-once", why, scope=path.replace(HOLE, "…"), paths=(UNKNOWN_PATH,))


def _of_unlisted(act: Act, view: ActView, names: Sequence[str], basis: Basis) -> Iterator[Finding]:
    """Yield findings for a program that no table describes: it may write a start file, a terminal or toolcrib's own files."""
    for given in unlisted.written(act, names):
        for named in spelled(given, act.cwds, basis.home) if len(given.text) < MOST_NAME else ():
            for path in (named, *basis.links.real(named)):
                rows = path_rules(path, "write", basis.home)
                rows = [row for row in rows if unlisted.is_highest(row, path)] if rows else rows
                closed = bool(basis.protected) and is_protected(path, basis.protected)
                ours = basis.ours is not None and not path.endswith("/") and our_code.holds(basis.ours.installed, path)
                if not (rows or closed or ours) or (given in act.argv and only_says(view, names)):
                    continue
                shown = path.replace(HOLE, "…")
                for row in rows:
                    yield finding_of(act, row.key, row.level, f"may change this path: {row.why}", scope=shown, paths=(path,))
                if closed or ours:
                    key = "self.above" if closed else "self.installed"
                    yield finding_of(act, key, "ask-once", "may write toolcrib's own code, settings or state", scope=shown)


def _of_target(act: Act, touch: Touch, view: ActView, names: Sequence[str], basis: Basis) -> Iterator[Finding]:
    for key, level, why in basis.targets.reasons(act, touch):
        if act.argv and not act.redirects and only_says(view, names):
            return
        yield finding_of(act, key, level, why, scope=touch.path.for_people().replace(HOLE, "…"), paths=(UNKNOWN_PATH,))


def _may_land_in_own(act: Act, path: str, basis: Basis) -> bool:
    """Return whether a command that writes into ``path`` could write into one of toolcrib's folders below it. Which files it
    writes is only known when it runs.

    False if ``path`` is the home itself, unless the command gets the paths from another command's output.
    """
    above = path.partition(HOLE)[0].rstrip("/")
    listed = act.fed and HOLE in path
    if not above or (above == basis.home and not listed) or (HOLE in path and not listed):
        return False
    return any(under(folder, above) and folder != above for folder in basis.protected)


def _opened(act: Act, touch: Touch, path: str, basis: Basis) -> Sequence[str]:
    """Return the files that a write through the link ``path`` reaches. Deleting or replacing a link only affects the link."""
    if act.place or touch.mode not in ("write", "permission", "folder") or act.name in ("ln", "gln", "mv"):
        return ()
    return basis.links.real(path)
