"""A sealed reader that was taken over: it answers the orders of a run with a lie that the feed names."""

import sys
from typing import Any

import msgspec

from gatepost.process.sandbox import serve_sealed

ENTRY = {"key": "a.example", "shown": "a.example", "comment": "", "expires": None}
# What it says to the first question of that kind, and True to all others.
LIES: dict[str, tuple[str, Any]] = {
    "answer of another type": ("end", 5),
    "fault of another type": ("end", {"fault": 5}),
    "count as text": ("end", {"count": {"read": "1"}}),
    "count below zero": ("end", {"count": {"read": -1}}),
    "count that storage cannot hold": ("end", {"count": {"invalid": 1 << 63}}),
    "entries as text": ("entries", "a.example"),
    "key too long": ("entries", [{**ENTRY, "key": "x" * 2_000}]),
    "comment too long": ("entries", [{**ENTRY, "comment": "x" * 2_000}]),
    "NUL in an entry": ("entries", [{**ENTRY, "shown": "a\0b"}]),
    "end that storage cannot hold": ("entries", [{**ENTRY, "expires": 1 << 63}]),
    "end as text": ("entries", [{**ENTRY, "expires": "tomorrow"}]),
    "more entries than allowed": ("entries", [{**ENTRY, "key": str(each)} for each in range(11)]),
    "more than an answer may have": ("end", {"fault": "x" * (17 << 20)}),
}
HONEST: dict[str, Any] = {"end": {}, "entries": []}


def main() -> None:
    told = {"lie": ""}

    def answer(raw: bytes) -> bytes:
        order = msgspec.msgpack.decode(raw)
        kind = order["type"]
        if kind == "piece":
            told["lie"] = order["data"].decode()
        place, lie = LIES.get(told["lie"], ("", None))
        return msgspec.msgpack.encode(lie if place == kind else HONEST.get(kind, True))

    serve_sealed(answer, int(sys.argv[2]), 2 << 20)


if __name__ == "__main__":
    main()
