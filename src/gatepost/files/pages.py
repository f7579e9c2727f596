"""The first pages of a PDF, drawn and looked at for QR codes.

A code in a PDF may be a picture, a hundred small rectangles or a letter of a special font; drawn, they are all the
same. Pages are drawn in grey, at a size at which a telephone would still read the code.
"""

import pypdfium2  # type: ignore[import-untyped]
from PIL import Image

from gatepost.files import qr
from gatepost.files.budget import Budget
from gatepost.files.tree import Contents, File

MAX_PAGES = 2
MAX_SIDE = 1_200
MAX_SIZE = 10 << 20
_MAX_SCALE = 3.0


def look(file: File, budget: Budget) -> Contents:
    """The codes on the first pages. What cannot be opened is the PDF reader's to say."""
    if len(file.content) > MAX_SIZE:
        return Contents(unread=("pixels",))
    codes: dict[str, None] = {}
    try:
        document = pypdfium2.PdfDocument(file.content)
        try:
            for number in range(min(len(document), MAX_PAGES)):
                if not budget.another_image(MAX_SIDE * MAX_SIDE):
                    return qr.contents(codes, file.path, ("pixels",))
                codes.update(dict.fromkeys(qr.codes(_drawn(document, number))))
        finally:
            document.close()
    except (pypdfium2.PdfiumError, ValueError, OverflowError, ZeroDivisionError):
        pass
    return qr.contents(codes, file.path)


def _drawn(document: pypdfium2.PdfDocument, number: int) -> Image.Image:
    page = document[number]
    scale = min(MAX_SIDE / max(*page.get_size(), 1.0), _MAX_SCALE)
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    image: Image.Image = bitmap.to_pil().convert("L")
    return image
