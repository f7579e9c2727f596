"""What tests share: the data folder beside the checkout, unpacked once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.corpus import NotPresentError, unpacked


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("conformance")` is the unpacked suite; without it the test is reported as not run."""

    def suite(name: str) -> Path:
        try:
            return unpacked(name)
        except NotPresentError as absence:
            pytest.skip(f"not run: {absence}")

    return suite
