"""Documents built by hand, so that each test says what is in its own."""

from collections.abc import Callable

import pytest
from tests.files.compound_files import Compounds, make_compound, make_project


@pytest.fixture(scope="session")
def compound() -> Compounds:
    return make_compound


@pytest.fixture(scope="session")
def project() -> Callable[..., dict[str, bytes]]:
    return make_project
