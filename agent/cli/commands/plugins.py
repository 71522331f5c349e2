"""``toolcrib plugins``: which there are, which are loaded, and what keeps one out."""

from __future__ import annotations

import argparse

from agent.cli.app import OK, open_crib

HELP = "List the plugins: where they are from, which are enabled, and what keeps one out."
_EPILOG = """\
A plugin runs with all your rights, so none is loaded until you name it in the configuration:
  plugins:
    enabled: [hello]
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG


def run(args: argparse.Namespace) -> int:
    from agent.cli.logs import shown_otherwise
    from agent.cli.render import table
    from agent.plugins import discover

    with shown_otherwise(), open_crib(args) as crib:
        found = discover(crib.config, crib.project_dir)
        outcomes = {(info.name, info.source, info.where): info for info in crib.plugins}
    if not found:
        print(f"no plugins; install one, or put one into {crib.config.folder / 'plugins'}")
        return OK
    rows = [("NAME", "SOURCE", "VERSION", "STATE", "WHERE")]
    faults = []
    for plain in found:
        info = outcomes.get((plain.name, plain.source, plain.where), plain)
        state = (
            "loaded" if info.loaded else "failed" if info.error and info.enabled else "not trusted" if not info.trusted else "off"
        )
        rows.append((info.name, info.source, info.version or "-", state, info.where))
        if info.error:
            faults.append(f"{info.name}: {info.error}")
    table(rows)
    if faults:
        print("\n" + "\n".join(faults))
    return OK
