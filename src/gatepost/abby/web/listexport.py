"""A whole list as a file, streamed: the same lines that the List API and the command line write."""

from collections.abc import Sequence

from starlette.responses import Response

from gatepost.abby.ndjson import Lines
from gatepost.abby.web.answers import HEADERS
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import place_of
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.listfiles import FORMATS, Format, heading, lines_of
from gatepost.api.lists_interface import NDJSON
from gatepost.store.entries import EntryRow

MEDIA_TYPES: dict[Format, str] = {
    "ndjson": NDJSON,
    "csv": "text/csv; charset=utf-8",
    "plain": "text/plain; charset=utf-8",
}
ENDINGS: dict[Format, str] = {"ndjson": "ndjson", "csv": "csv", "plain": "txt"}
UNKNOWN = Failure(INVALID_REQUEST, f"format: choose one of {', '.join(FORMATS)}")


class FileLines:
    """Writes the rows of one stream as lines of a file, in the thread that reads them."""

    def __init__(self, kind: Format) -> None:
        self._kind = kind
        self._lines = Lines()

    def __call__(self, rows: Sequence[EntryRow]) -> bytes:
        if self._kind == "ndjson":
            return self._lines(rows)
        return "".join(lines_of(self._lines.entries(rows), self._kind)).encode()


async def export(desk: Desk, visit: Visit) -> Response | Failure:
    """All entries, for the browser to save."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    kind = next((each for each in FORMATS if each == (visit.query.text("format") or "ndjson")), None)
    if kind is None:
        return UNKNOWN
    name = place.definition.name
    stream = await desk.exports.stream(place.scope, name, FileLines(kind), heading(kind).encode())
    if not isinstance(stream, Failure):
        stream.headers.update(HEADERS)
        stream.headers["Content-Type"] = MEDIA_TYPES[kind]
        stream.headers["Content-Disposition"] = f'attachment; filename="{name}.{ENDINGS[kind]}"'
    return stream


ROWS: tuple[Row, ...] = (Page("GET", "/lists/{scope}/{name}/export", export, "lists.read"),)
