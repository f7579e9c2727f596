"""A file that was found inside a part's content, and how whole it was."""

import msgspec

# Beginnings of files that are looked at in one text; more than that is named as a limit.
MOST_FILES = 500


class Carried(msgspec.Struct, frozen=True):
    """One file carried in text or in a container: `label` says how ("uu", "yenc", "binhex", "tnef")."""

    label: str
    names: tuple[str, ...]
    content: bytes
    content_type: str = "application/octet-stream"
    whole: bool = True
