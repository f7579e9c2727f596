"""What the model looks at: words and word pairs of text, subject and display name, and the marks of the build."""

from functools import lru_cache

import msgspec

from gatepost.files.tree import File
from gatepost.mail.message import Message
from gatepost.textmodel.structure import marks
from gatepost.textmodel.words import body_words, meant, name_words, subject_words

SUBJECT, NAME, MARK = "s:", "f:", "#"


class Features(msgspec.Struct, frozen=True):
    """One message as the model sees it: `text` in its order, because neighbours make pairs; `rest` in no order."""

    text: list[str]
    rest: list[str]
    marks: list[str]


def features(message: Message, files: tuple[File, ...] = (), written: list[str] | None = None) -> Features:
    """Everything that the model may know of a message; `written` are its `body_words`, where somebody has them."""
    names = [word for sender in message.senders[:2] for word in name_words(sender.name)]
    rest = [SUBJECT + word for word in subject_words(message.subject)]
    rest += [NAME + word for word in names]
    return Features(body_words(message.texts) if written is None else written, rest, marks(message, files))


@lru_cache(8192)
def normal(word: str) -> str:
    """The word under which an unknown one may be known; "" where there is none."""
    if word.startswith((SUBJECT, NAME)):
        form = meant(word[2:])
        return word[:2] + form if form else ""
    return meant(word)
