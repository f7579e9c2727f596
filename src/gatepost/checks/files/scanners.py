"""What scanners beside Gatepost say: the antivirus, and the operator's YARA rules.

The antivirus names a piece of malware by its signature. Its heuristics ("Heuristics.Encrypted.Zip") and its lists of
unwanted programs ("PUA.") are wrong often enough that they only raise suspicion. What a YARA rule is worth, its
operator knows: policy says it.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import FILE_ANTIVIRUS, FILE_ANTIVIRUS_HEURISTIC, FILE_YARA, LIMIT_ANTIVIRUS, Finding

KINDS = (FILE_ANTIVIRUS, FILE_ANTIVIRUS_HEURISTIC, LIMIT_ANTIVIRUS, FILE_YARA)
NEEDS = frozenset({"antivirus", "trait"})

_GUESSES = ("Heuristics.", "PUA.")


def check(reading: Reading) -> Iterator[Finding]:
    answer = reading.antivirus
    if answer.status == "found":
        kind = FILE_ANTIVIRUS_HEURISTIC if answer.detail.startswith(_GUESSES) else FILE_ANTIVIRUS
        yield kind.at("message", name=answer.detail)
    elif answer.status == "failed":
        yield LIMIT_ANTIVIRUS.at("message", reason=answer.detail)
    for file in reading.files:
        for match in file.seen("yara"):
            source, _, rule = match.rpartition(": ")
            yield FILE_YARA.at(file.path, about=file.sha256, rule=rule, source=source)
