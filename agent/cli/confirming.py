"""Ask at a terminal to confirm changes of config.yaml that loosen or redirect something; commands that set a key imply it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.config import Config


def confirmed_config(config: Config) -> Config:
    """Return the configuration if a user has confirmed it. At a terminal, show unconfirmed changes and ask.

    Raises UnconfirmedConfig if no user confirms it, and ConfigError if the confirmation can't be read or stored.
    """
    from agent.policy.confirmation import UnconfirmedConfig, unconfirmed

    changes = unconfirmed(config)
    if changes and not _agrees(config, changes):
        raise UnconfirmedConfig(config, changes)
    return config


def looking_config(config: Config, profile: str | None, project_dir: Path) -> Config:
    """Return the configuration as last confirmed, for a command that only reads; print a note if it differs. The user is not
    asked. Raises UnconfirmedConfig if the confirmed version is unknown, and ConfigError.
    """
    from agent.policy.confirmation import last_confirmed

    counts = last_confirmed(config, profile=profile, project_dir=project_dir)
    if counts is not config:
        print(
            f"toolcrib: {config.path} has unconfirmed changes; using the last confirmed version."
            " To confirm them at a terminal: toolcrib config confirm",
            file=sys.stderr,
        )
    return counts


def _agrees(config: Config, changes: Sequence[Any]) -> bool:
    """Ask for confirmation. Return False if the user declines, or if there is no terminal."""
    from agent.cli.terminal import controlling_terminal
    from agent.policy.self_protection import folders_of

    try:
        with controlling_terminal(folders_of(config)) as terminal:
            return ask(config, changes, terminal)
    except ToolcribError:
        return False


def ask(config: Config, changes: Sequence[Any], terminal: Any) -> bool:
    """Show the changes and ask; store a confirmation. Raises ConfigError if it can't be stored."""
    from agent.cli.escape import exact
    from agent.cli.terminal import confirmed
    from agent.policy.confirmation import confirm
    from tools.approval.prompt import PromptLine, physical

    terminal.show(f"{config.path} has changes that loosen or redirect something. They apply after you confirm them:")
    lines = [PromptLine(f"  {exact(line)}") for change in changes for line in change.lines()]
    terminal.show("\n".join(physical(lines, terminal.size[0])))
    if not confirmed(terminal, "Did you or a person you trust make these changes? Accept them?"):
        return False
    confirm(config)
    return True


def set_as_person(path: Path | None, parts: Sequence[str], value: Any) -> bool:
    """Set a key of the file, see agent.config.set_value. At a terminal this confirms the key. Return False if the key still needs
    a confirmation.
    """
    from agent.config import set_value

    set_value(path, parts, value)
    return _agreed(path, parts)


def unset_as_person(path: Path | None, parts: Sequence[str]) -> bool:
    """Remove a key from the file. Return False if that still needs confirmation, see ``set_as_person``."""
    from agent.config import unset_value

    unset_value(path, parts)
    return _agreed(path, parts)


def set_all_as_person(path: Path | None, values: Sequence[tuple[Sequence[str], Any]], *, first: bool) -> bool:
    """Set or remove keys of the file, all at once; see agent.config.set_values and ``set_as_person``.

    ``first``: when the command began, no configuration had been confirmed yet. The keys then need no confirmation.
    """
    from agent.config import set_values
    from agent.policy.confirmation import agreed_by_setting

    set_values(path, values)
    if not first:
        return _agreed(path, *(parts for parts, _value in values))
    for parts, _value in values:
        agreed_by_setting(path, parts)
    return True


def _agreed(path: Path | None, *keys: Sequence[str]) -> bool:
    from agent.cli.terminal import controlling_terminal
    from agent.config import load_config
    from agent.policy.confirmation import agreed_by_setting, is_watched, unconfirmed
    from agent.policy.self_protection import folders_of

    if not (watched := [parts for parts in keys if is_watched(parts)]):
        return True
    config = load_config(path, profile="")
    try:
        with controlling_terminal(folders_of(config)):
            for parts in watched:
                agreed_by_setting(path, parts)
            return True
    except ToolcribError:
        pass
    if not unconfirmed(config, keep=False):
        return True
    print(
        f"toolcrib: {', '.join(map('.'.join, watched))} was written and waits for a confirmation: nothing starts until a user"
        " confirms it at a terminal: toolcrib config confirm",
        file=sys.stderr,
    )
    return False
