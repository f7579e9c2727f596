"""Files of tests, opened as those of a message, and damaged as an attacker would damage them."""

from hypothesis import strategies as st

from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part, Text


def open_file(
    content: bytes, text: str = "", budget: UnpackBudget | None = None, *, name: str = "a.bin"
) -> tuple[File, ...]:
    """The file and what is inside it, attached to a message with this text."""
    message = Message(texts=(Text("2", "plain", text),), parts=(Part("1", names=(name,), content=content),))
    return find_files(message, budget)


@st.composite
def damaged(draw: st.DrawFn, content: bytes, most: int = 6, start: int = 0) -> bytes:
    """The content with so many bytes changed, from `start` on."""
    out = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        out[draw(st.integers(start, len(out) - 1))] = draw(st.integers(0, 255))
    return bytes(out)
