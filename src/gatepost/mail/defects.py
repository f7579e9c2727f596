"""Everything that can be odd about a message's form: the closed set of kinds that a `Defect` can have.

`mime:` kinds are ambiguities or faults, `html:` kinds are HTML that acts; `limit:` kinds say that something was not
read because a budget ran out.
"""

from gatepost.kinds import (
    BY_ID,
    LIMIT_ADDRESSES,
    LIMIT_ALTERNATIVES,
    LIMIT_BOUNDARIES,
    LIMIT_DECODED_SIZE,
    LIMIT_DEFECTS,
    LIMIT_DEPTH,
    LIMIT_ENCODED_WORDS,
    LIMIT_HEADER_FIELDS,
    LIMIT_HEADER_SIZE,
    LIMIT_HTML_ATTRIBUTES,
    LIMIT_HTML_DEPTH,
    LIMIT_HTML_PARTS,
    LIMIT_HTML_SIZE,
    LIMIT_LINKS,
    LIMIT_PARTS,
    LIMIT_TEXT_SIZE,
    TEXT_BIDI_OVERRIDE,
    TEXT_HIDDEN,
    TEXT_INVISIBLE_CHARACTERS,
    Kind,
)

DEFECTS: tuple[Kind, ...] = (
    *(kind for kind in BY_ID.values() if kind.id.startswith(("mime:", "html:"))),
    TEXT_BIDI_OVERRIDE,
    TEXT_HIDDEN,
    TEXT_INVISIBLE_CHARACTERS,
    LIMIT_ADDRESSES,
    LIMIT_ALTERNATIVES,
    LIMIT_BOUNDARIES,
    LIMIT_DECODED_SIZE,
    LIMIT_DEFECTS,
    LIMIT_DEPTH,
    LIMIT_ENCODED_WORDS,
    LIMIT_HEADER_FIELDS,
    LIMIT_HEADER_SIZE,
    LIMIT_HTML_ATTRIBUTES,
    LIMIT_HTML_DEPTH,
    LIMIT_HTML_PARTS,
    LIMIT_HTML_SIZE,
    LIMIT_LINKS,
    LIMIT_PARTS,
    LIMIT_TEXT_SIZE,
)
