"""Files that a YARA rule of the operator matches. What a rule is worth, the operator knows: policy says it."""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

YARA = Kind("file:yara", "A file matches a YARA rule of the operator")
KINDS = (YARA,)
NEEDS = frozenset({"trait"})


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait in file.traits:
            if trait.name == "yara":
                source, _, rule = trait.detail.rpartition(": ")
                yield YARA.at(file.path, about=file.sha256, rule=rule, source=source)
