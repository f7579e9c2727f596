"""Several cores as real processes over PostgreSQL: what befalls some of them, clients do not notice."""

from collections import Counter
from pathlib import Path

import pytest
from bench.cores import trial


@pytest.mark.variant
@pytest.mark.parametrize("scans", [90, pytest.param(600, marks=pytest.mark.long)])
def test_one_core_killed_and_one_stalled(postgres_url: str, tmp_path: Path, scans: int) -> None:
    outcome = trial(scans, postgres_url, tmp_path)
    assert outcome.codes == Counter({"200": scans})
    assert outcome.errors == 0
    # What was tried at two cores has one ggrid, one record and one answer.
    assert outcome.ggrids == outcome.records == scans
    assert outcome.again >= 1
    assert outcome.before == "GREEN"
    assert set(outcome.meanwhile) == {"YELLOW"}
