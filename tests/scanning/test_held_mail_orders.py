import msgspec
import pytest

from gatepost.api.errors import Failure
from gatepost.guard.quarantine.orders import PATHS, LookOrder, PictureOrder, order
from gatepost.ids import new_id

GGRID = new_id()
BY = {"kind": "user", "name": "ann"}


@pytest.mark.parametrize("path", sorted(PATHS))
def test_every_path_takes_its_order(path: str) -> None:
    encoded = msgspec.json.encode({"ggrid": GGRID, "by": BY, "index": 0, "tenant": "t"})
    assert isinstance(order(path, encoded), PATHS[path])


def test_an_order_says_which() -> None:
    assert order("/look", msgspec.json.encode(LookOrder(GGRID, "t"))) == LookOrder(GGRID, "t")
    assert order("/picture", msgspec.json.encode(PictureOrder(GGRID, 3))) == PictureOrder(GGRID, 3, None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/look", {}),
        ("/look", {"ggrid": GGRID, "tenant": 1}),
        ("/picture", {"ggrid": GGRID}),
        ("/picture", {"ggrid": GGRID, "index": -1}),
        ("/picture", {"ggrid": GGRID, "index": 1 << 40}),
        ("/export", {"ggrid": GGRID}),
        ("/delete", {"ggrid": GGRID, "by": {"kind": "root"}}),
        ("/release", {"ggrid": GGRID, "by": BY, "recipients": "a@b.example"}),
    ],
)
def test_what_is_no_order(path: str, body: object) -> None:
    assert isinstance(order(path, msgspec.json.encode(body)), Failure)
