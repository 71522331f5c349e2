"""Words that make a command change nothing: it only prints its help or its version, or what a real run would do."""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.meaning.act import Act
from tools.judge.options import grammar
from tools.judge.table import ActView

_RUN_OTHERS = frozenset(
    (
        "docker podman nerdctl ssh kubectl oc nsenter xargs find fd sudo doas env su chroot timeout bash sh zsh dash "
        "ksh fish python perl ruby node php awk kill parallel watch lxc incus systemd-run machinectl screen tmux script "
        "flatpak docker-compose export toolcrib"
    ).split()
)
"""Programs whose words may include another program's ``--help``."""


def only_says(view: ActView, names: Sequence[str] = ()) -> bool:
    """Return whether the command only prints its help, its version, or what a real run would do."""
    words = view.words
    if not words:
        return False
    if words[0] == "help" and _names_help(words, view):
        return True
    if not view.path and any(name in _RUN_OTHERS for name in names):
        words = words[:2]
        view = ActView(Act(view.name, view.act.argv[:3]))
    return view.dry() or _asks_help(words, view)


def _names_help(words: Sequence[str], view: ActView) -> bool:
    """Return whether this is ``prog help sub``, followed only by names. False for a program without subcommands."""
    if view.path and not grammar(view.path).subs:
        return False
    return all(word.replace("-", "").isalnum() and word[0] != "-" for word in words)


def _asks_help(words: Sequence[str], view: ActView) -> bool:
    """Return whether this is ``prog sub -h`` with only names before ``-h``. False if ``-h`` is one of the program's other
    options.
    """
    if words[-1] != "-h" or len(words) > 3 or grammar(view.path).knows("-h"):
        return False
    return all(word.replace("-", "").isalnum() and word[0] != "-" for word in words[:-1])
