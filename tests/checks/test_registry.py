"""What checks say that they look at is what decides whether they are called."""

from collections.abc import Iterator

import pytest

from gatepost.analysis import stages
from gatepost.analysis.analyse import analyse
from gatepost.analysis.stages import Context
from gatepost.checks.reading import Check, Reading
from gatepost.findings.kinds import Finding
from gatepost.mail.message import Envelope


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"Hello", ["always"]),
        (b"See http://a.example/", ["always", "links"]),
        (b"Your parcel is waiting for you", ["always", "parcels"]),
    ],
)
def test_a_check_is_called_only_where_it_has_something_to_look_at(
    body: bytes, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def noting(name: str, **waits: frozenset[str]) -> Check:
        def check(_: Reading) -> Iterator[Finding]:
            called.append(name)
            return iter(())

        return Check(name, (), check, **waits)

    links, parcels = noting("links", needs=frozenset({"link"})), noting("parcels", themes=frozenset({"parcel"}))
    monkeypatch.setattr(stages, "CHECK_STAGES", stages.name_stages((noting("always"), links, parcels)))
    monkeypatch.setattr(stages, "compile_checks", stages.compile_checks.__wrapped__)
    with pytest.raises(StopIteration):
        next(analyse(b"Subject: x\n\n" + body, Envelope(), Context(now=0)))
    assert called == expected
