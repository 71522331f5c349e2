"""The wizard's flags, checked before any question or test. A value that may be a key, given by mistake, is never shown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.setup.tools import read_names
from agent.config import preview
from agent.providers.factory import check_name

if TYPE_CHECKING:
    from agent.process import Crib

_KEYS = {"model": "model.name", "base_url": "model.base_url", "provider": "model.provider", "key_env": "model.api_key_env"}


def check(args: argparse.Namespace, crib: Crib) -> None:
    """Raise ConfigError or ToolcribError for a value that the configuration does not accept, and for unknown names."""
    values = [(key.split("."), value) for flag, key in _KEYS.items() if (value := getattr(args, flag))]
    preview(crib.config.path, values, profile="")
    if args.provider:
        check_name(args.provider, crib.providers)
    if args.backend:
        crib.backends.get(args.backend)
    if args.toolsets is not None:
        read_names(args.toolsets, crib.catalog.names())
