"""JavaScript for MongoDB's shell: the destructive calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import scripts
from tools.judge.languages._tell import Tell
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import Value

_QUOTED = Regex(
    r"'(?:[^'\\]|\\.)*(?:'|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z)|`(?:[^`\\]|\\.)*(?:`|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|\s+", re.DOTALL
)
_CALL = Regex(
    r"(?<![\w$.\[\]'\"()])[\w$.\[\]'\"()]*\.(?:dropDatabase|drop|dropUser|dropAllUsers|dropRole|dropAllRoles|shutdownServer|createUser"
    r"|grantRolesToUser|updateUser|changeUserPassword)\((?:[^()]|\([^()]{0,200}\)){0,500}\)"
    r"|(?<![\w$.\[\]'\"])[\w$.\[\]'\"]*(?:\([^()]{0,200}\))?\.(?:deleteMany|remove|deleteOne|updateMany)\(\{\}(?:,[^()]*)?\)|(?<![\w$.\[\]'\"])[\w$.\[\]'\"]*\.remove\(\)"
)
_COMMAND = Regex(
    r"(?:runCommand|adminCommand)\(\{['\"]?(?:drop|dropDatabase|shutdown|dropAllUsersFromDatabase)['\"]?:[^}]{0,500}\}\)"
)


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell = Tell(sink)
    kept: list[str] = []

    def plain(match: re.Match[str]) -> str:
        if match[0][0] not in "'\"`":
            return ""
        kept.append(match[0])
        return f"'{len(kept) - 1}'"

    source = _QUOTED.sub(plain, code.text.text)
    for found in (*_CALL.finditer(source), *_COMMAND.finditer(source)):
        if ".deleteOne(" in found[0]:
            continue
        shown = re.sub(r"'(\d+)'", lambda match: kept[int(match[1])] if int(match[1]) < len(kept) else match[0], found[0])
        tell.words("@mongo", Value(shown, code.text.taint))
    return scripts.read(code._replace(language="javascript"), args, sink)
