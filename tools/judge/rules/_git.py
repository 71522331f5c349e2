"""Parts that rows about git share."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.table import operand, opt

GIT = "git hub yadm"
"""hub hands on what it doesn't know to git; yadm is git over the home folder."""

git = Program("-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source")

DRY = opt("-n --dry-run")
WIDE = operand(r"\.{1,2}/?|(\./|\.\./)+|:/?|:/\*?|\./\*|\*{1,2}|:\(top\).*")
"""Test for this folder, the top of the repository or everything: not one file."""
