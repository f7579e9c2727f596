"""What is inside the files of a message, layer by layer, within budgets."""

from gatepost.files.tree import File
from gatepost.mail.message import Message


def unfold(message: Message) -> tuple[File, ...]:
    """Every file of the message and every file inside those."""
    return ()
