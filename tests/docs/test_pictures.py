"""The pictures of the manual show the present program. After an intended change run ``python -m tests.docs.pictures``."""

from __future__ import annotations

import html
import re

import pytest

from tests.docs.pictures import PICTURES, PLACE, THEMES, picture


def _text(svg: str) -> list[str]:
    return [html.unescape(line).replace("\xa0", " ").rstrip() for line in re.findall(r"<text[^>]*>(.*?)</text>", svg)]


@pytest.mark.full
@pytest.mark.untraced
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_program_shows(name: str) -> None:
    kept = {theme: (PLACE / f"{name}-{theme}.svg").read_text("utf-8") for theme in THEMES}
    assert _text(kept["light"]) == _text(kept["dark"])
    assert _text(picture(name, "dark")) == _text(kept["dark"])
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", kept["dark"])  # it is shown without a network
