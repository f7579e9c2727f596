"""Messages with what they really were, kept for the next training: one file each, by the hash of its bytes.

Nothing is read here: whoever keeps a message must not have to parse it.
"""

import hashlib
from pathlib import Path

FOLDER = "feedback"


def keep(data: Path, raw: bytes, wanted: bool) -> str:
    """Keep one message under the data folder; it replaces what was said of it before. Returns the file's name."""
    name = f"{hashlib.sha256(raw).hexdigest()}.eml"
    place, other = (data / FOLDER / side for side in (("ham", "spam") if wanted else ("spam", "ham")))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = place / f".{name}"
    fresh.write_bytes(raw)
    fresh.replace(place / name)
    (other / name).unlink(missing_ok=True)
    return name
