"""QR codes among the files of a message: in pictures, on pages, drawn in text, and cut into several pictures.

A code that is cut in two, with the halves side by side in the mail, is whole to a telephone and in no picture. Small
pictures of the same height or width that follow each other are put together and looked at once more.
"""

from itertools import pairwise

import msgspec
from PIL import Image

from gatepost.files.drawn_codes import find_drawn_codes, may_draw_code
from gatepost.files.pictures import (
    decode_small,
    find_codes,
    find_codes_in_drawing,
    find_codes_in_image,
    find_codes_in_pages,
    is_picture,
    make_code_contents,
)
from gatepost.files.values import Contents, File, Trait, UnpackBudget

MAX_PIECES = 8
MAX_JOINED = 8
MAX_TEXTS = 3
SLACK = 2
_FINDERS = {"pdf": find_codes_in_pages, "svg": find_codes_in_drawing}


def find_qr_codes(files: tuple[File, ...], budget: UnpackBudget | None = None) -> tuple[File, ...]:
    """Return the files, with traits and links added to those that show QR codes; the same bytes are looked at once."""
    budget = budget or UnpackBudget()
    known: dict[str, Contents] = {}
    seen: list[File] = []
    pieces: list[int] = []
    texts = 0
    for file in files:
        found = known.get(file.sha256)
        if found is None:
            if is_picture(file):
                found = find_codes_in_image(file, budget)
            elif finder := _FINDERS.get(file.type):
                found = finder(file, budget)
            elif may_draw_code(file):
                texts += 1
                found = _find_in_text(file) if texts <= MAX_TEXTS else Contents(unread=("pixels",))
            else:
                seen.append(file)
                continue
            known[file.sha256] = found
        if is_picture(file) and not found.traits and not found.unread:
            pieces.append(len(seen))
        seen.append(_add_findings(file, found))
    for place, found in _join_pieces(seen, pieces[:MAX_PIECES]) if len(pieces) > 1 else ():
        seen[place] = _add_findings(seen[place], found)
    return tuple(seen)


def _find_in_text(file: File) -> Contents:
    codes, drawn = find_drawn_codes(file)
    found = make_code_contents(codes, file.path)
    if not drawn:
        return found
    return msgspec.structs.replace(found, traits=(*found.traits, Trait("drawn-code", "cells or characters")))


def _join_pieces(files: list[File], pieces: list[int]) -> list[tuple[int, Contents]]:
    """Return what is found in neighbouring pictures that are put together, each with the place of the first."""
    images = {place: image for place in pieces if (image := decode_small(files[place])) is not None}
    places = list(images)
    groups = [list(pair) for pair in pairwise(places)]
    groups += [places[start : start + 4] for start in range(len(places) - 3)]
    found: list[tuple[int, Contents]] = []
    for group in groups[: 2 * MAX_JOINED]:
        for image in _arrange([images[place] for place in group]):
            if codes := find_codes(image):
                contents = make_code_contents(codes, files[group[0]].path)
                trait = Trait("drawn-code", f"{len(group)} pictures")
                found.append((group[0], msgspec.structs.replace(contents, traits=(*contents.traits, trait))))
                return found
    return found


def _arrange(images: list[Image.Image]) -> list[Image.Image]:
    """Return the pictures put together side by side, one above the other, or as a square of four."""
    first = images[0]
    is_level = all(abs(image.height - first.height) <= SLACK for image in images)
    is_upright = all(abs(image.width - first.width) <= SLACK for image in images)
    if len(images) == 4:
        places = [(0, 0), (first.width, 0), (0, first.height), (first.width, first.height)]
        return [_paste(images, places)] if is_level and is_upright else []
    found = []
    if is_level:
        found.append(_paste(images, [(0, 0), (first.width, 0)]))
    if is_upright:
        found.append(_paste(images, [(0, 0), (0, first.height)]))
    return found


def _paste(images: list[Image.Image], places: list[tuple[int, int]]) -> Image.Image:
    pairs = list(zip(images, places, strict=True))
    size = (max(x + image.width for image, (x, _) in pairs), max(y + image.height for image, (_, y) in pairs))
    paper = Image.new("L", (size[0] + 16, size[1] + 16), 255)
    for image, (x, y) in pairs:
        paper.paste(image, (x + 8, y + 8))
    return paper


def _add_findings(file: File, found: Contents) -> File:
    return msgspec.structs.replace(
        file,
        unread=tuple(dict.fromkeys((*file.unread, *found.unread))),
        traits=(*file.traits, *found.traits),
        links=(*file.links, *found.links),
        text=file.text or found.text,
    )
