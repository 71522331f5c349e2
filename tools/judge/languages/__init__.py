"""Readers of other languages' source text: they report its effects as shell commands, and never execute anything.

An effect that the shell has a command for is reported as that command, from every language alike: ``os.remove(p)`` is ``rm p``,
``shutil.rmtree(p)`` is ``rm -r p`` (more in _tell.py and _rows.py). A few effects have no such command and get a made-up name:

- ``@reverse-shell HOST PORT``: a socket is connected and a shell's input or output is bound to it. HOST and PORT may be HOLEs.
- ``@socket PATH``: a connection to a local socket; a name that begins with NUL is an abstract socket.
- ``@terminal``: an ioctl request goes to a device that may be a terminal, and may type into it.
- ``@own-code NAME WHERE``: Python source imports toolcrib's own code (``agent.process``, ``toolcrib.Agent``), not only public
types. WHERE is ``here`` for text that was written with the command, ``file`` for a file, and ``beside`` if a package of that name
is beside the source, which then usually belongs to another project.
- ``@sql STATEMENT``: one statement without comments, one space between words, SQL's keywords in upper case, names and literals
as written, no final ``;``. Only these are reported: ``DROP ...``, ``TRUNCATE ...``, ``DELETE ...``, ``UPDATE ...``,
``ALTER TABLE t DROP ...``, ``GRANT ...``, ``REVOKE ...``, ``CREATE|ALTER|DROP USER|ROLE|LOGIN ...``, ``SET PASSWORD ...``,
``COPY ...``, ``SHUTDOWN``, ``EXEC XP_...``, ``ALTER SYSTEM ...``. A WHERE that is always true (``1=1``, ``TRUE``, ``'a'='a'``)
is removed, so a DELETE or UPDATE without `` WHERE `` in its text means all rows.
- ``@mongo CALL``: a call of MongoDB's shell with its receiver, without spaces outside of strings: ``db.dropDatabase()``,
``db.users.drop()``, ``db.users.deleteMany({})``, ``db.users.remove({})``, ``db.dropUser('x')``, ``db.shutdownServer()``. Also
``createUser``, ``updateUser``, ``grantRolesToUser``, ``changeUserPassword``, ``updateMany({}, ...)``, and ``runCommand`` with a
drop or shutdown. A deletion or update with a filter is not reported.

The network: a read is ``curl URL`` and returns REMOTE text; sending is ``curl --data-binary DATA URL``, and DATA keeps
its taint (URL may be ``tcp://h:p``, ``smtp://h``, ``ftp://h``); a download to a file is ``curl -o FILE URL``. A file opened to
write is ``run([], [RedirectTarget(">" or ">>", path)], stdin=its text, with taint and HOLEs)``. A file opened to read is
``run([], [RedirectTarget("<", path, 0)])``, if its path is known. A started program with another folder or environment is
``env --chdir=DIR NAME=VALUE program ...``; for shell text ``cd DIR && ...``.
Shell text as input (awk's ``print | "cmd"``, ``Popen(shell=True, input=...)``) is ``sh -c TEXT`` with stdin=.
Evaluated text that can't be followed is
``code(Code(language, value))``. A HOLE in the value marks an unknown part; a loaded library has the language "native".
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Value

__all__ = ["LANGUAGES", "read"]

LANGUAGES = {
    **{name: name for name in "python awk sed vim sql mongo".split()},
    **dict.fromkeys("perl ruby javascript php lua tcl".split(), "scripts"),
    **dict.fromkeys(("c", "go", "rust", "java"), "compiled"),
}
"""The module in this folder for each language. Its function ``read(code, args, sink)`` does what ``read`` below does."""

MAX_CHARS = 100_000

_HARMLESS = r"TIOC[GS]WINSZ|TIOCG\w+|TIOCOUTQ|TIOCINQ|TIOCNOTTY|TCGETS|FIO\w+|SIOC\w+|BLK\w+|FS_IOC\w+|FICLONE\w*"
_TYPES = Regex(
    r"TIOC(?:STI|LINUX|SCTTY|CONS)|\b0[xX]541[2cC]\b|\b2152[24]\b"
    rf"|\bioctl\b(?=\s*\()(?!\s*\([^,()]*,[^,()]*\b(?:{_HARMLESS})\b)"
)
"""Requests that type into a terminal, and any request that is not known to be harmless."""


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    """Report to ``sink`` the effects that ``code`` would have if it ran with ``args``.

    Return False if it could not be read (a language that isn't in LANGUAGES, a syntax error, too long, too deep, too many steps,
    or unknown text); the effects found until then were reported. Raises only what ``sink`` raises.
    """
    text = code.text.text
    if code.language not in LANGUAGES or len(text) > MAX_CHARS or (HOLE in text and not text.strip(f"{HOLE} \t\n")):
        return False
    if code.language not in ("sql", "mongo") and _TYPES.search(text) is not None:
        sink.run([Value("@terminal")])
    reader = importlib.import_module(f"tools.judge.languages.{LANGUAGES[code.language]}")
    return bool(reader.read(code, args, sink))
