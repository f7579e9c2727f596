"""Fields of a text document, put together from their pieces.

A field is written between marks for its begin, middle and end, in as many pieces as the author likes, with other fields
inside: `DDEAUTO` may stand there as `DD`, `EAU`, `TO`, or as `{QUOTE 68 68 69}`, a field that makes letters of numbers.
"""

from collections.abc import Iterator

MAX_DEPTH = 64
MAX_FIELDS = 20_000
MAX_LENGTH = 65_536


class Fields:
    """The fields of one text, gathered piece by piece."""

    def __init__(self) -> None:
        self._open: list[list[str]] = []
        self._done: list[str] = []

    def take(self, element: str, attributes: dict[str, str], text: str) -> None:
        """One element of interest, in the order of the text."""
        if element == "fldSimple":
            self._keep(attributes.get("instr", ""))
        elif element == "instrText":
            if not self._open:
                self._open.append([])
            self._open[-1].append(text)
        elif attributes.get("fldCharType") == "begin":
            if len(self._open) < MAX_DEPTH:
                self._open.append([])
        elif attributes.get("fldCharType") == "end":
            self._close()

    def found(self) -> Iterator[str]:
        """All instructions; fields that were never closed are read to the end."""
        while self._open:
            self._close()
        return iter(self._done)

    def _close(self) -> None:
        if not self._open:
            return
        instruction = "".join(self._open.pop())[:MAX_LENGTH]
        self._keep(instruction)
        if self._open:
            self._open[-1].append(_quoted(instruction))

    def _keep(self, instruction: str) -> None:
        if instruction.strip() and len(self._done) < MAX_FIELDS:
            self._done.append(instruction.strip())


def _quoted(instruction: str) -> str:
    """What a QUOTE field shows; any other shows something that is not known here."""
    words = instruction.split()
    if not words or words[0].upper() != "QUOTE":
        return ""
    return "".join(chr(int(word)) if word.isdecimal() and int(word) < 0xD800 else word for word in words[1:2_000])
