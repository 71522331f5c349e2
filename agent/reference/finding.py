"""Finds sections of the pages by name or by words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from re import Match, escape

from agent.reference.page import Page
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.contract.suggest import near

_HEADING = Regex(r"^#{1,4} +(.+?) *#*$")
_FENCE = Regex(r"^ {0,3}(`{3,}|~{3,})")
_SIGNS = Regex(r"[`\\]")
_TREE = Regex(r"(?ms)^```\{toctree\}\n(.*?)^```$")
_CAPTION = ":caption: "
_LAST = {"reference/rules": 1, "changelog": 2, "adr": 2}
"""Folders of pages that rank behind others, because users seldom search for their text."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text below it, up to the next heading. ``page`` is the page's path."""

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


def listed(page: Page, titles: Mapping[str, str]) -> str:
    """Return the page's text with its lists of subpages as plain text. ``titles`` are the pages' titles by path."""
    folder = page.path.rpartition("/")[0]

    def shown(found: Match[str]) -> str:
        lines = found[1].split("\n")
        head = next((f"{line.removeprefix(_CAPTION)}:\n\n" for line in lines if line.startswith(_CAPTION)), "")
        paths = [f"{folder}/{line}".strip("/").removesuffix(".md") for line in lines if line and not line.startswith(":")]
        return head + "\n".join(f"- `toolcrib docs {path}`: {titles.get(path, '')}".removesuffix(": ") for path in paths)

    return _TREE.sub(shown, page.text)


def named(name: str, found: Sequence[Section]) -> list[Section]:
    """Return the sections called ``name``: sections by heading, and pages by path or by the end of the path.

    If a class has this name (which then has capitals), only the class is returned.
    """
    if name != name.lower() and (classes := [one for one in found if one.title == name and not one.is_first]):
        return classes
    wanted = name.strip().lower().removesuffix(".md").strip("/")
    ends = (f"/{wanted}", f"/{wanted}/index")
    paths = [one for one in found if one.is_first and (one.page == wanted or one.page.endswith(ends))]
    if paths and any(one.page == wanted for one in paths):
        paths = [one for one in paths if one.page == wanted]
    titled = [one for one in found if one.title.lower() in (wanted, f"toolcrib {wanted}") and one not in paths]
    return [*paths, *titled]


def like(name: str, found: Sequence[Section]) -> list[str]:
    """Return names of pages and headings similar to ``name``, the most similar first."""
    names = {one.title.removeprefix("toolcrib ") for one in found} | {one.page.rpartition("/")[2] for one in found}
    known = {one.lower(): one for one in sorted(names) if " " not in one}
    return [known[one] for one in near(name.lower(), known, most=3, cutoff=0.75)]


def with_words(words: Sequence[str], found: Sequence[Section]) -> list[Section]:
    """Return the sections that have each of ``words``, whole or as the beginning of a word; if none does, anywhere in a word.

    Guides come first, then lists of rules, then the changelog and past decisions. Within each group, sections with more of the
    words in the heading come first, whole words before beginnings.
    """
    wanted = [word.lower() for word in words]
    begins = [Regex(rf"(?<![a-z0-9]){escape(word)}") for word in wanted]
    placed = [one for one in found if all(begin.search(one.text.lower()) for begin in begins)]
    wholes = [Regex(rf"(?<![a-z0-9]){escape(word)}(?![a-z0-9])") for word in wanted]

    def score(one: Section) -> tuple[int, float, int]:
        title, text = one.title.lower(), one.text.lower()
        in_title = sum(bool(begin.search(title)) + bool(whole.search(title)) for begin, whole in zip(begins, wholes, strict=True))
        often = sum(min(len(whole.findall(text)), 5) for whole in wholes)
        return _LAST.get(one.page.split("/", 1)[0], _LAST.get("/".join(one.page.split("/")[:2]), 0)), -in_title, -often

    return sorted(placed or (one for one in found if all(word in one.text.lower() for word in wanted)), key=score)
