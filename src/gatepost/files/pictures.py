"""Whatever shows a picture, looked at for QR codes: pictures, and the first pages of PDFs.

It stands apart from the walk through the files, since decoders of pictures and pages are large programs in C: should
one of them break a worker, the message is read again without this step, and all else that was found still counts.
"""

import msgspec

from gatepost.files import images, pages
from gatepost.files.budget import Budget
from gatepost.files.tree import Contents, File


def looked_at(files: tuple[File, ...], budget: Budget | None = None) -> tuple[File, ...]:
    """The files, those with codes in them with the links of these; the same bytes are looked at once."""
    budget = budget or Budget()
    known: dict[str, Contents] = {}
    seen = []
    for file in files:
        if not (images.is_picture(file) or file.type == "pdf"):
            seen.append(file)
            continue
        found = known.get(file.sha256)
        if found is None:
            found = known[file.sha256] = (images if images.is_picture(file) else pages).look(file, budget)
        seen.append(_with(file, found))
    return tuple(seen)


def _with(file: File, found: Contents) -> File:
    return msgspec.structs.replace(
        file,
        unread=tuple(dict.fromkeys((*file.unread, *found.unread))),
        traits=(*file.traits, *found.traits),
        links=(*file.links, *found.links),
    )
