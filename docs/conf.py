"""Layout of the site. ``toolcrib docs`` runs it, with the generated pages beside the written ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

project = "toolcrib"
author = "the authors of toolcrib"
copyright = "the authors of toolcrib"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "linkify"]
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False
suppress_warnings = ["misc.highlighting_failure"]  # commands to judge are no proper shell on purpose
exclude_patterns = ["_site"]
html_theme = "furo"
html_title = "toolcrib"
html_static_path = ["_static"]
html_css_files = ["site.css"]
_sidebar = ("brand", "search", "scroll-start", "navigation", "scroll-end")
html_sidebars = {"**": [*(f"sidebar/{name}.html" for name in _sidebar), "versions.html"]}
templates_path = ["_templates"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


# The navigation. Without the following, furo resolves and parses it anew for each page: two thirds of the time of a build.


def setup(app: Any) -> None:
    app.connect("html-page-context", _before_furo, priority=400)
    app.connect("html-page-context", _after_furo, priority=600)


def _before_furo(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    context.pop("toctree", None)


def _after_furo(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the page the navigation of the first page, with links that begin here, and mark the page in it."""
    from sphinx.util.osutil import relative_uri

    soup, links = _navigation(app)
    here = app.builder.get_target_uri(page)
    changed = []
    for link, target in links:
        link["href"] = target if "://" in target else relative_uri(here, target) or "#"
        branch = [link, *(one for one in link.parents if one.name in ("li", "ul"))] if target == here else []
        for one in branch:
            changed.append((one, dict(one.attrs)))
            marks = [mark for mark in one.get("class", []) if mark != "current"]
            one["class"] = [*marks[: one.name == "li"], "current", *marks[one.name == "li" :]]
        for one in [box for item in branch for box in item.find_all("input", recursive=False)]:
            changed.append((one, dict(one.attrs)))
            one["checked"] = ""
        if branch:
            branch[1]["class"].append("current-page")
    context["furo_navigation_tree"] = str(soup)
    for one, attributes in reversed(changed):
        one.attrs = attributes


@cache
def _navigation(app: Any) -> tuple[Any, list[tuple[Any, str]]]:
    """Return the navigation of the first page, and its links with their targets. No page is marked in it."""
    from bs4 import BeautifulSoup
    from furo.navigation import get_navigation_tree
    from sphinx.environment.adapters.toctree import TocTree

    whole = {"titles_only": True, "maxdepth": -1, "includehidden": True}
    tree = TocTree(app.env).get_toctree_for(app.config.root_doc, app.builder, collapse=False, **whole)
    soup = BeautifulSoup(get_navigation_tree(app.builder.render_partial(tree)["fragment"]), "html.parser")
    return soup, [(link, link["href"]) for link in soup.find_all("a")]
