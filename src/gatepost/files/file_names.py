r"""File names as the programs that save and open a file understand them, not as they are spelled in the message.

Windows drops dots and blanks at the end of a name, so `invoice.js. .` is saved as `invoice.js`. It takes what follows a
colon for a stream inside the file (`invoice.js::$DATA`), and C programs stop at a NUL. Characters that only direct the
writing (U+202E) or have no width are part of the name and not of what a person sees. Disc images add a version
(`INVOICE.JS;1`). A name that differs from the spelled one is not a finding by itself: it is what checks ask about.
"""

import re

from gatepost.names import FILE_NAME_ENDS, normal_file_name

MAX_EXTENSIONS = 8


def list_extensions(name: str) -> tuple[str, ...]:
    """Return the extensions of a name, the last one first: `a.pdf.js` has js and pdf.

    Where a colon starts a stream of the file, the extension before it comes first, since that is what is opened.
    """
    normal = normal_file_name(name)
    found: dict[str, None] = {}
    for text in (*(normal[: at.start()].rstrip(FILE_NAME_ENDS) for at in re.finditer(":", normal)), normal):
        parts = [part.strip(FILE_NAME_ENDS) for part in text.split(".")[1:]]
        found.update(dict.fromkeys(part for part in reversed(parts[-MAX_EXTENSIONS:]) if part))
    return tuple(found)


def find_last_extensions(name: str) -> tuple[str, ...]:
    """Return what may be the extension by which a name is opened: mostly one, none for a name without a dot."""
    normal = normal_file_name(name)
    texts = (*(normal[: at.start()].rstrip(FILE_NAME_ENDS) for at in re.finditer(":", normal)), normal)
    return tuple(dict.fromkeys(text.rpartition(".")[2].strip(FILE_NAME_ENDS) for text in texts if "." in text))
