"""The ways in which people use the pages: on a desk or on a phone, with scripts or without."""

import pytest

WAYS = [
    ("desktop", True),
    ("phone", False),
    pytest.param("desktop", False, marks=pytest.mark.wide),
    pytest.param("phone", True, marks=pytest.mark.wide),
]
