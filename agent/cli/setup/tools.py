"""The wizard's toolsets: choose which are enabled, and show the tools of a session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent.cli.setup.person import Option
from agent.cli.setup.wizard import BACK, Wizard, names
from toolcrib.contract.errors import ToolcribError, ToolsetError
from toolcrib.contract.suggest import near

PRESET = "preset"
"""The word that a user gives to enable no particular toolsets: each platform then gets its own."""
_SUGGESTED = ("safe", "coding")
_PLATFORM = "cli"


def choose_toolsets(wizard: Wizard) -> None:
    """Choose the toolsets, and show their tools. Repeat until a tool is granted, or until the user keeps the choice anyway.

    Raises UnansweredError, StoppedError, and ToolcribError for a flag with an unknown value.
    """
    asks = wizard.asks
    while True:
        try:
            wizard.values["toolsets.enabled"] = _choose(wizard, asks=asks)
            problem = _shown(wizard)
            if not problem or wizard.args.no_test or wizard.after_failure(problem) != BACK:
                return
        except ToolcribError as error:
            if not wizard.person.is_there:
                raise
            wizard.person.print_text(f"✗ {error}")
        asks = True


def _choose(wizard: Wizard, *, asks: bool) -> list[str] | None:
    now = wizard.before.toolsets.enabled
    present = None if now is None else list(now)
    given: Sequence[str] | None = wizard.args.toolsets
    with wizard.crib() as crib:
        known = {name: crib.catalog.describe(name) for name in crib.catalog.names()}
    if given is not None and not asks:
        return read_names(given, known)
    if not wizard.person.is_there:
        return present
    options: list[Option[list[str] | None]] = [Option(f"current: {_words(present)}", present)]
    options += [Option(_words(None), None)] if present is not None else []
    options += [Option(f"{name}: {known[name]}", [name]) for name in _SUGGESTED if name in known and present != [name]]
    wizard.person.print_text(f"toolsets: {', '.join(name for name in known if not name.startswith('toolcrib-'))}")
    chosen = wizard.person.choose_or_type(
        "Which tools should a session have?", options, 0, "use --toolsets A,B", free="names of toolsets separated by commas"
    )
    return read_names(chosen.split(","), known) if isinstance(chosen, str) else chosen.value


def _words(enabled: Sequence[str] | None) -> str:
    return "the preset of each platform" if enabled is None else ", ".join(enabled) or "none"


def read_names(words: Sequence[str], known: Collection[str]) -> list[str] | None:
    """Return the toolsets with these names, None for the preset. Raises ToolcribError with the nearest name if one is unknown."""
    given = [word.strip() for word in words if word.strip()]
    if given == [PRESET]:
        return None
    for name in given:
        if name not in known and name not in ("all", "*"):
            alike = near(name, [*known, PRESET])
            meant = f"did you mean {alike[0]!r}?" if alike else f"the toolsets are {PRESET}, {names([*known], 40)}"
            raise ToolcribError(f"unknown toolset {name!r}; {meant}")
    return given


def _shown(wizard: Wizard) -> str:
    """Print the granted and the missing tools of a session in the terminal. Return the problem if none is granted, else ""."""
    with wizard.crib() as crib:
        try:
            lines = crib.explain(_PLATFORM)
        except ToolsetError as error:
            return str(error)
    granted = [line.name for line in lines if line.granted]
    left_out = f"not among the toolsets of the platform {_PLATFORM!r}"
    missing = [f"  missing: {line.name}: {line.reason}" for line in lines if not line.granted and line.reason != left_out]
    unwanted = [line.name for line in lines if line.reason == left_out]
    wizard.person.print_text(
        f"tools: {_words(wizard.values['toolsets.enabled'])}; {len(granted)} granted: {names(granted, 99) or 'none'}"
    )
    wizard.person.print_text("\n".join(missing))
    if unwanted:
        wizard.person.print_text(f"  not selected: {names(unwanted, 99)}")
    nothing = not granted and wizard.values["toolsets.enabled"] != []
    return "no tool is granted: choose other toolsets" if nothing else ""
