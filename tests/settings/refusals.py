"""What is said of configuration files that are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.settings.faults import ConfigError, Fault


def find_faults(load: Callable[..., object], folder: Path, **options: bool) -> tuple[Fault, ...]:
    """The faults of the files in a folder, which must have some."""
    with pytest.raises(ConfigError) as refused:
        load(folder, **options)
    return refused.value.faults
