"""Attach files that a user names in a message as ``@path``, and resources of MCP servers, ``@SERVER:URI``: their content goes to
the model as context.

A file is read in the environment of the session's commands. If their sandbox hides the file, it is read outside of the sandbox.
The rules of read_file apply. A file that seems to hold secrets is attached only if the user agrees.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.beside import Beside
from agent.cli.escape import exact, one_line
from agent.cli.opening import BrokenOffMessage
from agent.cli.server_offers import ServerOffer, offer_in, read_resource
from toolcrib.contract.containment import HasOutside
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.decision import Block, Suspend
from toolcrib.contract.environment import Environment, FileInfo
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.image import IMAGE_BYTES, Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import ToolCall
from tools.contained.outside import containment_of
from tools.judge.folders import under

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from tools.approval.policy import Weighed

FILE_BYTES, ALL_BYTES = 256 << 10, 1 << 20
"""Maximum number of bytes of text of one file, and of all files of a message."""
_MOST = 20
_ENTRIES = 500
_HEAD = 64
_MENTION = Regex(
    r"""(?:^|(?<=[\s(\[{,;"'<]))@(?:"(?P<quoted>[^"\n]{1,1000})"|(?P<plain>(?:\\.|[^\s\\"'@<>|])(?:\\.|[^\s\\]){0,1000}))"""
)
_ESCAPED = Regex(r"\\(.)")
_BEHIND = ".,;:!?)]}'\">"
"""Characters that are likelier to end a sentence than a path."""
_SUFFIX = Regex(r"\w\.[A-Za-z]\w{0,3}$")
"""The end of a word that looks like a file name."""
_SECRET = Regex(
    r"(?:^|/)(?:\.env(?:\.(?!example|sample|template|dist)[^/]*)?|\.envrc|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc"
    r"|\.git-credentials|\.htpasswd|\.dockercfg|id_(?:rsa|dsa|ecdsa|ed25519)[^/.]*|credentials(?:\.(?:json|ya?ml|toml|ini))?"
    r"|secrets?\.(?:json|ya?ml|toml|ini|env)|service[-_]account[^/]*\.json|[^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ovpn|asc)"
    r"|[^/]+\.tfvars|[^/]+\.tfstate|shadow|gshadow)$|/\.(?:ssh|gnupg|aws|azure|kube|docker|password-store)/(?!config$)[^/]"
    r"|/\.(?:kube|docker)/config|/\.config/gcloud/",
)


@dataclass(slots=True)
class Attached:
    """Context and images for a message. ``notes`` report each attached file, ``faults`` the mentions that remain plain text."""

    parts: list[Beside] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    size: int = 0


def mentions(text: str) -> Iterator[list[str]]:
    """Yield a list for each ``@path`` of a message: the paths that it may mean, the likeliest first.

    A path with blanks is quoted, ``@"a b"``, or escaped. An address such as me@example.org is not a mention.
    """
    for found in _MENTION.finditer(text):
        if found["quoted"]:
            yield [found["quoted"]]
            continue
        path = _ESCAPED.sub(r"\1", found["plain"])
        yield list(dict.fromkeys(one for one in (path, path.rstrip(_BEHIND)) if one))


async def attach(session: Session, text: str, confirm: Callable[[str], Awaitable[bool | None]] | None) -> Attached:
    """Read the files that a message names. A mention of a missing file remains plain text. ``confirm`` asks the user; it is
    None if no user can be asked.

    Raises BrokenOffMessage if the user cancels instead of answering.
    """
    done, seen = Attached(), set[str]()
    for paths in mentions(text):
        if len(seen) == _MOST:
            done.faults.append(f"only the first {_MOST} files were attached; attach the folder, or send another message")
            break
        try:
            await _attach(session, paths, confirm, done, seen)
        except BrokenOffMessage:
            raise
        except (ToolcribError, EnvironmentFailed, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            done.faults.append(f"@{one_line(paths[0])} was not attached: {one_line(why, 400)}")
    return done


async def _attach(
    session: Session,
    paths: list[str],
    confirm: Callable[[str], Awaitable[bool | None]] | None,
    done: Attached,
    seen: set[str],
) -> None:
    if (offer := offer_in(paths[-1], session.names)) is not None:
        await _take_resource(session, offer, done, seen)
        return
    for named in paths:
        environment, path, info = await _found(session.scope.environment, named)
        if info is not None:
            break
    else:
        if (image := _dropped(paths)) is not None:
            done.images.append(image)
            done.notes.append(f"attached {one_line(paths[0])}, from this machine: {image}")
        elif "/" in paths[-1] or _SUFFIX.search(paths[-1]):
            done.notes.append(f"@{one_line(paths[-1])} stays text: no such file")
        return
    if path in seen:
        return
    seen.add(path)
    if not await _may(session, environment, named, path, confirm, done):
        return
    if info.kind == "dir":
        _take_folder(done, named, await environment.list_dir(path))
    elif info.kind != "file":
        done.faults.append(f"@{one_line(named)} was not attached: it is not a regular file")
    else:
        await _take_file(session, environment, done, named, path, info)


async def _found(environment: Environment, named: str) -> tuple[Environment, str, FileInfo | None]:
    """Return the file's environment, path and info. If the sandbox hides the file, the environment is outside of the sandbox."""
    path = await environment.resolve(named)
    info, held = await environment.stat(path), containment_of(environment)
    if held is None or not isinstance(environment, HasOutside):
        return environment, path, info
    if info is None or any(under(path, masked) for masked in held.masked):
        environment = environment.outside()
        info = await environment.stat(path := await environment.resolve(path))
    return environment, path, info


def _dropped(paths: Sequence[str]) -> Image | None:
    """Return the image at one of the paths on this machine, or None. If commands run elsewhere, a file that the user drops into
    the terminal exists only here.
    """
    for path in map(Path, paths):
        if path.is_absolute() and path.is_file():
            return Image.from_file(path)
    return None


async def _may(
    session: Session,
    environment: Environment,
    named: str,
    path: str,
    confirm: Callable[[str], Awaitable[bool | None]] | None,
    done: Attached,
) -> bool:
    """Return whether the file may be read for the model. The gate decides as for read_file; the user decides about secrets."""
    from agent.explaining import foreseen
    from toolcrib.contract.dataclass import replace

    scope = replace(session.scope, open_environment=lambda: environment, granted=None)
    heard: list[Weighed] = []
    call = ToolCall(ToolCall.new_id(), "read_file", {"path": path})
    decision = await foreseen(session.dispatcher, scope, call, heard.append)
    shown = exact(one_line(named))
    why = ""
    if isinstance(decision, Block):
        why = _why(heard, "block") or decision.reason
        done.faults.append(f"@{shown} was not attached: {one_line(why, 400)}")
        return False
    if isinstance(decision, Suspend):
        why = _why(heard, "ask", "ask-once") or "it needs approval"
    elif _SECRET.search(f"/{named}") or _SECRET.search(path):
        why = "the file looks like it contains secrets"
    if not why:
        return True
    agreed = False if confirm is None else await confirm(f"@{shown}: {exact(one_line(why))}. Show it to the model?")
    if agreed is None:
        raise BrokenOffMessage("not sent")
    if agreed:
        return True
    done.faults.append(f"@{shown} was not attached: {one_line(why)}")
    return False


def _why(heard: Sequence[Weighed], *levels: str) -> str:
    """Return the judge's reasons for its findings of these levels."""
    return "; ".join(dict.fromkeys(one.why for weighed in heard for one in weighed.judged.findings if one.level in levels))


def _take_folder(done: Attached, named: str, entries: Sequence[FileInfo]) -> None:
    names = [posixpath.basename(one.path) + ("/" if one.kind == "dir" else "") for one in entries]
    more = f"\n... and {len(names) - _ENTRIES} more" if len(names) > _ENTRIES else ""
    text = "\n".join(names[:_ENTRIES]) + more
    _add(done, Beside("attached-folder", f"lists the folder {named}, which the person attached", text))
    done.notes.append(f"attached {one_line(named)}: a folder with {len(names)} {'entry' if len(names) == 1 else 'entries'}")


async def _take_file(session: Session, environment: Environment, done: Attached, named: str, path: str, info: FileInfo) -> None:
    from tools.files.text import decode, describe

    head = await environment.read_file(path, limit=_HEAD)
    if _is_image(head):
        image = Image.of(await environment.read_file(path, limit=IMAGE_BYTES + 1))
        done.images.append(image)
        done.notes.append(f"attached {one_line(named)}: {image}")
        return
    room = min(FILE_BYTES, ALL_BYTES - done.size)
    if room <= 0:
        raise ToolcribError(f"the files of this message already have {ALL_BYTES >> 10} KiB; the model can read this one itself")
    data = await environment.read_file(path, limit=room + 1)
    cut = len(data) > room
    decoded = decode(data[:room], cut=cut)
    if decoded is None:
        raise ToolcribError(f"it is not text ({describe(path, data)})")
    text = session.scope.redactor.text(decoded.text.replace("\r\n", "\n"))
    if cut and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    about = f"is the file {named}, which the person attached"
    lines = text.count("\n") + bool(text and not text.endswith("\n"))
    note = f"attached {one_line(named)}: {lines} line{'' if lines == 1 else 's'}"
    if cut:
        part = f"the first {len(text.encode('utf-8', 'surrogatepass')) >> 10} of {max(info.size, len(data)) >> 10} KiB"
        about, note = f"is the beginning of the file {named}, {part}, which the person attached", f"{note}, {part}"
    _add(done, Beside("attached-file", about, text))
    done.notes.append(note)


async def _take_resource(session: Session, offer: ServerOffer, done: Attached, seen: set[str]) -> None:
    named = f"{offer.server}:{offer.name}"
    if named in seen:
        return
    seen.add(named)
    result = await read_resource(session, offer)
    text = str(result.data)
    if len(text.encode("utf-8", "surrogatepass")) > min(FILE_BYTES, ALL_BYTES - done.size):
        raise ToolcribError(f"it has more than {FILE_BYTES >> 10} KiB; the model can read it itself, with {offer.tool}")
    about = f"is the resource {offer.name} of the MCP server {offer.server}, which the person attached"
    _add(done, Beside("attached-resource", about, text))
    done.images += result.images
    done.notes.append(f"attached {one_line(named)}: a resource")


def _add(done: Attached, part: Beside) -> None:
    done.parts.append(part)
    done.size += len(part.text.encode("utf-8", "surrogatepass"))


def _is_image(head: bytes) -> bool:
    try:
        Image.of(head)
    except ToolcribError:
        return False
    return True
