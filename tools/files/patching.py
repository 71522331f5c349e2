"""patch: parse the arguments, find the files that they touch (the effects), and apply all changes or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import DeletesFile, Effect, WritesFile
from toolcrib.contract.environment import FileInfo
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, Internal, InvalidArguments, ToolError
from toolcrib.contract.types import ToolResult, ToolStatus
from toolcrib.contract.undo import Keeping
from tools.files.attributes import attributes_of, give_attributes
from tools.files.changing import apply_hunks, replace, show
from tools.files.kept import changing
from tools.files.owners import give_back
from tools.files.places import missing, resolve, translate_file_errors, unmoved
from tools.files.rewriting import rewrite
from tools.files.text import Text, decode
from tools.files.unified import FileDiff, parse_diff

PATCH_BYTES = 10 * 1024 * 1024

E = TypeVar("E", WritesFile, DeletesFile)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to change one file: it is read from ``source`` (None: a new file) and written to ``target`` (None: deleted)."""

    source: str | None
    target: str | None
    change: Callable[[str], tuple[str, list[str]]]


@dataclass(slots=True)
class Step:
    """A request with resolved paths and the computed change. Nothing is written yet."""

    source: str | None
    target: str | None
    before: bytes = b""
    after: bytes = b""
    info: FileInfo | None = None
    texts: tuple[str, str] = ("", "")
    attributes: Mapping[str, bytes] | None = None
    """Extended attributes of a file that is renamed or deleted."""
    notes: list[str] = field(default_factory=list)

    @property
    def mode(self) -> int | None:
        return None if self.info is None else self.info.mode

    @property
    def owner(self) -> tuple[int, int] | None:
        """The owner and group of the file, set again when it is renamed or restored."""
        return None if self.info is None else self.info.owner

    @property
    def action(self) -> str:
        if self.source is None:
            return "created"
        if self.target is None:
            return "deleted"
        return "modified" if self.source == self.target else "renamed"


def requests(args: dict[str, Any]) -> list[Request]:
    """Parse the arguments, for effects and handler alike. Raises InvalidArguments."""
    diff, path = args.get("diff"), args.get("path")
    if diff is not None:
        if any(args.get(name) is not None for name in ("old", "new")):
            raise InvalidArguments("give either diff, or path with old and new, not both")
        if path is not None:
            raise InvalidArguments("path: a diff names its files in its '---' and '+++' lines; leave path out")
        return [_of_diff(file) for file in parse_diff(diff)]
    if path is None or args.get("old") is None or args.get("new") is None:
        raise InvalidArguments("give path, old and new (exact replacement), or diff (unified diff)")
    change = partial(replace, old=args["old"], new=args["new"], every=bool(args.get("replace_all", False)))
    return [Request(path, path, change)]


def _of_diff(file: FileDiff) -> Request:
    change = partial(apply_hunks, hunks=file.hunks)
    return Request(file.old, file.new, change)


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    """Return an effect for every file to write or delete, with its new content.

    If the change does not fit, the effect has no content and the handler reports the reason later, because the reason may show
    contents of the file, and the gates have not decided yet.
    """
    found: list[Effect] = []
    for request in requests(args):
        target = None if request.target is None else await resolve(ctx.environment, request.target)
        source = target
        if request.source != request.target:
            source = None if request.source is None else await resolve(ctx.environment, request.source)
            if source == target:
                raise InvalidArguments(f"diff: {request.source} and {request.target} are the same file; nothing to rename")
        if target is not None:
            try:
                content = (await _prepare(request, source, target, ctx)).texts[1]
            except (ToolError, OSError):
                found.append(WritesFile(target))
            else:
                found.append(WritesFile(target, content))
        if source is not None and source != target:
            found.append(DeletesFile(source))
    paths = [effect.path for effect in found if isinstance(effect, (WritesFile, DeletesFile))]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidArguments(f"diff: {path} is named twice; put all its hunks under one pair of '---' and '+++' lines")
    return found


async def handle(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult:
    """Apply the patch. ``data``: {files: [{path, action, first_changed_line}], diff, notes}. Raises ToolError; all
    files are then as before, except files that the message names as not restored.
    """
    paths = [effect.path for effect in ctx.effects if isinstance(effect, (WritesFile, DeletesFile))]
    async with changing(ctx, paths) as kept:
        steps = await _plan(args, ctx)
        for step in steps:
            if step.target is not None:
                same = step.target == step.source
                await kept.replaces(step.target, step.info if same else None, step.after, step.before)
            if step.source is not None and step.source != step.target:
                step.attributes, why = await attributes_of(ctx.environment, step.source)
                step.notes += [f"{step.source}: {why}"] if why else []
                await kept.replaces(step.source, step.info, None, step.before)
        await kept.record()
        await _write(steps, ctx, kept)
    files, diffs = [], []
    for step in steps:
        path = step.target or step.source or ""
        diff, line = show(path, *step.texts)
        said: dict[str, Any] = {"path": path, "action": step.action, "first_changed_line": line}
        if step.action == "renamed":
            said["from"] = step.source
        files.append(said)
        diffs.append(diff)
    notes = [note for step in steps for note in step.notes] + ([kept.warning] if kept.warning else [])
    shown = "".join(diffs)
    data = {"files": files, "diff": shown, "notes": notes}
    heads = [f"{said['action']} {said['path']} (from line {said['first_changed_line']})" for said in files]
    text = "\n".join([*heads, *(f"note: {note}" for note in notes), shown])
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"model": text})


async def _plan(args: dict[str, Any], ctx: ToolCallContext) -> list[Step]:
    """Compute every change again from the files' current contents, at the paths that were judged."""
    judged = iter(ctx.effects)
    steps: list[Step] = []
    for request in requests(args):
        write = None if request.target is None else _next(judged, WritesFile, ctx)
        target = source = None if write is None else write.path
        if request.source != request.target:
            source = None if request.source is None else _next(judged, DeletesFile, ctx).path
        step = await _prepare(request, source, target, ctx)
        if write is not None and write.content != step.texts[1]:
            raise ExecutionFailed(f"{target} changed after this call was checked; nothing was written, read it again")
        steps.append(step)
    return steps


def _next(judged: Iterator[Effect], kind: type[E], ctx: ToolCallContext) -> E:
    effect = next(judged, None)
    if isinstance(effect, kind):
        return effect
    raise Internal(f"{ctx.tool_name} was called without the effects that gates judge; call it through the dispatcher")


async def _prepare(request: Request, source: str | None, target: str | None, ctx: ToolCallContext) -> Step:
    step = Step(source, target)
    if target is not None and target != source:
        with translate_file_errors(target):
            if await ctx.environment.stat(target) is not None:
                raise ExecutionFailed(f"{target} exists already; nothing was changed")
    text = Text("")
    if source is not None:
        text = await _load(source, step, ctx)
    try:
        changed, step.notes = request.change(text.text)
    except ExecutionFailed as error:
        raise ExecutionFailed(f"{source or target}: {error.text}") from error
    if target is None and changed:
        raise ExecutionFailed(f"{source}: the diff deletes it without removing all of its lines; nothing was changed")
    step.texts = (text.text, changed)
    step.after = text.encode(changed)
    return step


async def _load(path: str, step: Step, ctx: ToolCallContext) -> Text:
    files = ctx.environment
    with translate_file_errors(path):
        info = await files.stat(path)
        if info is None:
            raise await missing(files, path)
        await unmoved(files, path)
        if info.kind == "dir":
            raise InvalidArguments(f"path: {path} is a folder; name a file in it")
        if info.kind != "file":
            raise ExecutionFailed(f"{path} is a device, pipe or socket, not a regular file")
        data = await files.read_file(path, limit=PATCH_BYTES + 1)
    if len(data) > PATCH_BYTES:
        raise ExecutionFailed(f"{path} is larger than {PATCH_BYTES} bytes; change it with a command in the terminal")
    text = decode(data)
    if text is None:
        raise ExecutionFailed(f"{path} is binary; patch changes text only")
    step.before, step.info = data, info
    return text


async def _write(steps: Sequence[Step], ctx: ToolCallContext, kept: Keeping) -> None:
    """Write and delete the files. If a step fails, revert it and the steps before it, and raise ExecutionFailed."""
    done: list[Step] = []
    for step in steps:
        try:
            with translate_file_errors(step.target or step.source or ""):
                done.append(step)
                if step.target is not None and (why := await rewrite(ctx.environment, step.target, step.after, mode=step.mode)):
                    step.notes.append(f"{step.target}: {why}")
                if step.action == "renamed":
                    step.notes += await _give_all(step, step.target or "", ctx)
                if step.source is not None and step.source != step.target:
                    await unmoved(ctx.environment, step.source)
                    await ctx.environment.delete_file(step.source)
        except (ToolError, EnvironmentFailed) as error:
            left = await _put_back(done, ctx)
            await kept.forget()
            after = f"could not be restored: {', '.join(left)}" if left else "all files are restored"
            raise ExecutionFailed(f"{getattr(error, 'text', error)}; {after}") from error


async def _give_all(step: Step, path: str, ctx: ToolCallContext) -> list[str]:
    """Give the file at ``path`` the owner and the attributes of the step's old file. Return notes about failures."""
    said = await give_back(ctx.environment, path, step.owner), await give_attributes(ctx.environment, path, step.attributes)
    return [f"{path}: {why}" for why in said if why]


async def _put_back(done: Sequence[Step], ctx: ToolCallContext) -> list[str]:
    """Revert the steps. Return the paths that could not be reverted."""
    left: list[str] = []
    for step in reversed(done):
        try:
            if step.source is not None and not await _is_as_before(step, ctx):
                mtime_ns = None if step.info is None else step.info.mtime_ns
                await rewrite(ctx.environment, step.source, step.before, mode=step.mode, mtime_ns=mtime_ns)
                await _give_all(step, step.source, ctx)
            if step.target is not None and step.target != step.source and await ctx.environment.stat(step.target):
                await ctx.environment.delete_file(step.target)
        except (OSError, EnvironmentFailed):
            left.append(step.target or step.source or "")
    return left


async def _is_as_before(step: Step, ctx: ToolCallContext) -> bool:
    """Return whether the source of a failed step is unchanged, for example because the file is not writable.

    Raises OSError, EnvironmentFailed.
    """
    now, before = await ctx.environment.stat(step.source or ""), step.info
    if now is None or before is None or (now.kind, now.size, now.mode) != ("file", before.size, before.mode):
        return False
    return now.owner == before.owner and await ctx.environment.read_file(now.path) == step.before
