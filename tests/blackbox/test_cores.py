"""Several cores as real processes over PostgreSQL: what befalls some of them, clients do not notice."""

from collections import Counter
from pathlib import Path

from bench.cores import trial


def test_one_core_killed_and_one_stalled(postgres_url: str, tmp_path: Path) -> None:
    outcome = trial(150, postgres_url, tmp_path)
    assert outcome.codes == Counter({"200": 150})
    assert outcome.errors == 0
    # What was tried at two cores has one ggrid, one record and one answer.
    assert outcome.ggrids == outcome.records == 150
    assert outcome.again >= 1
    assert outcome.before == "GREEN"
    assert set(outcome.meanwhile) == {"YELLOW"}
