"""QR codes (ISO/IEC 18004) in a picture, and the links in them."""

from collections.abc import Iterable

import zxingcpp
from PIL import Image

from gatepost.files.tree import Contents, Trait, Unread
from gatepost.mail.links import Links, targets_in
from gatepost.mail.message import Link

MAX_CODES = 20
MAX_TEXT = 4_096

_FORMATS = zxingcpp.BarcodeFormats(
    [zxingcpp.BarcodeFormat.QRCode, zxingcpp.BarcodeFormat.MicroQRCode, zxingcpp.BarcodeFormat.RMQRCode]
)


def codes(image: Image.Image) -> list[str]:
    """The text of every code in a grey picture."""
    view = memoryview(image.tobytes()).cast("B", (image.height, image.width))
    found = zxingcpp.read_barcodes(view, formats=_FORMATS, text_mode=zxingcpp.TextMode.Plain)
    return [code.text[:MAX_TEXT] for code in found[:MAX_CODES] if code.text]


def contents(texts: Iterable[str], where: str, unread: tuple[Unread, ...] = ()) -> Contents:
    """That there are codes, what they say, and every link that a telephone would open."""
    return Contents((), tuple(Trait("qr-code", text) for text in texts), _links(texts, where), unread)


def _links(texts: Iterable[str], where: str) -> tuple[Link, ...]:
    found = Links()
    for text in texts:
        for target in targets_in(text):
            found.add(target, where, "qr")
    return tuple(found)
