"""Storage of either engine, and jobs of a pool."""

from pathlib import Path

import pytest

from gatepost.analysis.report import Report
from gatepost.mail.message import Envelope
from gatepost.scanning.spool import BytesBody
from gatepost.workers.jobs import Job
from gatepost.workers.protocol import JUDGE


def job(ggrid: str = "a", envelope: Envelope | None = None, raw: bytes = b"") -> Job[Report]:
    return Job(JUDGE, ggrid, envelope or Envelope(tenant="t"), BytesBody(raw), 0.0)


both_engines = pytest.mark.parametrize("storage_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:{tmp_path / 'g.db'}"
    return str(request.getfixturevalue("postgres_url"))
