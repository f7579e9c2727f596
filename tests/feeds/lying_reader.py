"""A sealed reader that was taken over: it answers the orders of a run with a lie that the feed names."""

import sys
from typing import Any

import msgspec

from gatepost.process.sandbox import serve_sealed

ENTRY = {"key": "a.example", "shown": "a.example", "comment": "", "expires": None}
# What it says to the first question of that kind, and True to all others.
LIES: dict[str, tuple[str, Any]] = {
    "part of another type": ("part", 5),
    "fault of another type": ("part", {"fault": 5}),
    "time that storage cannot hold": ("part", {"said": {"newest": 1 << 63}}),
    "count as text": ("summary", {"read": "1"}),
    "count below zero": ("summary", {"read": -1}),
    "count that storage cannot hold": ("summary", {"invalid": 1 << 63}),
    "entries as text": ("entries", "a.example"),
    "key too long": ("entries", [{**ENTRY, "key": "x" * 2_000}]),
    "comment too long": ("entries", [{**ENTRY, "comment": "x" * 2_000}]),
    "NUL in an entry": ("entries", [{**ENTRY, "shown": "a\0b"}]),
    "end that storage cannot hold": ("entries", [{**ENTRY, "expires": 1 << 63}]),
    "end as text": ("entries", [{**ENTRY, "expires": "tomorrow"}]),
    "more entries than allowed": ("entries", [{**ENTRY, "key": str(each)} for each in range(11)]),
    "revoked keys of another type": ("revoked", [5]),
    "revoked keys too long": ("revoked", ["x" * 2_000]),
    "more than an answer may have": ("part", {"fault": "x" * (17 << 20)}),
}
HONEST: dict[str, Any] = {"part": {}, "summary": {}, "entries": [], "revoked": []}


def main() -> None:
    told = {"lie": ""}

    def answer(raw: bytes) -> bytes:
        order = msgspec.msgpack.decode(raw)
        kind = "revoked" if order.get("revoked") else order["type"]
        if kind == "piece":
            told["lie"] = order["data"].decode()
        place, lie = LIES.get(told["lie"], ("", None))
        return msgspec.msgpack.encode(lie if place == kind else HONEST.get(kind, True))

    serve_sealed(answer, int(sys.argv[2]), 2 << 20)


if __name__ == "__main__":
    main()
