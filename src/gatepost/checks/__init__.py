"""The registry: every check there is, in the order in which they run."""

from gatepost.findings import Check

CHECKS: tuple[Check, ...] = ()

TITLES: dict[str, str] = {kind.id: kind.title for check in CHECKS for kind in check.kinds}
