"""The numbers that make a finding stronger or weaker: `strengths.toml`, read once and held to what checks ask for.

Policy gives a kind its weight; a check that sees degrees scales it by a strength between 0 and 1. The numbers of that
calculation are data, named and described, so that `gatepost policy explain` can show the whole sum. A check takes them
as constants when it is imported: `_PER_WORD, _LEAST = coefficients(TEXT_X, "per_word", "least")`.
"""

from collections.abc import Container, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from gatepost.findings.kinds import BY_ID, Kind
from gatepost.process.kept_results import read_toml

FILE = "strengths.toml"
_FORMULA = "strength"
_SHARES = "shares"


class StrengthsError(ValueError):
    """The file and a check do not agree on the numbers of a kind, or the file has a fault."""


class Coefficient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number of a calculation, and what it stands for."""

    value: float
    about: str


class Calculation(msgspec.Struct, frozen=True):
    """How the strength of a kind is calculated: in words, by its own numbers, and by the tables that it shares."""

    name: str
    formula: str
    coefficients: Mapping[str, Coefficient]
    shares: tuple[str, ...] = ()


def parse(text: str) -> dict[str, Calculation]:
    """Read calculations from TOML; a fault is a `StrengthsError` that names its table."""
    return parse_tables(msgspec.toml.decode(text, type=dict[str, dict[str, Any]]), BY_ID)


def parse_tables(
    tables: Mapping[str, Mapping[str, Any]], kinds: Container[str], file: str = FILE
) -> dict[str, Calculation]:
    """Read calculations for these kinds from the tables of a file; raises `StrengthsError`."""
    found = {name: _parse_table(name, table, file) for name, table in tables.items()}
    for name, calculation in found.items():
        if ":" in name and name not in kinds:
            raise StrengthsError(f"{file}: [{name}] is no kind of finding")
        for shared in calculation.shares:
            if shared not in found or ":" in shared:
                raise StrengthsError(f"{file}: [{name}] shares {shared!r}, which is no shared table")
    return found


def _parse_table(name: str, table: Mapping[str, Any], file: str) -> Calculation:
    try:
        formula = msgspec.convert(table.get(_FORMULA), str)
        shares = msgspec.convert(table.get(_SHARES, ()), tuple[str, ...])
        numbers = {key: value for key, value in table.items() if key not in (_FORMULA, _SHARES)}
        return Calculation(name, formula, msgspec.convert(numbers, dict[str, Coefficient]), shares)
    except msgspec.ValidationError as fault:
        raise StrengthsError(f"{file}: [{name}] {fault}") from None


@cache
def calculations() -> Mapping[str, Calculation]:
    """Return every calculation of the shipped file by the name of its table; the file is read at the first call."""
    return parse_tables(read_toml(files("gatepost.findings").joinpath(FILE), __file__), BY_ID)


def coefficients(of: Kind | str, *names: str) -> tuple[float, ...]:
    """Return the numbers of a kind, or of a shared table, in the order of `names`, which have to be all there are."""
    return take_coefficients(calculations(), of, names)


def take_coefficients(
    found: Mapping[str, Calculation], of: Kind | str, names: Sequence[str], file: str = FILE
) -> tuple[float, ...]:
    """Return the numbers of one of these calculations, in the order of `names`, which have to be all there are."""
    table = of.id if isinstance(of, Kind) else of
    if table not in found:
        raise StrengthsError(f"{file} has no table [{table}]")
    stated = found[table].coefficients
    if missing := [name for name in names if name not in stated]:
        raise StrengthsError(f"{file}: [{table}] lacks {', '.join(missing)}")
    if unused := [name for name in stated if name not in names]:
        raise StrengthsError(f"{file}: [{table}] has {', '.join(unused)}, which no check uses")
    return tuple(stated[name].value for name in names)


def explain(kind: str, found: Mapping[str, Calculation] | None = None) -> tuple[Calculation, ...]:
    """Return the calculation of a kind and those that it shares; nothing for a kind that always has strength 1.
    `found` are calculations of a plug-in, in place of the shipped ones."""
    known = calculations() if found is None else found
    own = known.get(kind)
    return (own, *(known[shared] for shared in own.shares)) if own else ()
