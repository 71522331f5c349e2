"""Judge keys that are pressed in a terminal, in addition to the lines that they type (see inputs)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from toolcrib.contract.dataclass import replace
from toolcrib.contract.effects import WritesInput
from tools.judge.effects import Effect, effect_of, farther
from tools.judge.findings import Finding, visible
from tools.judge.key_programs import (
    ANSWERED,
    CHOOSES_PAGER,
    ESCAPES,
    MENUS,
    PAGER_VARIABLES,
    PAGERS,
    UNSECURES,
    USUAL_PAGERS,
    changes_lines,
    is_harmless,
)
from tools.judge.meaning.act import Act
from tools.judge.passive import reads_only
from tools.judge.rules import family
from tools.judge.rules.inputs import open_input_findings
from tools.judge.rules.opaque import INPUT
from tools.judge.table import ActView

KEYS = "process.keys"
"""Key of findings about keys that make a program run something that is not known."""
_UNSURE = "types into a program; another program may read it, or the program may read it in another way"
"""A reason that always applies: a shell passes its terminal on to the programs that it starts, and these may leave keys to it."""
_UNKNOWN: Effect = "unknown"
_SHELLS = frozenset({"sh", "bash", "dash"})


def _runs_keys(acts: Sequence[Act]) -> list[Effect]:
    """Return how far the programs reach that run what is typed, also if their input is not the terminal: they can open that."""
    return [
        effect_of(key, act.place, act.wrappers)
        for act in acts
        if act.argv
        for key, _ in open_input_findings(ActView(act), family(act.name))
    ]


def examine_keys(effect: WritesInput, start: Sequence[Act], typed: Sequence[Act], runs: Sequence[Finding]) -> list[Finding]:
    """Return the findings of the keys themselves. ``start`` are the acts of the terminal's command with unknown input, ``typed``
    with everything that was typed. ``runs`` are findings of programs that run what they read.
    """
    reach = [one.effect for one in runs] or _runs_keys(start)
    if runs:
        why = "" if effect.certain else "edits or recalls text, so that it is unknown what the program runs"
        why = why or changes_lines(effect.text, effect.before or "", typed)
        return [_finding(effect, reach, why)] if why else []
    if reach:
        return [_finding(effect, reach, "runs what is typed")]
    doubtful = [act for act in start if not is_plain(act, effect)]
    if doubtful:  # these may have changed the environment of a pager
        doubtful += [act for act in start if act.name in PAGERS]
    for act in doubtful:
        name = act.name.rpartition("/")[2]
        if name in ESCAPES and is_harmless(name, [one.text for one in act.argv[1:]], effect.keys):
            continue
        if name in PAGERS or name in ESCAPES:
            why = f"{visible(act.name, 60)} may start programs, end processes or write files by a few keys"
            return [_finding(effect, [effect_of(INPUT, act.place, act.wrappers)], why)]
    return []


def unsure(effect: WritesInput, *, plain: bool) -> Finding:
    """Return the finding that all keys have, because the other findings may miss something. ``plain``: each program that the
    terminal was started with only reads, shows and chooses.
    """
    found = _finding(effect, [], _UNSURE)
    return replace(found, effect="local") if plain else found


def unknown_readers(effect: WritesInput, start: Sequence[Act]) -> list[Act]:
    """Return the programs that may do more with keys than read them."""
    found = []
    for act in start:
        harmless = is_harmless(act.name, [one.text for one in act.argv[1:]], effect.keys) and not act.wrappers and not act.place
        if not harmless and not is_plain(act, effect):
            found.append(act)
    return found


def is_plain(act: Act, effect: WritesInput) -> bool:
    """Return whether a program in a terminal does nothing but read, show and choose, whatever is pressed."""
    if tuple(act.wrappers) == ("watch",):
        act = replace(act, wrappers=())
    if act.name == "cd":
        return True
    if act.name in ANSWERED and not act.wrappers and not act.place:
        return not any(word.startswith(("/dev/", "/proc/")) for word in act.words())
    if act.name in MENUS or act.name in PAGERS:
        words = [one.text for one in act.argv[1:]]
        known = not act.wrappers and not act.place and all(one.known for one in act.argv)
        chooses = any(word.startswith(CHOOSES_PAGER) for word in words)
        return known and not chooses and (act.name in MENUS or _has_usual_pager(act, effect))
    if act.name in _SHELLS and [one.text for one in act.argv[1:2]] == ["-c"]:
        return True  # the programs that it runs are acts of their own
    if act.name == "read":
        return False  # the shell may run the text, or calculate with it
    return reads_only(act) and (act.name not in ESCAPES or _has_usual_pager(act, effect))


def _has_usual_pager(act: Act, effect: WritesInput) -> bool:
    kept = {} if effect.shell is None else effect.shell.variables
    if any(name.startswith(UNSECURES) for name in (*kept, *act.environment)):
        return False  # a terminal can't set one that is readonly there
    given = act.environment.keys() & {*PAGER_VARIABLES}
    return not given and all(kept.get(name, "") in USUAL_PAGERS for name in PAGER_VARIABLES)


def _finding(effect: WritesInput, reach: Sequence[Effect], why: str) -> Finding:
    farthest: Effect = functools.reduce(farther, reach, _UNKNOWN)
    return Finding(KEYS, "ask-once", why, visible(" ".join(effect.keys)), cwd=effect.cwd, effect=farthest)
