"""The text for a remote bash, and the frames that separate its reports from the output of commands.

Two shells read one channel. The keeper reads first and starts the session's shell, which continues to read. However that shell
ends, the keeper reads the next line, so the line that asks for the end of a command is always answered. Text that only the
session's shell may run first checks that the reading process is not the keeper.

Commands get copies of the channel's two streams, which the shells keep at two high descriptors. Output of the shells themselves,
such as a trace, is discarded. A frame is marked by nonces: the first is read before a command, so that output of older processes
is not part of the command's; the last is read only after it, so that the command cannot know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.environments.shell import driver
from tools.environments.shell.driver import quote

OUT, ERR = 50, 51
"""Descriptors above the usual ones of scripts and below those of bash's coprocesses.

A shell that may not open as many files ends: see ``OPEN_FILES``.
"""
OPEN_FILES = ERR + 1
"""Lowest limit of open files that lets a shell continue."""
STREAMS = f"exec {OUT}>&1 {ERR}>&2 >/dev/null 2>&1\n"
HELLO = f"{STREAMS}trap : INT TERM HUP QUIT; cd /\n"
"""The keeper's first lines."""
_GIVEN = f">&{OUT} 2>&{ERR} {OUT}>&- {ERR}>&-"


_SIGN = "\x1e"
"""Character before each nonce. Output seldom ends with it, so little must be held back until more arrives."""


def begin(nonce: str, facts: str = "") -> str:
    """Return the text that begins a frame. It uses one write for each stream, so that no other output comes in between."""
    return (
        f"\\builtin printf '\\036%s %s\\036%s\\n' {nonce} \"{facts}\" {nonce} >&{OUT} && "
        f"\\builtin printf '\\036{nonce} \\036{nonce}\\n' >&{ERR}"
    )


def finish(nonce: str, then: str = "", *, sure: str = "") -> str:
    """Return the text that reports the last exit code, the answering process and the folder's name.

    The name is left out if the condition ``sure`` does not hold.
    """
    whole, short = (
        f"\\builtin printf '\\036%s %s %s %s\\036%s\\n' {nonce} $? $$ {folder} {nonce} >&{OUT}"
        for folder in ('\\"\\$PWD\\"', "''")
    )
    said = f"[[ {sure} ]] && {whole} || {short}" if sure else whole
    last = f"\\builtin printf '\\036{nonce} \\036{nonce}\\n' >&{ERR}"
    return f'\\builtin eval "{";".join([said, last, *([then] if then else [])])}"\n'


def idle(pid: int) -> str:
    """Return a script that prints something if that shell is between two commands; the same text as long as it stays idle."""
    return (
        f"[ -e /proc/{pid}/fd/{OUT} ] && {{ IFS= read -rd '' _l </proc/{pid}/stat; set -- ${{_l##*) }}; "
        'case $1 in [SI]) echo "$1 ${12} ${13}" ;; esac; } 2>/dev/null'
    )


def beyond(pid: int) -> str:
    """Return a script that prints something if that shell has state beyond its report, or if that is unknown.

    Such extra state is open files, or limits that differ from its keeper's.
    """
    return (
        f"[ -r /proc/{pid}/limits ] && cd /proc/{pid}/fd || echo unknown; "
        f'for _f in *; do case $_f in [012] | {OUT} | {ERR} | 255) ;; *) echo "$_f" ;; esac; done; cd /; '
        f'[ "$(</proc/{pid}/limits)" = "$(</proc/$$/limits)" ] || echo limits'
    )


def gone(pid: int) -> str:
    """Return a script that prints something if the process no longer exists."""
    return f"[ -e /proc/{pid} ] || echo gone"


# -- the keeper's own scripts --------------------------------------------------------------------------------------


def script(text: str, first: str, last: str) -> str:
    """Return the text that runs a script in the keeper itself."""
    return f"{begin(first)}; \\builtin eval {quote(text)} </dev/null {_GIVEN}\n" + finish(last)


# -- the session's shell -------------------------------------------------------------------------------------------


def _only(keeper: int) -> str:
    return f"\\builtin [ $$ != {keeper} ] && "


def start(keeper: int, folder: str, cwd: str, restore: str, *, bare: bool) -> str:
    """Return the text that starts a shell. ``bare``: without the inherited variables, because ``restore`` sets them.

    As a job the shell gets its own process group, so that ``kill 0`` in it spares the keeper. Then job control is switched off,
    or the keeper would continue when the shell is only stopped.
    """
    first = f"\\builtin shopt -s expand_aliases\n\\builtin cd -P -- {quote(cwd)} || \\builtin exit\n{driver.FRESH}\n"
    state = f"\\builtin eval {quote(restore)}\n"
    return (
        f'set -m; ( exec {"-c " if bare else ""}-a bash "$BASH" --noprofile --norc ) & set +m; wait $!\n'
        f"{_only(keeper)}\\builtin eval {quote(first + state + driver.arm(folder))}\n"
    )


_LOOK = "\\builtin mapfile -tn1 __crib </proc/uptime; \\builtin mapfile -tn1 -O1 __crib </proc/loadavg; "
FACTS = "$$ ${__crib[0]-} ${__crib[1]-}"
"""Facts before a command. They are read without starting a process; ``$(<file)`` would start one."""


def whole(folder: str) -> str:
    """Return the condition that ``g`` and ``x`` are plain files, and ``s`` and ``z`` too if they exist.

    If one of them were a FIFO, bash would wait for it forever; through a link, it would write to another file.
    """
    written = " && ".join(f"! -L {folder}/{name} && ( -f {folder}/{name} || ! -e {folder}/{name} )" for name in "sz")
    return " && ".join([*(f"! -L {folder}/{name} && -f {folder}/{name}" for name in "gx"), written])


def replaced(folder: str, contents: Mapping[str, str]) -> str:
    """Return a script that prints something if the shell's files differ from ``contents``, those of ``g`` and ``x``."""
    same = " && ".join(f'[ "$(<{folder}/{name})" = {quote(text)} ]' for name, text in contents.items())
    return f"[[ {whole(folder)} ]] && {same} || echo replaced"


def run(keeper: int, command: str, first: str, *, cwd: str, moved: bool, stdin: str, env: Mapping[str, str]) -> str:
    """Return the text that runs a command. If the first frame is missing, the shell could not enter ``cwd`` and ran nothing."""
    there = f"\\builtin test . -ef {quote(cwd)}"
    if moved:  # if PWD is readonly, cd fails although it changes the folder
        there = f"{{ \\builtin cd -P -- {quote(cwd)} || {there}; }}"
    given = "".join(f"{name}={quote(value)} " for name, value in env.items())
    evaluate = "\\eval" if env else "\\builtin eval"  # variables before ``builtin`` do not reach the command that it runs
    text = driver.FIRST_LINE.decode() + command
    return f"{_only(keeper)}{there} && {{ {_told(first)}; }} && {given}{evaluate} {quote(text)} <{stdin} {_GIVEN}\n"


def run_open(command: str, first: str, last: str, env: Mapping[str, str]) -> str:
    """Return the text that runs a command with the channel's own input, for a shell without a keeper.

    It is the shell's last line, because the command's input follows.
    """
    given = "".join(f"{name}={quote(value)} " for name, value in env.items())
    text = driver.FIRST_LINE.decode() + command
    return f"{{ {_told(first)}; }} && {given}\\eval {quote(text)} {_GIVEN}; {finish(last).rstrip()}; \\builtin exit\n"


def _told(nonce: str) -> str:
    return f"{_LOOK}{begin(nonce, FACTS)} && {{ \\builtin unset -v __crib || \\builtin :; }}"


def report(folder: str, mark: str) -> str:
    """Return the contents of the file ``g``, which writes the shell's state to the file ``s``."""
    return f"\\builtin unset -v __crib;{driver.report(mark, f'>{folder}/s')}"


def at_exit(folder: str, mark: str) -> str:
    """Return the contents of the file ``x``, which an ending shell runs.

    It writes the limit of open files, the folder and the state to the file ``z``.
    """
    z = f"{folder}/z"
    head = f"\\builtin echo {mark} EXIT >|{z};\\builtin ulimit -n >>{z};\\builtin pwd -P >>{z};\\builtin echo {mark} >>{z}"
    state = driver.report(mark, f">{z}")
    return f"[[ -L {z} || -e {z} && ! -f {z} ]] || \\builtin eval {quote(f'{head};{state}')} >/dev/null 2>&1"


def finish_shell(keeper: int, nonce: str, folder: str, *, brief: bool) -> str:
    """Return the text that ends a command and writes the shell's state to ``s``, below the nonce of that command.

    ``brief``: without the state. The keeper's own state is not written. If the shell is not in the folder whose name it knows, or
    its files were replaced, no folder is reported.
    """
    sure = f". -ef \\$PWD && {whole(folder)}"
    if brief:
        return finish(nonce, sure=sure)
    state = f"\\builtin mapfile -d '' __crib <{folder}/g && \\builtin eval \\\"\\$__crib\\\""
    unless = f"\\builtin [ $$ = {keeper} ] || [[ ! ( {whole(folder)} ) ]] ||"
    return finish(nonce, f"{unless} {{ \\builtin echo {nonce} >|{folder}/s;{state};}}", sure=sure)


# -- output --------------------------------------------------------------------------------------------------------


class Stream:
    """Reader of one of the two streams. It passes everything between its frames to ``sink``."""

    def __init__(self, first: str, last: str, sink: Callable[[bytes], None]) -> None:
        self.facts = b""
        self.status = ""
        self.pid = ""
        self.folder = b""
        """The shell's own name for its folder. It may contain links, and the folder need not exist."""
        self.begun = self.ended = False
        self._first, self._last = (f"{_SIGN}{nonce} ".encode() for nonce in (first, last))
        self._first_end, self._last_end = (f"{_SIGN}{nonce}\n".encode() for nonce in (first, last))
        self._sink = sink
        self._held = b""

    def add(self, chunk: bytes) -> None:
        data = self._held + chunk if self._held else chunk
        self._held = b""
        if not self.begun:
            found = self._begin(data)
            if found is None:
                return
            data = found
        at = data.find(self._last)
        if at < 0:
            self._held = _beginning(data, self._last)
            self._give(data[: len(data) - len(self._held)] if self._held else data)
            return
        self._give(data[:at])
        end = data.find(self._last_end, at)
        if end < 0:
            self._held = data[at:]
            return
        words = data[at + len(self._last) : end].split(b" ", 2)
        if len(words) == 3:
            self.status, self.pid, self.folder = words[0].decode("ascii"), words[1].decode("ascii"), words[2]
        self.ended = True

    def _begin(self, data: bytes) -> bytes | None:
        """Return the data after the first frame. If nothing started, return the data from the last frame on.

        Return None if more data must arrive first.
        """
        at, last = data.find(self._first), data.find(self._last)
        end = data.find(self._first_end, at) if at >= 0 else -1
        if end >= 0:
            self.facts = data[at + len(self._first) : end]
            self.begun = True
            return data[end + len(self._first_end) :]
        if at < 0 <= last:
            return data[last:]
        self._held = data[at if at >= 0 else max(0, len(data) - len(self._first)) :]
        return None

    def _give(self, data: bytes) -> None:
        if data and self.begun:
            self._sink(data)


def _beginning(data: bytes, mark: bytes) -> bytes:
    """Return the end of ``data`` that may be the beginning of ``mark``."""
    at = data.rfind(mark[:1], max(0, len(data) - len(mark) + 1))
    return data[at:] if at >= 0 and mark.startswith(data[at:]) else b""
