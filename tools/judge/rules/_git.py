"""Common parts of the rules about git."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.table import operand, opt

GIT = "git hub yadm"
"""hub passes unknown subcommands on to git; yadm is git for the home folder."""

git = Program("-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source")

DRY = opt("-n --dry-run")
WIDE = operand(r"\.{1,2}/?|(\./|\.\./)+|:/?|:/\*?|\./\*|\*{1,2}|:\(top\).*")
"""Test for an operand that names the working folder, the top of the repository or everything, but not a single file."""
