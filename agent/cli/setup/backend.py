"""The wizard's backend: choose where commands run, and test it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent.backend_check import try_backends
from agent.backends import Backend
from agent.cli.backends import tried_line
from agent.cli.setup import sandbox
from agent.cli.setup.detection import BackendSeen
from agent.cli.setup.person import Option
from agent.cli.setup.wizard import BACK, Wizard, names
from agent.policy.self_protection import folders_of
from agent.process import Crib
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import with_home
from toolcrib.contract.suggest import near
from tools.environments.rows import needed_settings

if TYPE_CHECKING:
    from tools.environments.local.holding import Mode


def choose_backend(wizard: Wizard) -> None:
    """Choose and test the backend. Repeat until it works, or until the user keeps it anyway.

    Raises UnansweredError, StoppedError, and ToolcribError for a flag with an unknown or unsuitable value.
    """
    asks = wizard.asks
    sandbox.explain(wizard)
    while True:
        seen, mode = _choose(wizard, asks=asks)
        kept = {key: value for key, value in wizard.values.items() if not key.startswith(("environments.", "sandbox."))}
        wizard.values = {**kept, "terminal.backend": seen.backend.name}
        if mode != wizard.before.sandbox.mode and seen.backend.row.has_mode:
            wizard.values["sandbox.mode"] = mode
        if not asks:
            _take_flags(wizard, seen.backend)
        _complete(wizard, seen)
        wizard.person.print_text(f"backend: {seen.backend.name} ({_words(wizard, seen)})")
        if wizard.args.no_test or not _tried(wizard) or wizard.after_failure("the backend does not work") != BACK:
            return
        asks = True


def _words(wizard: Wizard, seen: BackendSeen) -> str:
    with wizard.crib() as crib:
        return crib.backends.get(seen.backend.name).shown


def _choose(wizard: Wizard, *, asks: bool) -> tuple[BackendSeen, str]:
    """Return the backend, and the mode of the local sandbox."""
    now, mode_now = wizard.before.terminal.backend, wizard.before.sandbox.mode
    mode = mode_now if asks else wizard.args.sandbox or mode_now
    if (given := wizard.args.backend) and not asks:
        seen, present = _named(wizard, given), wizard.found.backend(now)
        if present is not None and _loosens((present.backend, mode_now), (seen.backend, mode)):
            wizard.person.print_text(f"note: {_looser(present.backend, seen.backend)}")
        return seen, mode
    usable = [one for one in wizard.found.backends if not one.problem or one.backend.name == now]
    ready = [one for one in usable if not one.wants or one.values]
    present = wizard.found.backend(now) or _named(wizard, now)
    for one in wizard.found.backends:
        if one.problem and one.backend.name != now:
            wizard.person.print_text(f"  {one.backend.name} is not available: {one.problem}")
    if not wizard.person.is_there or (not asks and not present.problem and ready == [present]):
        return present, mode
    usable.sort(key=lambda one: one.backend.name != now)
    modes = sandbox.modes_here(wizard) if mode == mode_now and any(one.backend.row.has_mode for one in usable) else [mode]
    options = [
        Option(_label(wizard, one, each), (one, each))
        for one in usable
        for each in (modes if one.backend.row.has_mode else [mode_now])
    ]
    chosen, mode = wizard.person.choose("Where do commands run?", options, 0, "use --backend NAME")
    return (chosen, mode) if _agrees(wizard, present, chosen, mode) else _choose(wizard, asks=True)


def _named(wizard: Wizard, name: str) -> BackendSeen:
    """Return the backend with this name. Raises ToolcribError, with the nearest name, if there is none."""
    if (seen := wizard.found.backend(name)) is not None:
        return seen
    known = [one.backend.name for one in wizard.found.backends]
    alike = near(name, known)
    raise ToolcribError(
        f"there is no backend {name!r}; {f'did you mean {alike[0]!r}?' if alike else f'the backends are {names(known)}'}"
    )


def _label(wizard: Wizard, one: BackendSeen, mode: Mode) -> str:
    now = wizard.before
    wants = f"; needs {one.wants}" if one.wants else ""
    problem = f"; does not work now: {one.problem}" if one.problem else ""
    what = sandbox.label(mode) if one.backend.row.has_mode else f": {one.backend.shown}"
    is_now = one.backend.name == now.terminal.backend and mode == now.sandbox.mode
    return f"{'current: ' if is_now else ''}{one.backend.name}{what}{wants}{problem}"


def _loosens(present: tuple[Backend, str], chosen: tuple[Backend, str]) -> bool:
    """Return whether ``chosen``, a backend and its sandbox mode, may contain commands less strictly than ``present``.

    A backend that is not known to contain commands counts as loose if it is chosen, and as strict if it is the current one.
    """
    (before, mode_now), (after, mode) = present, chosen
    is_loose = mode != "workspace" if after.row.has_mode else not after.row.is_contained
    was_loose = before.row.has_mode and mode_now != "workspace"
    return is_loose and not was_loose and (before.name, mode_now) != (after.name, mode)


def _looser(present: Backend, chosen: Backend) -> str:
    """Return a warning about what the chosen backend loosens."""
    what = "commands have all your rights on this machine" if chosen.row.has_mode else "commands may be unrestricted"
    return f"with {chosen.name}, {what}; now they run in {'a sandbox' if present.row.has_mode else present.name}"


def _agrees(wizard: Wizard, present: BackendSeen, chosen: BackendSeen, mode: str) -> bool:
    """Return whether the change may be made: if a weaker backend would replace a stricter one, ask the user."""
    if not _loosens((present.backend, wizard.before.sandbox.mode), (chosen.backend, mode)):
        return True
    options = [Option("no, choose another", value=False), Option("yes, without a sandbox", value=True)]
    looser = _looser(present.backend, chosen.backend)
    return wizard.person.choose(f"{looser[0].upper()}{looser[1:]}.", options, 0, f"use --backend {chosen.backend.name}")


def _take_flags(wizard: Wizard, backend: Backend) -> None:
    """Store the values of the backend's flags. Raises ToolcribError for a flag of another kind of backend."""
    for flag, kinds in needed_settings().items():
        if (value := getattr(wizard.args, flag)) and backend.kind not in kinds:
            named = " or ".join(kinds)
            raise ToolcribError(f"--{flag} {value} is for {named}, but the backend is {backend.name}: add --backend {named}")
        if value:
            wizard.values[f"{backend.key}.{flag}"] = value
    sandbox.check_flag(wizard, backend)


def _complete(wizard: Wizard, seen: BackendSeen) -> None:
    """Store the setting that the backend needs besides its name. Raises UnansweredError if it is unknown and no user can be
    asked.
    """
    needs = seen.backend.row.needs
    if needs is None or not seen.wants or wizard.values.get(seen.wants):
        return
    flag = f"use --{needs.key} {needs.metavar}"
    if len(seen.values) == 1:
        wizard.person.print_text(needs.only.format(seen.values[0]))
        wizard.values[seen.wants] = seen.values[0]
    elif seen.values:
        options = [Option(value, value) for value in seen.values[:20]]
        chosen = wizard.person.choose_or_type(needs.choice, options, None, flag, free="a name")
        wizard.values[seen.wants] = chosen if isinstance(chosen, str) else chosen.value
    else:
        why = f"{seen.problem}; " if seen.problem else ""
        wizard.values[seen.wants] = wizard.person.line(f"{why}{needs.question}", flag)


def _tried(wizard: Wizard) -> str:
    """Test the backend. Return why it does not work, or ""."""
    waits = wizard.person.waits("testing the backend: a command, a file, an interrupt")
    with wizard.crib() as crib, _start(wizard, crib) as start, waits:
        (tried,) = try_backends(crib.backends, [crib.backends.get(wizard.values["terminal.backend"])], start)
    wizard.person.print_text(tried_line(tried))
    return tried.problem


@contextmanager
def _start(wizard: Wizard, crib: Crib) -> Iterator[str]:
    """Yield the folder to test in: the one that sessions start in, or a temporary one if that contains toolcrib's own files,
    because a sandbox would refuse it.
    """
    start = with_home(crib.config.terminal.cwd or wizard.project_dir)
    real = os.path.realpath(start)
    if any(os.path.realpath(folder).startswith(real.rstrip("/") + "/") for folder in folders_of(crib.config)):
        with tempfile.TemporaryDirectory(prefix="toolcrib-setup-") as folder:
            yield folder
    else:
        yield str(start)
