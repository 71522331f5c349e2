"""Vendors of models, and the variables that name their servers, models and keys."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor, with the variables of its server: PREFIX_BASE_URL (else ``base_url``), PREFIX_MODEL and PREFIX_API_KEY.

    ``root`` is the end of the path of every base URL, which users may omit; "" if there is no common one. ``bare`` is the path
    for a base URL without one. ``more_keys`` are other variables that may hold its key. ``title`` is its display name.
    """

    prefix: str
    base_url: str
    root: str = ""
    bare: str = ""
    more_keys: tuple[str, ...] = ()
    title: str = ""

    @classmethod
    def of_plugin(cls, name: str) -> Vendor:
        """Return the vendor of a plugin's provider: HELLO_BASE_URL, HELLO_MODEL and HELLO_API_KEY for ``hello``."""
        return cls("".join(letter if letter.isalnum() else "_" for letter in name).upper(), "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The variables that may contain the vendor's key."""
        return (f"{self.prefix}_API_KEY", *self.more_keys)

    def key_in(self, environ: Mapping[str, str]) -> str | None:
        """Return the variable that contains the vendor's key, or None."""
        return next((name for name in self.keys if environ.get(name, "").strip()), None)


OPENAI = Vendor("OPENAI", "https://api.openai.com/v1", title="OpenAI")
"""The vendor of a request that names no other."""
