"""What the antivirus beside Gatepost says.

Its signatures name a piece of malware. Its heuristics ("Heuristics.Encrypted.Zip") and lists of unwanted programs
("PUA.") are wrong often enough that they only raise suspicion.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

FOUND = Kind("file:antivirus", "The antivirus knows this malware")
SUSPECTED = Kind("file:antivirus-heuristic", "The antivirus suspects something")
UNASKED = Kind("limit:antivirus", "The antivirus could not be asked")
KINDS = (FOUND, SUSPECTED, UNASKED)
NEEDS = frozenset({"antivirus"})

_GUESSES = ("Heuristics.", "PUA.")


def check(reading: Reading) -> Iterator[Finding]:
    said = reading.antivirus
    if said.status == "found":
        kind = SUSPECTED if said.detail.startswith(_GUESSES) else FOUND
        yield kind.at("message", name=said.detail)
    elif said.status == "failed":
        yield UNASKED.at("message", reason=said.detail)
