"""The helper: a shell beside the session's own, which runs small scripts in the same environment."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading

from toolcrib.contract.environment import BackgroundProcess, Environment, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.processes.scripts import functions

_LIMIT = 30.0
"""Seconds that a script may take."""
_LATE = 1.0
"""Seconds that the reason for a refusal may come after the refusal."""
_SHELL = "\\exec bash --noprofile --norc -p"
_LOST = "the shell that looks after background processes {}: call again to start another"


class Helper:
    """A shell in an environment that runs scripts. It starts at first use, and again after it ended. Not bound to an event loop.

    ``first`` is a script that each new shell runs first. The shell ends if it fails.
    """

    def __init__(self, environment: Environment, first: str) -> None:
        self._environment = environment
        self._first = first
        self._process: BackgroundProcess | None = None
        self.entered = b""
        """Output of ``first``."""
        self.has_run = False
        """True once a script has run: the environment may then hold a folder of the session."""
        self._lock = threading.Lock()

    async def run(self, script: str, after: str = "") -> bytes:
        """Return the output of a script. The shell runs the script ``after`` when it has answered.

        Raises EnvironmentFailed, also if the script ends with another status than 0.
        """
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - the caller before may be in another event loop
            await asyncio.sleep(0.001)
        self.has_run = True
        try:
            return await self._run(script, after)
        finally:
            self._lock.release()

    async def _run(self, script: str, after: str) -> bytes:
        try:
            async with asyncio.timeout(_LIMIT):
                if self._process is not None:
                    with contextlib.suppress(OSError):  # it ended since the last script, for example with its container
                        return await self._asked(self._process, script, after)
                    await self._drop()
                self._process = await self._environment.spawn(ExecRequest(_SHELL, cwd="/"))
                both = f"{functions()}\n{self._first} || exit; printf '\\036'\n{script}"
                self.entered, _, said = (await self._asked(self._process, both, after)).partition(b"\x1e")
                return said
        except HelperRefused:
            raise
        except TimeoutError:
            await self._drop()
            raise EnvironmentFailed(_LOST.format("does not answer")) from None
        except OSError as error:
            await self._drop()
            raise EnvironmentFailed(_LOST.format("ended")) from error
        except BaseException:  # a later answer must not be taken for the answer to another script
            await self._drop()
            raise

    async def _asked(self, process: BackgroundProcess, script: str, after: str = "") -> bytes:
        sign = secrets.token_hex(8)
        mark = f"builtin printf '\\n\\036%s %s\\n' {sign}"
        text = f"{{ {script}\n}} </dev/null; set -- $?; [ $1 = 0 ] || {mark} $1 >&2; {mark} $1\n{after}\n"
        await process.write(text.encode("utf-8", "surrogateescape"))
        said, wrong, end = bytearray(), bytearray(), f"\n\x1e{sign} ".encode()
        while (at := said.find(end)) < 0 or not said.endswith(b"\n", at + len(end)):
            await _read(process, said, wrong)
        status = said[at + len(end) :].strip()
        if status != b"0":
            while end not in wrong:  # the streams are read one after the other
                if not await _read(process, said, wrong, within=_LATE):
                    break
            why = bytes(wrong.partition(end)[0] or said[:at]).decode(errors="replace").strip().rpartition("\n")[2]
            raise HelperRefused(int(status), why)
        return bytes(said[:at])

    async def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError, EnvironmentFailed):
                await process.kill()

    async def close(self) -> None:
        """End the shell. Another one starts at the next use."""
        await self._drop()


async def _read(process: BackgroundProcess, said: bytearray, wrong: bytearray, *, within: float | None = None) -> bytes:
    """Add the next output to ``said`` or ``wrong``, and return it; b"" after ``within`` seconds. Raises BrokenPipeError."""
    chunk = await process.read(within=within)
    if chunk is None:
        raise BrokenPipeError("the helper has ended")
    (said if chunk[0] == "stdout" else wrong).extend(chunk[1])
    return chunk[1]


class HelperRefused(EnvironmentFailed):
    """A script ended with a status other than 0. ``why`` is the last line that it printed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why or f"the script ended with the exit code {status}")
        self.status = status
