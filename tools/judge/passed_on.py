"""Files that programs list to be read, sent, changed or deleted: whether they may be toolcrib's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge import own_file_names
from tools.judge.finds import FINDERS, Filter, Finds, finds
from tools.judge.folders import under
from tools.judge.globs import is_wild
from tools.judge.listfiles import lists_of
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Taint
from tools.judge.paths import READABLE, may_be_above, may_go_into, may_match
from tools.judge.reads import takes_folders

_TOLD = frozenset(
    "ls dir vdir stat test [ [[ echo printf du file realpath readlink basename dirname wc cksum md5sum sha1sum sha256sum"
    " sha512sum touch cd pushd true false : sleep mkdir rmdir".split()
)
"""Programs that print at most names, sizes or sums of the files in their arguments."""
_FILTERS = frozenset(
    "cat tac nl head tail sed gsed awk gawk mawk grep egrep fgrep rg cut sort uniq tr rev fold fmt paste join comm column expand"
    " tee less more most bat jq yq iconv shuf xargs gxargs parallel read mapfile readarray while for until if { ( [ [[ fzf sponge"
    " ts pv diff cmp hexdump xxd od base64 base32 strings pbcopy xclip xsel wl-copy".split()
)
"""Programs that pass on names from their input as text; programs that read files by names are not among them."""
_INSIDE = f"{HOLE}/"
"""A path below a listed one: ``{}/config.yaml``."""


class PassedOn(NamedTuple):
    """The files that ``act`` lists. ``own``: all of them are certainly toolcrib's own; ``deletes``: ``act`` deletes them."""

    act: Act
    own: bool
    deletes: bool


def into_own(
    acts: Sequence[Act], protected: Sequence[str], home: str, real: Callable[[str], Sequence[str]]
) -> Iterator[PassedOn]:
    """Yield the programs whose list may contain toolcrib's own files and is passed to a program that reads or changes them."""
    takers = [act for act in acts if _takes(act)]
    if not takers and not any(map(_deletes, acts)):
        return
    listers = [(act, found) for act in acts if not act.place and (found := finds(act, home)) is not None]
    meant: list[bool] = []
    reached: list[tuple[Act, bool]] = []
    for act, found in listers:
        fed = [one for one in takers if one is not act and ((act.name in FINDERS and _runs(act)) or not _is_run_by_find(one))]
        deletes = _deletes(act)
        if not fed and not deletes:
            continue
        folders = any(takes_folders(one) or any(_INSIDE in word for word in one.words()) for one in fed)
        looked = _with_links(found, real)
        names_own = any(_names(path, own) for path in looked.named for own in protected)
        meant.append(names_own)
        if names_own or any(_reaches(looked, start, own, home, folders=folders) for start in looked.starts for own in protected):
            reached.append((act, deletes and not all(found.choices)))
    for act, deletes in reached:
        yield PassedOn(act, all(meant), deletes)


def _deletes(act: Act) -> bool:
    return act.name in FINDERS and any(value.text == "-delete" for value in act.argv)


def _runs(act: Act) -> bool:
    return any(value.text.startswith(("-exec", "-ok", "-x", "-X", "--exec")) for value in act.argv)


def _is_run_by_find(act: Act) -> bool:
    return not FINDERS.isdisjoint(act.wrappers)


def _takes(act: Act) -> bool:
    """Return whether the command reads or changes files by listed names: ``find | xargs cat``, ``cat $(find)``."""
    if act.name in _TOLD:
        return False
    if act.fed or (act.name not in FINDERS and _is_given(act)):
        return True
    if lists_of(act):
        return True
    if act.stdin is None or not act.stdin.taint & Taint.FOUND or HOLE not in act.stdin.text:
        return False
    return bool(act.name) and act.name not in _FILTERS


def _is_given(act: Act) -> bool:
    """Return whether the command's words, input or output may be files from a search."""
    given = (*act.argv[1:], *(target.path for target in act.redirects))
    return any(value.taint & Taint.FOUND and HOLE in value.text for value in given)


# what a list may hold


def _with_links(found: Finds, real: Callable[[str], Sequence[str]]) -> Finds:
    starts = [*found.starts, *(there for start in found.starts for there in real(start))]
    return found._replace(starts=starts, named=[*found.named, *(there for path in found.named for there in real(path))])


def _names(path: str, own: str) -> bool:
    if path.endswith(READABLE):
        return False
    return under(path, own) or (is_wild(path) and (may_match(path, own) or may_go_into(path, own)))


def _reaches(found: Finds, start: str, own: str, home: str, *, folders: bool) -> bool:
    if under(start, own):
        return not all(any(one.pattern.endswith(READABLE) for one in choice) for choice in found.choices)
    if is_wild(start) and start[:1] == "/":
        if not may_be_above(start, own):
            return False
        start = "/".join(own.split("/")[: len(start.split("/"))])
    elif not under(own, start):
        return False
    way = own_file_names.below(own, start)
    if not found.hidden and any(part[:1] == "." for part in way):
        return False
    if folders and any(_may_be_way(choice, way[:number], start) for choice in found.choices for number in range(1, len(way) + 1)):
        return True
    if len(way) + ("." not in own.rpartition("/")[2][1:]) > found.depth:  # a folder's files are one level deeper
        return False
    every = under(home or "/", start)
    return any(all(_may_be(one, own, every=every) for one in choice) for choice in found.choices)


def _may_be_way(choice: Sequence[Filter], way: Sequence[str], start: str) -> bool:
    """Return whether a folder above toolcrib's own may be found: then its whole content is passed on with it."""
    path = "/".join([start.rstrip("/"), *way])
    return all(own_file_names.overlap(one.pattern, path if one.whole else way[-1]) for one in choice)


def _may_be(one: Filter, own: str, *, every: bool) -> bool:
    """Return whether one of toolcrib's files may match. ``every``: the walk covers at least a home, so most files are not
    toolcrib's.
    """
    if one.pattern.endswith(READABLE):
        return False
    if not every and not one.whole:
        return True
    if one.whole:
        return own_file_names.may_lie_in(one.pattern, own)
    return own_file_names.may_be_kept(one.pattern) or own_file_names.overlap(one.pattern, own.rpartition("/")[2])
