"""The languages of digests: one file of texts for each in `texts`, read once.

A language that is not known is English, and so is a text that a language lacks.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

DEFAULT = "en"


class Texts:
    """The texts of one language."""

    def __init__(self, code: str, texts: Mapping[str, str]) -> None:
        self.code, self._texts = code, texts

    def say(self, key: str, **values: object) -> str:
        """Return a text with values filled in. Values are foreign: braces in them mean nothing."""
        text = self._texts[key]
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def reason(self, verdict: str) -> str:
        """Return why a message with this verdict is held, in plain words."""
        return self._texts.get(f"reason_{verdict}") or self._texts["reason_clean"]


@cache
def _read_all() -> dict[str, dict[str, str]]:
    folder = files("gatepost.digests").joinpath("texts")
    return {
        each.name.removesuffix(".toml"): tomllib.loads(each.read_text("utf-8"))
        for each in folder.iterdir()
        if each.name.endswith(".toml")
    }


def list_languages() -> tuple[tuple[str, str], ...]:
    """Return code and name of each language, English first."""
    read = _read_all()
    return tuple((code, read[code]["language"]) for code in sorted(read, key=lambda code: (code != DEFAULT, code)))


@cache
def find_texts(code: str) -> Texts:
    """Return the texts of a language."""
    read = _read_all()
    known = code if code in read else DEFAULT
    return Texts(known, {**read[DEFAULT], **read[known]})
