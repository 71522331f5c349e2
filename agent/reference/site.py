"""The documentation site: the pages of docs/ and the generated ones. Sphinx builds it, which needs the extra ``docs``.

The site, including its search, works from files, without a server. Each version has its own folder, and its pages link to the
versions that were in the same folder when it was built.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import agent
from agent._version import __version__
from agent.reference import pages
from agent.reference.page import Page
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.regex import Regex

_MARK = ".pages"
"""File in a site with the digest of its pages."""
EXTRA = "pip install 'toolcrib[docs]'"
_LINKS = (
    (Regex(r"\]\((?:\.\./)*plugins/(\w+)/README\.md"), r"](/reference/platforms/\1.md"),
    (Regex(r"\]\((?:\.\./)*docs/"), "](/"),
    (Regex(r"\]\((?:\.\./)*config\.example\.yaml"), "](/reference/settings/index.md"),
    (Regex(r"\]\((?:\.\./)*examples/[\w./-]*\)"), "](/plugins.md)"),
)
"""Links to files of the repository -> pages of the site."""
_NUMBER = Regex(r"\d+")
_COMMENT = Regex(r"(?ms)^<!--.*?-->\n")


def written() -> Path:
    """Return the folder of the written pages. Raises ToolcribError if the installation has none."""
    beside = Path(agent.__file__).parent
    for folder in (beside / "docs", beside.parent / "docs"):
        if (folder / "conf.py").is_file():
            return folder
    raise ToolcribError("this installation has no documentation pages; reinstall toolcrib")


def all_pages(more: Iterable[Page]) -> Iterator[Page]:
    """Yield all written and generated pages, then ``more``. Links to files of the repository become links to pages."""
    folder = written()
    for path in sorted(folder.rglob("*.md")):
        yield _within(Page(path.relative_to(folder).with_suffix("").as_posix(), path.read_text("utf-8")))
    for page in (*pages(), *more):
        yield _within(page)


def build(target: Path, more: Iterable[Page], *, strict: bool = False) -> Path:
    """Build the site of this version in a folder below ``target``, and return its first page. ``strict``: warnings are errors.

    Raises NoSiteBuilder if the extra is missing, and ToolcribError if Sphinx fails. An existing site is replaced once the new one
    is complete.
    """
    _require()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".making-") as made:
        source, out = Path(made, "source"), Path(made, "site")
        shutil.copytree(written(), source, ignore=shutil.ignore_patterns("*.md", "__pycache__", "_site", "man"))
        for page in all_pages(more):
            path = source / f"{page.path}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page.text, "utf-8")
        there = {__version__, *(one.name for one in target.iterdir() if (one / "index.html").is_file())}
        versions = sorted(there, key=lambda name: [int(part) for part in _NUMBER.findall(name)], reverse=True)
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-j", "auto"]
        command += ["-D", f"version={__version__}", "-D", f"release={__version__}", "-A", f"versions={','.join(versions)}"]
        command += ["-W", "--keep-going"] if strict else []
        done = subprocess.run([*command, str(source), str(out)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolcribError(f"the pages could not be built:\n{done.stderr.strip() or done.stdout.strip()}")
        shutil.rmtree(out / ".doctrees", ignore_errors=True)
        site = target / __version__
        if site.exists():
            shutil.rmtree(site)
        out.rename(site)
    (target / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">\n', "utf-8")
    return site / "index.html"


def current(target: Path, more: Iterable[Page], tell: Callable[[], None]) -> Path:
    """Return the first page of the site. If it is missing, or a page has changed, call ``tell`` and build the site.

    Raises what ``build`` raises.
    """
    more = list(more)
    digest = sha256("\0".join(page.path + page.text for page in all_pages(more)).encode()).hexdigest()
    first, mark = target / __version__ / "index.html", target / __version__ / _MARK
    if not first.is_file() or not mark.is_file() or mark.read_text("utf-8") != digest:
        _require()
        tell()
        first = build(target, more)
        mark.write_text(digest, "utf-8")
    return first


class NoSiteBuilder(ToolcribError):
    """The extra that builds the site is missing."""


def _require() -> None:
    if any(find_spec(name) is None for name in ("sphinx", "furo", "myst_parser")):
        raise NoSiteBuilder(f"building the pages needs the extra: {EXTRA}\n`toolcrib docs PAGE` shows a page without it")


def _within(page: Page) -> Page:
    text = _COMMENT.sub("", page.text)
    for pattern, instead in _LINKS:
        text = pattern.sub(instead, text)
    return Page(page.path, text)
