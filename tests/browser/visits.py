"""How people visit the pages: on a desk or on a phone, with scripts or without."""

import pytest

VISITS = [
    ("desktop", True),
    pytest.param("phone", False, marks=pytest.mark.variant),
    pytest.param("desktop", False, marks=pytest.mark.variant),
    pytest.param("phone", True, marks=pytest.mark.variant),
]
