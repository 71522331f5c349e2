"""Dangerous commands as patterns over text: the simple interface that the specification requires (003-23).

The judge does not use the patterns listed here, because a command's text shows little of its effects. Its rules examine the
effects. A pattern that a caller adds to the list does apply, in ``detect_dangerous_command`` and in the gate.
"""

from __future__ import annotations

DANGEROUS_PATTERNS: list[tuple[str, str]] = [
    (r"\brm\s+(?:-\w+\s+)*(?:-\w*[rR]\w*|--recursive)\b", "recursive delete"),
    (r"\bfind\b.*\s-(?:delete|exec(?:dir)?\s+rm)\b", "deletes whatever find matches"),
    (r"\b(?:mkfs(?:\.\w+)?|wipefs|fdisk|parted|mkswap)\s", "formats or partitions a disk"),
    (r"\bdd\s+.*\bof=/dev/", "writes a device"),
    (r">\s*/dev/(?:sd|hd|vd|nvme|mmcblk)", "writes a disk"),
    (r"\bDROP\s+(?:TABLE|DATABASE|SCHEMA)\b", "drops a table or database"),
    (r"\bDELETE\s+FROM\s+[\w.\"`]+\s*(?:;|$|[\"'])", "deletes every row of a table"),
    (r"\bTRUNCATE\s+(?:TABLE\s+)?\w", "empties a table"),
    (r"(?:>>?|\btee\b.*)\s*/etc/", "overwrites a system file"),
    (r"\bsystemctl\s+(?:stop|disable|mask)\b|\bservice\s+\S+\s+stop\b", "stops a service"),
    (r"\b(?:curl|wget)\b.*\|\s*(?:sudo\s+)?(?:ba|z|k|da)?sh\b", "runs what it downloads"),
    (r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:", "fork bomb"),
    (r"\b(?:pkill|killall)\s|\bkill\s+(?:-\w+\s+)*-1\b", "ends processes by name, or all"),
    (r"\b(?:shutdown|reboot|halt|poweroff)\b", "turns the machine off"),
    (r"\bchmod\s+(?:-\w+\s+)*-?R?\s*0?777\s+/", "opens system files to everybody"),
    (r"\bgit\s+push\b.*\s(?:-f|--force)\b", "rewrites shared history"),
]
"""(regex, description), each to be searched in a command, ignoring case."""

_FIRST = list(DANGEROUS_PATTERNS)


def added() -> tuple[tuple[str, str], ...]:
    """Return the patterns that callers added to the list, as (regex, description)."""
    if DANGEROUS_PATTERNS == _FIRST:
        return ()
    return tuple((str(one[0]), str(one[1])) for one in DANGEROUS_PATTERNS if one not in _FIRST)
