"""Judge a command by the rules alone, without gate, session or grants: for measurements and tests of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import FileInfo
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting

if TYPE_CHECKING:  # the table is imported with the first command
    from tools.judge.detect import Examined


class Judge:
    """Judges single commands by one setting. For the decision of a session's gate use agent.explaining."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def examine(self, command: str, cwd: str, *, files: bool = True) -> Examined:
        """Judge a command. ``files``: read scripts and links on this machine as the judge needs them. Never raises."""
        from tools.judge.detect import examine

        if not files:
            return examine(command, cwd, None, NoFiles(), self.setting)
        from tools.approval.leads import Follower
        from tools.approval.snapshot import LocalFiles
        from tools.dispatch.bridge import by_hand

        examined = examine(command, cwd, None, LocalFiles(), self.setting)
        follower = Follower(_Here(), cwd)
        return replace(examined, findings=[by_hand(follower.follow(finding)) for finding in examined.findings])


class _Here:
    """Links and folders of this machine; see ResolvesPaths. Never suspends."""

    async def resolve(self, path: str) -> str:
        from tools.environments.local import files

        return files.resolve(path, "/")

    async def stat(self, path: str) -> FileInfo | None:
        from tools.environments.local import files

        return files.info(path)

    async def list_dir(self, path: str) -> Sequence[FileInfo]:
        from tools.environments.local import files

        return files.list_dir(path)
