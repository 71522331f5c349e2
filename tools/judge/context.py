"""The context of a command's judgement: the folders, files, links and rules for all its acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge import installed as our_code
from tools.judge.file_view import Looks
from tools.judge.gitfolders import GitFolders
from tools.judge.links import Links
from tools.judge.table import Rule
from tools.judge.targets import Targets


class Basis(NamedTuple):
    """The context of all acts of a command."""

    protected: Sequence[str]
    home: str
    extra: Mapping[str, Sequence[Rule]]
    links: Links
    looks: Looks
    git: GitFolders
    targets: Targets
    ours: our_code.Ours | None
