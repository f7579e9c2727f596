"""Whatever a document says, it becomes settings or mistakes with a line and a sentence."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.settings.document import parse_document
from gatepost.settings.faults import validate
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section

MODELS: list[type[Section]] = [GuardSettings, AbbySettings, *Section.__subclasses__()]
KEYS = sorted({str(field.alias) for model in MODELS for field in model.model_fields.values()})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 1 << 70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["off", "sqlite:x", "https://h:1", "127.0.0.1", "held", "messages.read"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "junk", ""]), inner, max_size=6)
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("model", [GuardSettings, AbbySettings])
@given(data=VALUES)
def test_every_document_has_a_meaning_or_mistakes(model: type[Section], data: Any) -> None:
    document = parse_document(json.dumps(data, indent=1).encode())
    settings, mistakes = validate(model, document, "/nowhere")
    assert (settings is None) == bool(mistakes)
    for mistake in mistakes:
        assert mistake.line >= 1
        assert "is not right: " not in mistake.sentence, "every kind of fault has a sentence of its own"
