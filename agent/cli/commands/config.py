"""``toolcrib config``: show settings with their origins, and change them; comments in the file are kept."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, UNASKED
from toolcrib.contract.paths import real_path

if TYPE_CHECKING:
    from agent.config import Config

HELP = "Show settings and where each comes from; get, set, unset, edit, check and confirm them."
_EPILOG = """\
examples:
  toolcrib config show --origins
  toolcrib config get tools.timeout
  toolcrib config set tools.disabled '[terminal]'          the value is YAML; comments in the file are kept
  toolcrib config set profiles.local.model.name qwen3
  toolcrib config unset tools.disabled                     use the default again
  toolcrib config check                                    list every error with file and line; exit code 1 if there are any
  toolcrib config edit                                     open your editor ($VISUAL, $EDITOR), then confirm and check
  toolcrib config confirm                                  approve changes that were made by other means, at a terminal

show and get print the values in force: defaults, your file, its profile (--profile or $TOOLCRIB_PROFILE), then the restrictions
of the project's .toolcrib/config.yaml. set and unset change your own file. They ask nothing, so scripts can use them, but you can
set command_allowlist and plugins.trusted_projects only at a terminal. After toolcrib has been started once, a setting that
loosens or redirects (approval, plugins, toolsets, platforms, backends, a model's server, the store) and was not set at a terminal
applies only after `config confirm`. Commands of a model cannot change settings: the approval gate blocks them, and inside a
session of this configuration the command refuses.

API keys do not belong here: put them into environment variables or into secrets.env beside the file (chmod 600).

exit codes: 0 done; 1 the key is not set, or errors were found; 2 wrong command line, key or value (nothing was changed);
4 the setting was written, but nothing starts until a user confirms it.
"""
_TRUST = (("command_allowlist",), ("plugins", "trusted_projects"))
"""Keys that allow calls or plugins without asking; only a user at a terminal may set them."""
_ACTIONS = ("show", "get", "set", "unset", "path", "edit", "check", "confirm")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG + "\nkeys:\n" + _key_lines() + "\n"
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="show", help="what to do (default: show); see the examples below"
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="for get, set and unset; for show, only keys below it")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="for set")
    parser.add_argument("--profile", metavar="NAME", help="with show, get or check: use this profile ('': none)")
    parser.add_argument("--origins", action="store_true", help="with show or get: print where each value comes from")
    parser.add_argument("--json", action="store_true", help="with show or get: print JSON")


def run(args: argparse.Namespace) -> int:
    from toolcrib.contract.errors import ToolcribError

    needs = {"get": ("key",), "set": ("key", "value"), "unset": ("key",)}.get(args.action, ())
    if any(getattr(args, name) is None for name in needs):
        raise ToolcribError(f"missing argument: toolcrib config {args.action} {' '.join(needs).upper()}")
    if args.value is not None and args.action != "set":
        raise ToolcribError(f"`config {args.action}` takes no value; to set one: toolcrib config set KEY VALUE")
    if args.key is not None and args.action in ("path", "edit", "check", "confirm"):
        raise ToolcribError(f"`config {args.action}` takes no key")
    if (args.origins or args.json) and args.action not in ("show", "get"):
        raise ToolcribError(f"`config {args.action}` takes neither --origins nor --json")
    if args.profile is not None and args.action in ("set", "unset"):
        raise ToolcribError(f"to change a profile, give its key: toolcrib config {args.action} profiles.NAME.KEY")
    actions = {"show": _show, "get": _get, "set": _set, "unset": _unset, "path": _path, "check": _check}
    actions |= {"edit": _edit, "confirm": _confirm}
    return actions[args.action](args)


def _key_lines() -> str:
    from textwrap import fill

    from agent.config import all_keys

    keys = [key for key in all_keys() if "[]" not in key]
    return fill("  ".join(keys), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _load(args: argparse.Namespace) -> Config:
    from agent.config import load_config

    config = load_config(args.config, profile=args.profile, project_dir=Path.cwd())
    _notices(config)
    return config


def _notices(config: Config) -> None:
    for notice in config.notices:
        print(f"toolcrib: {notice}", file=sys.stderr)


def _show(args: argparse.Namespace) -> int:
    config = _load(args)
    found = _below(config, args.key) if args.key else _below(config, "")
    if args.json:
        from agent.config import plain, value_at

        whole = {key: {"value": value, "origin": config.origin(key)} for key, value in found}
        print(json.dumps(whole if args.origins else plain(value_at(config, _parts(args.key))), ensure_ascii=False, indent=2))
        return OK
    _lines(config, found, origins=args.origins)
    return OK


def _get(args: argparse.Namespace) -> int:
    from agent.config import NotSet

    try:
        if args.json or args.origins:
            return _show(args)
        config = _load(args)
        found = _below(config, args.key)
    except NotSet as error:
        print(f"toolcrib: {error}", file=sys.stderr)
        return FAILED
    if [key for key, _value in found] == [".".join(_parts(args.key))]:
        value = found[0][1]
        print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    else:
        _lines(config, found, origins=False)
    return OK


def _set(args: argparse.Namespace) -> int:
    from agent.cli.config_check import refuse_bad_rules
    from agent.cli.confirming import set_as_person
    from agent.config import find_key, parse_value

    parts, hint = find_key(args.key)
    value = parse_value(args.value, hint)
    refuse_bad_rules(args.config, parts, value)
    if _gives_trust(parts):
        from agent.cli.terminal import controlling_terminal
        from agent.policy.self_protection import folders_of

        with controlling_terminal(folders_of(_load(args))):  # only the user gives grants and trust
            counts = set_as_person(args.config, parts, value)
    else:
        counts = set_as_person(args.config, parts, value)
    _told(args, parts)
    _warn(args, parts)
    return OK if counts else UNASKED


def _warn(args: argparse.Namespace, parts: tuple[str, ...]) -> None:
    """Print warnings about the new value, such as an unknown name, which a plugin enabled later may define."""
    from agent.cli.config_check import faults_at
    from agent.cli.escape import tame

    for fault in faults_at(args.config, parts, Path.cwd()):
        print("toolcrib: warning: " + "\n".join(map(tame, fault.splitlines())), file=sys.stderr)


def _gives_trust(parts: tuple[str, ...]) -> bool:
    """Return whether the key sets grants or trusted projects, perhaps with other settings. It may be a key of a profile."""
    parts = parts[2:] if parts[:1] == ("profiles",) else parts
    return any(key[: len(parts)] == parts[: len(key)] for key in _TRUST)


def _unset(args: argparse.Namespace) -> int:
    from agent.cli.confirming import unset_as_person
    from agent.config import NotSet

    parts = _parts(args.key)
    try:
        counts = unset_as_person(args.config, parts)
    except NotSet as error:
        print(f"toolcrib: {error}", file=sys.stderr)
        return FAILED
    _told(args, parts)
    return OK if counts else UNASKED


def _told(args: argparse.Namespace, parts: tuple[str, ...]) -> None:
    """Print the resulting value, which differs from the file's if a profile or the project sets it too."""
    from agent.config import BrokenConfig, NotSet

    try:
        config = _load(args)
        found = _below(config, args.key)  # a section shows only the keys that are set
        _lines(config, [pair for pair in found if config.origin(pair[0]) != "default"] or found, origins=True)
    except NotSet:
        print(f"{'.'.join(parts)} is not set")
    except BrokenConfig as error:
        print(f"toolcrib: the key was changed, but {error}", file=sys.stderr)


def _path(args: argparse.Namespace) -> int:
    from agent.config import config_path

    print(config_path(args.config))
    return OK


def _check(args: argparse.Namespace) -> int:
    from agent.cli.config_check import config_faults
    from agent.cli.escape import tame
    from agent.config import config_path

    file = config_path(args.config)
    if args.config and not file.exists():
        print(f"toolcrib: --config: {file} does not exist", file=sys.stderr)
        return FAILED
    config, faults = config_faults(file, args.profile, Path.cwd())
    if config is not None:
        _notices(config)
    for fault in faults:
        print("\n".join(map(tame, fault.splitlines())))
    if not faults:
        print(f"{file}: no errors" if file.exists() else f"{file}: no such file, so every key has its default")
    return FAILED if faults else OK


def _edit(args: argparse.Namespace) -> int:
    """Open the user's editor on the file, ask to confirm changes that loosen or redirect something, then check the file.
    Needs a terminal.
    """
    import subprocess

    from agent.cli.screen.external_programs import EDITORS, words_of
    from agent.cli.terminal import controlling_terminal
    from agent.config import BrokenConfig, Config, config_path
    from agent.policy.self_protection import folders_of, refuse_below
    from toolcrib.contract.errors import ToolcribError

    file = config_path(args.config)
    folders = folders_of(Config(path=file))
    refuse_below(folders, "editing the configuration")
    with controlling_terminal(folders):
        pass  # raises if there is no terminal
    if why := _unwritable(real_path(file)):
        raise ToolcribError(f"{file} cannot be written: {why}; no editor was opened. To use another file: --config FILE")
    editor = words_of(EDITORS, "vi")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = file.read_bytes() if file.exists() else None
    try:
        code = subprocess.run([*editor, str(file)], check=False).returncode
    except OSError as error:
        raise ToolcribError(f"{editor[0]} cannot be started: {error.strerror or error}; set $EDITOR to your editor") from None
    if code:
        raise ToolcribError(f"{editor[0]} ended with exit code {code}; to check {file}: toolcrib config check")
    try:
        if _confirm(args, _NOT_KEPT) != OK:  # first, because the check loads only confirmed plugins
            return _put_back(file, before)
    except BrokenConfig:
        pass  # the check reports it in full
    code = _check(args)
    if code != OK:
        print("toolcrib: to fix it: toolcrib config edit", file=sys.stderr)
    return code


def _unwritable(file: Path) -> str:
    """Return why an editor could not save a file, or "" if it could."""
    import os

    there = next(path for path in (file, *file.parents) if path.exists())
    if os.access(there, os.W_OK):
        return ""
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    return f"{there} is not writable by you"


_NOT_KEPT = "not confirmed"
_NOT_AGREED = "not confirmed, so no session starts; to revert the change: toolcrib config edit"


def _put_back(file: Path, before: bytes | None) -> int:
    """Revert an edit that the user did not confirm, since no session would start with it. The edited file is kept beside it."""
    from agent.config import write_private

    kept = file.with_name(f"{file.name}.rejected")
    write_private(kept, file.read_text("utf-8"))
    if before is None:
        file.unlink()
    else:
        file.write_bytes(before)
    print(f"{file}: restored; your edit is in {kept}")
    return FAILED


def _confirm(args: argparse.Namespace, refused: str = _NOT_AGREED) -> int:
    """Ask the user to confirm the changes of the file. Needs a terminal. Return the exit code."""
    from agent.cli.confirming import ask
    from agent.cli.terminal import controlling_terminal
    from agent.config import load_config
    from agent.policy.confirmation import unconfirmed
    from agent.policy.self_protection import folders_of

    config = load_config(args.config, profile="")
    if not (changes := unconfirmed(config)):
        print(f"{config.path}: nothing to confirm")
        return OK
    with controlling_terminal(folders_of(config)) as terminal:
        agreed = ask(config, changes, terminal)
    print(f"{config.path}: {'confirmed' if agreed else refused}")
    return OK if agreed else FAILED


def _parts(key: str | None) -> tuple[str, ...]:
    from agent.config import find_key

    return find_key(key)[0] if key else ()


def _below(config: Config, key: str) -> list[tuple[str, Any]]:
    from agent.config import leaves, value_at

    parts = _parts(key)
    return list(leaves(value_at(config, parts), ".".join(parts)))


def _lines(config: Config, found: list[tuple[str, Any]], *, origins: bool) -> None:
    from agent.cli.escape import tame
    from agent.cli.render import table

    texts = [(key, json.dumps(value, ensure_ascii=False)) for key, value in found]
    if origins:
        table([(f"{key}: {value}", config.origin(key)) for key, value in texts], wrap=True)
    else:
        print("\n".join(tame(f"{key}: {value}") for key, value in texts))
