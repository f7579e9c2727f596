"""Orders on held mail between abby and a core: each path takes its own, and nothing else."""

from typing import Any

import msgspec
import pytest

from gatepost.api.errors import Failure
from gatepost.ids import new_id
from gatepost.scanning.held_mail import (
    ORDERS,
    HeldMailOrder,
    NotSent,
    PictureOrder,
    ReleaseOrder,
    ViewOrder,
    read_order,
)
from gatepost.store.audit import Actor

GGRID = new_id()
BY = {"kind": "user", "name": "ann"}


@pytest.mark.parametrize("kind", ORDERS)
def test_every_path_takes_its_order(kind: type[HeldMailOrder[Any]]) -> None:
    named = {"ggrid": GGRID, "by": BY, "index": 0, "tenant": "t", "recipient": "a@b.example"}
    assert isinstance(read_order(kind.path, msgspec.json.encode(named)), kind)


def test_an_order_says_which() -> None:
    look, picture = ViewOrder(GGRID, "t"), PictureOrder(GGRID, index=3)
    assert read_order("/look", msgspec.json.encode(look)) == look
    assert read_order("/picture", msgspec.json.encode(picture)) == picture


def test_the_wire_form_stays_as_it_is() -> None:
    """abby and the cores are of different versions during an upgrade."""
    assert [kind.path for kind in ORDERS] == [
        "/release",
        "/release-to-recipient",
        "/look",
        "/picture",
        "/html",
        "/export",
        "/delete",
    ]
    order = ReleaseOrder(GGRID, by=Actor("user", "ann", "7"), recipients=("a@b.example",))
    assert msgspec.to_builtins(order) == {
        "ggrid": GGRID,
        "by": {"kind": "user", "name": "ann", "id": "7"},
        "recipients": ("a@b.example",),
        "tenant": None,
        "anywhere": False,
        "dangerous": False,
    }
    # A core of the version before says less of a refusal, and abby of that version asks for less.
    assert msgspec.json.decode(b'{"type": "notSent", "reason": "x"}', type=NotSent) == NotSent("x", forbidden=False)
    assert not msgspec.convert({"ggrid": GGRID, "by": BY, "recipients": ["a@b.example"]}, ReleaseOrder).anywhere
    assert msgspec.to_builtins(PictureOrder(GGRID, "t", index=3)) == {"ggrid": GGRID, "index": 3, "tenant": "t"}


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
    assert isinstance(read_order(path, msgspec.json.encode(body)), Failure)
