"""Finding a place in the pages by its name or by words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agent.reference.page import Page
from toolcrib._dataclass import dataclass
from toolcrib._regex import Regex

_HEADING = Regex(r"^#{1,4} +(.+?) *#*$")
_FENCE = Regex(r"^ {0,3}(`{3,}|~{3,})")
_SIGNS = Regex(r"[`\\]")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it until the next one. ``page`` is the page's path."""

    page: str
    title: str
    text: str
    is_first: bool = False


def sections(pages: Iterable[Page]) -> Iterator[Section]:
    """Yield all sections of pages in their order."""
    for page in pages:
        title, lines, fence, is_first = "", list[str](), "", True
        for line in page.text.splitlines():
            if (found := _FENCE.match(line)) and (not fence or line.strip() == fence):
                fence = "" if fence else found[1]
            heading = None if fence else _HEADING.match(line)
            if heading is not None:
                if lines:
                    yield Section(page.path, title, "\n".join(lines), is_first)
                    is_first = False
                title, lines = _SIGNS.sub("", heading[1]), []
            lines.append(line)
        yield Section(page.path, title, "\n".join(lines), is_first)


def named(name: str, found: Sequence[Section]) -> list[Section]:
    """Return the sections that are called ``name``: by their heading, or as a page by its path or the end of it.

    One with capitals is a class where there is one of that name, and nothing else.
    """
    if name != name.lower() and (classes := [one for one in found if one.title == name and not one.is_first]):
        return classes
    wanted = name.strip().lower().removesuffix(".md").strip("/")
    paths = [one for one in found if one.is_first and (one.page == wanted or one.page.endswith(f"/{wanted}"))]
    if paths and any(one.page == wanted for one in paths):
        paths = [one for one in paths if one.page == wanted]
    titled = [one for one in found if one.title.lower() in (wanted, f"toolcrib {wanted}") and one not in paths]
    return [*paths, *titled]


def with_words(words: Sequence[str], found: Sequence[Section]) -> list[Section]:
    """Return the sections in which all words stand, those with more of them in the heading first."""
    wanted = [word.lower() for word in words]

    def score(one: Section) -> tuple[int, int]:
        title = one.title.lower()
        return -sum(word in title for word in wanted), -sum(min(one.text.lower().count(word), 5) for word in wanted)

    return sorted((one for one in found if all(word in one.text.lower() for word in wanted)), key=score)
