"""SQL as psql, mysql and sqlite3 read it, with these clients' own commands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.languages import _sql_clients
from tools.judge.languages._tell import Tell, TooMuch
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Taint, Value

MAX_TOKENS = 60_000
MAX_DEPTH = 5

_TOKEN = Regex(
    r"(?P<space>\s+)|(?P<comment>--[^\n]*|/\*!\d*|\*/|/\*.*?(?:\*/|\Z))"
    r"|(?P<string>[EeNnXxBb]?'(?:[^'\\]|''|\\.)*(?:'|\Z)|(\$\w*\$).*?(?:\4|\Z))"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*(?:\"|\Z)|`[^`]*(?:`|\Z)|\[\w[\w ]*\])|(?P<word>[\w\ufffc@#$][\w\ufffc@#$]*)"
    r"|(?P<op><=|>=|<>|!=|\|\||::|.)",
    re.DOTALL,
)
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """ADD ALL ALTER AND ANY AS ASC BEGIN BETWEEN BY CALL CASCADE CASE CHECK COLUMN COMMIT CONSTRAINT COPY CREATE
    CROSS CUBE CURRENT DATABASE DEFAULT DELETE DESC DISTINCT DO DROP DUMPFILE ELSE END EXEC EXECUTE EXISTS EXPLAIN
    EXTENSION FALSE FOR FOREIGN FROM FULL FUNCTION GRANT GROUP HAVING IDENTIFIED IF IN INDEX INNER INSERT INTO IS
    JOIN KEY LEFT LIKE LIMIT LOAD LOGIN MATERIALIZED NOT NULL ON OPTION OR ORDER OUTER OUTFILE OWNED PASSWORD
    POLICY PRIMARY PRIVILEGES PROCEDURE PROGRAM REASSIGN REFERENCES RENAME REPLACE RETURNING REVOKE RIGHT ROLE
    ROLLBACK SCHEMA SELECT SEQUENCE SET SHUTDOWN STDIN STDOUT SUPERUSER SYSTEM TABLE TABLES TABLESPACE TEMPORARY
    THEN TO TRIGGER TRUE TRUNCATE TYPE UNION UNIQUE UPDATE USE USER USING VACUUM VALUES VIEW WHEN WHERE WITH
    XP_CMDSHELL""",
    )
)
_ALWAYS = Regex(
    r"(?:(?:NOT )?(?:TRUE|1|'t'|\( ?1 ?\))|(\d+|'[^']*') ?(?:=|<=|>=|LIKE) ?\1|(\w+) ?= ?\2"
    r"|1 ?(?:<>|!=|<) ?[02-9]\d*|2 ?> ?1|1 ?> ?0"
    r"|1 IN \( ?1 ?\)|NOT FALSE)$",
    re.IGNORECASE,
)
_TOLD = Regex(
    r"(?:DROP|TRUNCATE|DELETE|UPDATE|GRANT|REVOKE|SHUTDOWN|COPY|ALTER SYSTEM|ALTER (?:USER|ROLE|LOGIN|DATABASE)"
    r"|CREATE (?:OR REPLACE )?(?:USER|ROLE|LOGIN)|SET PASSWORD|DROP OWNED|REASSIGN OWNED|EXEC(?:UTE)? (?:MASTER ?\. ?\. ?)?XP_)\b"
    r"|ALTER \S.* DROP\b|EXEC(?:UTE)? .*XP_",
    re.DOTALL,
)
_NAMED = Regex(r"(?:system|source|pager|tee|edit)[ \t]+[^;\n]+", re.IGNORECASE)
"""Commands of the mysql client that need no backslash at the beginning of a statement
(https://dev.mysql.com/doc/refman/8.4/en/mysql-commands.html).
"""
_DO = Regex(r"DO |EXECUTE |CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE|TRIGGER)")


class Part(NamedTuple):
    kind: str
    text: str


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell = Tell(sink)
    taint = code.text.taint
    try:
        statements = _statements(tell, code.text.text, taint)
        for statement in statements:
            _statement(tell, statement, taint, 0)
        if any(parts and parts[0].text.upper() == "PREPARE" for parts in statements):
            _prepared(tell, statements, taint)
    except TooMuch:
        return False
    return True


def _statements(tell: Tell, source: str, taint: Taint) -> list[list[Part]]:
    """Return the statements between ``;``, without comments. Commands of the clients, one per line, are reported at once."""
    found: list[list[Part]] = [[]]
    at, count = 0, 0
    while at < len(source):
        line = at == 0 or source[at - 1] == "\n" or not found[-1]
        if line and source[at] in ".\\":
            stop = source.find("\n", at)
            stop = len(source) if stop < 0 else stop
            if (taken := _client(tell, source[at:stop], taint)) > 0:
                at += taken
                continue
        if line and (named := _NAMED.match(source, at)) is not None:
            _client(tell, f"\\{named[0]}", taint)
            at = named.end()
            continue
        match = _TOKEN.match(source, at)
        if match is None:
            at += 1
            continue
        at = match.end()
        count += 1
        if count > MAX_TOKENS:
            raise TooMuch("tokens")
        kind, shown = match.lastgroup or "string", match[0]
        if shown == ";" or (kind == "word" and shown.upper() == "GO" and source[match.start() - 1 : match.start()] == "\n"):
            found.append([])
        elif shown == "\\":
            rest = source[match.start() :].partition("\n")[0]
            at = match.start() + max(1, _client(tell, rest, taint))
        elif kind not in ("space", "comment"):
            upper = shown.upper()
            found[-1].append(Part(kind, upper if kind == "word" and (upper in _KEYWORDS or upper.startswith("XP_")) else shown))
    return found


def _prepared(tell: Tell, statements: list[list[Part]], taint: Taint) -> None:
    """Report the statements in texts that may be prepared: ``SET @s = '...'; PREPARE p FROM @s``."""
    for parts in statements:
        if parts and parts[0].text in ("SET", "PREPARE"):
            for part in parts:
                if part.kind == "string":
                    for inner in _statements(tell, part.text.strip("'").replace("''", "'"), taint):
                        _statement(tell, inner, taint, 1)


def _client(tell: Tell, line: str, taint: Taint) -> int:
    """Report the effects of commands of the client itself, and return the length of their text at the start of ``line``."""
    return _sql_clients.command(tell, line, taint, lambda path: _included(tell, path, taint))


def _included(tell: Tell, path: str, taint: Taint) -> None:
    """Read a file that the client includes here, with the files that it includes. Each is read once."""
    text = tell.read(Value(path, taint))
    if not text.known:
        tell.code("sql", text, path)
        return
    if path in tell.included:
        return
    tell.included.add(path)
    for statement in _statements(tell, text.text, taint | text.taint):
        _statement(tell, statement, taint | text.taint, 1)


def _statement(tell: Tell, parts: list[Part], taint: Taint, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TooMuch("depth")
    shown = _shown(parts)
    if not shown:
        return
    _programs_and_files(tell, shown, taint)
    if shown.startswith(("EXPLAIN ", "WITH ")) or _DO.match(shown):
        start = next((i for i, part in enumerate(parts) if part.text in ("DELETE", "UPDATE") and i), None)
        if start is not None and (shown.startswith("WITH ") or "ANALYZE" in shown.upper()):
            _statement(tell, parts[start:], taint, depth + 1)
        if _DO.match(shown):
            for part in parts:
                if part.kind == "string" and len(part.text) > 12:
                    inner = re.sub(r"^\$\w*\$|\$\w*\$$|^'|'$", "", part.text)
                    inner = re.sub(r"^\s*(?:DECLARE\b.*?)?\bBEGIN\b", "", inner, flags=re.IGNORECASE | re.DOTALL)
                    if not shown.startswith("CREATE"):
                        for statement in _statements(tell, inner, taint):
                            _statement(tell, statement, taint, depth + 1)
        return
    if _TOLD.match(shown):
        if shown.startswith(("DELETE", "UPDATE")):
            shown = _without_empty_where(parts)
        tell.words("@sql", Value(shown, taint | (Taint.UNKNOWN if HOLE in shown else Taint.NONE)))


def _shown(parts: list[Part]) -> str:
    shown = " ".join(part.text for part in parts)
    return (
        re.sub(r" ?([.(]) ?| (?=[,)])", lambda match: match[1] or "", shown)
        if "." in shown or "(" in shown or "," in shown
        else shown
    )


def _without_empty_where(parts: list[Part]) -> str:
    where = next((i for i, part in enumerate(parts) if part.kind == "word" and part.text == "WHERE"), None)
    if where is None:
        return _shown(parts)
    end = next(
        (i for i in range(where, len(parts)) if parts[i].text in ("RETURNING", "LIMIT", "ORDER") and parts[i].kind == "word"),
        len(parts),
    )
    condition = _shown(parts[where + 1 : end])
    while condition.startswith("(") and condition.endswith(")") and condition.count("(") == 1:
        condition = condition[1:-1]
    pieces = re.split(r" OR ", condition)
    if any(_ALWAYS.match(piece.strip("() ")) for piece in pieces) and (len(pieces) > 1 or " AND " not in condition):
        return _shown([*parts[:where], *parts[end:]])
    if all(_ALWAYS.match(piece.strip("() ")) for piece in condition.split(" AND ")):
        return _shown([*parts[:where], *parts[end:]])
    return _shown(parts)


def _programs_and_files(tell: Tell, shown: str, taint: Taint) -> None:
    if shown.startswith("COPY "):
        _sql_clients.copied(tell, shown, taint)
    if shown[:1] == ":":  # a variable of psql
        _sql_clients.unknown(tell)
    _sql_clients.functions(tell, shown, taint)
    if "XP_CMDSHELL" in shown and (match := re.search(r"XP_CMDSHELL ?\(? ?[Nn]?'((?:[^']|'')*)'", shown)):
        tell.shell(Value(match[1].replace("''", "'"), taint))
    if "FILE" in shown and (match := re.search(r"\bINTO (?:OUT|DUMP)FILE '([^']*)'", shown)):
        tell.write(Value(match[1], taint))
    if "(" in shown:
        for match in re.finditer(r"\b(load_file|pg_read_file|readfile|pg_read_binary_file) ?\( ?'([^']*)'", shown, re.IGNORECASE):
            tell.read(Value(match[2], taint))
        for match in re.finditer(r"\b(?:sys_exec|sys_eval|system) ?\( ?'((?:[^']|'')*)'", shown, re.IGNORECASE):
            tell.shell(Value(match[1], taint))
        if match := re.search(r"\bload_extension ?\( ?'([^']*)'", shown, re.IGNORECASE):
            tell.code("native", Value(HOLE, taint | Taint.UNKNOWN), match[1])
