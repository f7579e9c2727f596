"""Values of a parametrised test, of which `make test` takes some and `make test-variants` the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Every `step`-th value as it is, the others as variants."""
    return [
        value if number % step == 0 else pytest.param(value, marks=pytest.mark.variant)
        for number, value in enumerate(values)
    ]
