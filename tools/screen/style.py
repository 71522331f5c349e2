"""Colours and attributes of text, as the parameters of SGR sequences."""

from __future__ import annotations

from collections.abc import Iterator

_ORDER = ("bold", "dim", "italic", "underline", "reverse", "strike", "text", "back")
_ON = {"1": "bold", "2": "dim", "3": "italic", "4": "underline", "7": "reverse", "9": "strike"}
_OFF = {
    "22": ("bold", "dim"), "23": ("italic",), "24": ("underline",), "27": ("reverse",), "29": ("strike",),
    "39": ("text",), "49": ("back",),
}  # fmt: skip
_EXTENDED = {"38": "text", "48": "back", "58": ""}
"""Parameters that a colour follows; 58 colours the underline, which is read and dropped."""


class Pen:
    """The style of the text that a program writes.

    ``style`` has SGR parameters in a fixed order and form, such as "1;38;5;9", and "" for plain text: equal styles are equal
    strings. Blinking and hidden text count as plain, so that a style can't hide text from a person.
    """

    __slots__ = ("_parts", "blank", "style")

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self.style = ""
        self.blank = ""
        """Style of cells that are erased: the background alone."""

    def copy(self) -> Pen:
        """Return an independent pen of this style."""
        pen = Pen()
        pen._parts, pen.style, pen.blank = {**self._parts}, self.style, self.blank
        return pen

    def apply(self, parameters: str) -> None:
        """Change the style as an SGR sequence with these parameters does; ignore unknown ones."""
        given = iter(parameters.split(";"))
        for parameter in given:
            self._apply(parameter, given)
        parts = self._parts
        self.style = ";".join([parts[name] for name in _ORDER if name in parts])
        self.blank = parts.get("back", "")

    def _apply(self, parameter: str, following: Iterator[str]) -> None:
        main, colon, rest = parameter.partition(":")
        main = main.lstrip("0")
        if main in _EXTENDED:
            self._colour(main, rest.split(":") if colon else [], following)
        elif not main:
            self._parts.clear()
        elif main == "4" and rest == "0":
            self._parts.pop("underline", None)
        elif main == "21":  # a double underline
            self._parts["underline"] = "4"
        elif main in _ON:
            self._parts[_ON[main]] = main
        elif main in _OFF:
            for name in _OFF[main]:
                self._parts.pop(name, None)
        elif len(main) < 4 and (30 <= (number := int(main)) <= 37 or 90 <= number <= 97):
            self._parts["text"] = main
        elif len(main) < 4 and (40 <= number <= 47 or 100 <= number <= 107):
            self._parts["back"] = main

    def _colour(self, main: str, sub: list[str], following: Iterator[str]) -> None:
        """Set a colour of the form 38:5:N, 38:2:R:G:B or 38:2:SPACE:R:G:B, or the same with semicolons."""
        kind = sub[0] if sub else next(following, "")
        count = {"5": 1, "2": 3}.get(kind, 0)
        if sub:
            numbers = sub[2:5] if count == 3 and len(sub) > 4 else sub[1 : 1 + count]
        else:
            numbers = [next(following, "") for _ in range(count)]
        values = [int(number or "0") for number in numbers if ":" not in number and len(number) < 5]
        if count and len(values) == count and max(values) < 256 and (name := _EXTENDED[main]):
            self._parts[name] = ";".join((main, kind, *map(str, values)))
