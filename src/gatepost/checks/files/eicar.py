"""The EICAR test file: 68 harmless bytes that every scanner has agreed to treat as a virus.

Operators send it to see whether scanning works at all. In a file it counts wherever it stands; in the text of a
message only where the text starts with it, so that a letter which quotes the string is no virus.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import FILE_EICAR, Finding

# In two halves, so that this module is not itself a test virus.
SIGNATURE = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$" + rb"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"

KINDS = (FILE_EICAR,)


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        prose = not file.names and file.declared.startswith("text/")
        place = file.content[:200].lstrip().find(SIGNATURE) if prose else file.content.find(SIGNATURE)
        if place == 0 or (place > 0 and not prose):
            yield FILE_EICAR.at(file.path, about=file.sha256, sha256=file.sha256)
