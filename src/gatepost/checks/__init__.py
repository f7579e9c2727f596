"""The registry: every check there is, in the order in which they run.

A check is a module with `KINDS`, the things it can find, and `check`, a pure function from a Reading to findings.
Nothing registers itself: what runs is what stands in `CHECKS`.
"""

from types import ModuleType

from gatepost.checks import (
    archives,
    authentication,
    disguise,
    display_name,
    dmarc,
    eicar,
    executable,
    homograph,
    link_text,
    newsletter,
    numeric_host,
    structure,
)
from gatepost.findings import Check


def _registered(module: ModuleType) -> Check:
    return Check(module.__name__.rpartition(".")[2], module.KINDS, module.check)


CHECKS: tuple[Check, ...] = tuple(
    _registered(module)
    for module in (
        structure,
        authentication,
        dmarc,
        display_name,
        homograph,
        link_text,
        numeric_host,
        newsletter,
        eicar,
        archives,
        executable,
        disguise,
    )
)

TITLES: dict[str, str] = {kind.id: kind.title for check in CHECKS for kind in check.kinds}
