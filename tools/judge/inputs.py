"""Judge text that is written to the input of a background process: find the effects that it has in that program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from toolcrib.contract.dataclass import replace
from toolcrib.contract.effects import WritesInput
from toolcrib.contract.regex import Regex
from tools.judge.detect import Examined, examine, of_text, too_long
from tools.judge.effects import effect_of, farther
from tools.judge.findings import Finding, digest_of, visible
from tools.judge.key_programs import typed_text
from tools.judge.keys import examine_keys, unknown_readers, unsure
from tools.judge.meaning.act import Act
from tools.judge.meaning.base import BOUNDARY
from tools.judge.meaning.interpreters import SHELLS
from tools.judge.meaning.state import Snapshot
from tools.judge.meaning.value import HOLE, Taint, Value, names, unknown
from tools.judge.passive import reads_only
from tools.judge.rules.opaque import CLIENT_INPUT, INPUT
from tools.judge.setting import Setting

_RUNS = frozenset({INPUT, CLIENT_INPUT})
_UNCLEAR = ("opaque.", "code.")
"""Prefixes of keys of findings about a command that can't be followed: its use of the input is unknown."""
_ASK_PASSWORDS = names(
    "sudo sudo-rs doas su pkexec runuser run0 login sg newgrp passwd chpasswd ssh scp sftp ssh-add sshpass mosh telnet kinit"
    " gpg cryptsetup"
)
_WRITES_NAMED = names("tee sponge")
"""Programs that only write their input into the files that their words name."""
_HISTORY = Regex(r"(?m)^\^|!(?![\s=(]|$)")
"""Text that a shell may replace with an earlier line: ``^a^b``, ``!!``. Quotes are not considered."""
_HISTORY_ON = Regex(rf"-\w*[iH]\w*|.*hist.*|.*{HOLE}.*", re.DOTALL)
"""Words of a shell, ``set`` and ``shopt`` that may turn this on."""
_SETS = SHELLS | {"set", "shopt"}
_TERMINALS = names("script unbuffer expect rlwrap winpty ssh")
"""Programs that may give a shell a terminal, so that it is interactive."""


def examine_input(effect: WritesInput, setting: Setting, files: Snapshot) -> Examined:
    """Examine a write to a process. Never raises; linear in the length of everything that was written to it.

    The findings are the ones that the text adds to the earlier input, and the ones of the text by itself.
    """
    text, before = effect.text, effect.before or ""
    if not effect.command.strip():
        why = "it is unknown which program gets it"
        return Examined([*of_text(text, effect.cwd), Finding("process.unknown", "ask-once", why, visible(text))])
    if len(effect.command) + len(before) + len(text) > setting.max_chars:
        return Examined([too_long(f"{effect.command}\n{before}{text}", setting)])

    def fed(given: str, after: Sequence[Value] = ()) -> Examined:
        stdin = Value(given, Taint.INPUT)
        return examine(effect.command, effect.cwd, effect.shell, files, setting, stdin=stdin, background=True, after=after)

    whole, earlier = fed(before + text), {_what(one) for one in fed(before).findings}
    found = of_text(text, effect.cwd)
    for one in whole.findings:
        if _what(one) not in earlier or _is_lost(one) or (one.text and one.text in visible(text, len(text))):
            found.append(one)
    if _HISTORY.search(before.rpartition("\n")[2] + text) and any(map(_keeps_history, whole.acts)):
        why = "the shell may replace a part of it with earlier lines, and run them"
        found.append(Finding("opaque.history", "ask-once", why, visible(text), effect="local"))
    # The unfinished line may have been read by another program, so what the keys add to it is judged alone, too.
    for alone in dict.fromkeys([text, typed_text(effect.keys) or text]):
        found += [one for one in fed(alone).findings if not _is_lost(one)]
    if before.endswith("\n") and not before.endswith("\\\n"):  # in the state that it left, also what it did before
        marked = f"{before}{' '.join(one.text for one in BOUNDARY)}\n{text}"
        found += [one for one in fed(marked, BOUNDARY).findings if not _is_lost(one)]
    unknown_input = unknown(Taint.INPUT)
    start = examine(effect.command, effect.cwd, effect.shell, files, setting, stdin=unknown_input, background=True)
    runs = [one for one in start.findings if one.key in _RUNS]
    unclear = [one for one in start.findings if one.key.startswith(_UNCLEAR) and one.key not in _RUNS]
    found += unclear
    if effect.before is None:
        found += [replace(one, why=f"{one.why}, and earlier input is unknown") for one in runs]
    pressed = examine_keys(effect, start.acts, whole.acts, runs) if effect.keys else []
    found += pressed
    found += _passwords([*start.acts, *whole.acts], text) or ([] if runs or pressed else _unless_plain(effect, start.acts))
    if effect.keys and not pressed:
        found.append(unsure(effect, plain=not (runs or unclear or unknown_readers(effect, start.acts))))
    return replace(whole, findings=list(dict.fromkeys(found)))


def _what(finding: Finding) -> tuple[object, ...]:
    return finding.key, finding.level, finding.text, finding.paths, finding.effect


def _is_lost(finding: Finding) -> bool:
    """Return whether the finding says that the input could not be followed, so that nothing is known about any part of it."""
    return finding.key in _RUNS or (finding.key.startswith("opaque.") and not finding.argv)


def _keeps_history(act: Act) -> bool:
    """Return whether the act may start an interactive shell, or turn the history on in one."""
    if act.name not in _SETS:
        return False
    given = "SHELLOPTS" in act.environment or not _TERMINALS.isdisjoint(act.wrappers)
    return given or any(_HISTORY_ON.fullmatch(one.text) for one in act.argv[1:])


def _reading(acts: Sequence[Act]) -> Iterator[Act]:
    """Yield the acts whose input is the process's."""
    return (act for act in acts if act.argv and act.stdin is not None and act.stdin.taint & Taint.INPUT)


def _passwords(acts: Sequence[Act], text: str) -> list[Finding]:
    for act in _reading(acts):
        name = next((one for one in (*act.wrappers, act.name.rpartition("/")[2]) if one in _ASK_PASSWORDS), "")
        if name or act.place.startswith("ssh:"):
            why = f"{name or 'ssh'} may read it as a password, which only a user may type"
            return [Finding("process.password", "ask-once", why, visible(text))]
    return []


def _unless_plain(effect: WritesInput, acts: Sequence[Act]) -> list[Finding]:
    """Return the finding of input to a program that is not known to do no more with it than read it."""
    unsure = unknown_readers(effect, acts) if effect.keys else [act for act in _reading(acts) if not _is_plain(act)]
    if not unsure:
        return []
    reaches = effect_of(INPUT, unsure[0].place, unsure[0].wrappers)
    for act in unsure[1:]:
        reaches = farther(reaches, effect_of(INPUT, act.place, act.wrappers))
    why = f"toolcrib does not know what {visible(unsure[0].argv[0].for_people(), 60)} does with its input"
    # A grant covers this command in this folder, not another process that gets the same name later.
    settings = ((f"process:{effect.process}", digest_of(f"{effect.cwd}\0{effect.command}")),)
    key = f"process.input@{effect.process}"
    return [Finding(key, "ask", why, visible(effect.text), effect.process, cwd=effect.cwd, settings=settings, effect=reaches)]


def _is_plain(act: Act) -> bool:
    named = act.name in _WRITES_NAMED and not act.wrappers and not act.place and all(one.known for one in act.argv)
    return named or reads_only(act)
