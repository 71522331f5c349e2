"""Layout of the site. ``toolcrib docs`` runs it, with the generated pages beside the written ones."""

from pathlib import Path

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
