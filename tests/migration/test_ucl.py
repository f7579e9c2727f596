"""rspamd's configuration language, as far as local files use it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.migration.rspamd import MAX_DEPTH, UclError, UclObject, parse_ucl

DOCUMENT = """
# a comment
a = 1; b: "two \\"words\\"\\n"
c = three words # with a comment
list = [x, "y z", 5min];
section {
  inner { d = true }
  a = 1
  a = 2
}
named "one" { e = 1 }
named two { e = 2 }
/* a comment /* in a */ comment */
text = <<EOD
line one
line } two
EOD
.include "$CONFDIR/x.conf"
'quoted key' = 'single'
"""


def test_what_files_have() -> None:
    found = parse_ucl(DOCUMENT)
    assert (found.text("a"), found.text("b"), found.text("c")) == ("1", 'two "words"\n', "three words")
    assert found.texts("list") == ["x", "y z", "5min"]
    section = found.get("section")
    assert isinstance(section, UclObject)
    assert (section.text("a"), section.texts("a")) == ("2", ["1", "2"])
    assert [name for name, _, _ in section.sections()] == ["inner"]
    assert [inner.items[0][0] for name, inner, _ in found.sections() if name == "named"] == ["one", "two"]
    assert found.text("text") == "line one\nline } two"
    assert [(key, line) for key, _, line in found.items if key == ".include"] == [(".include", 18)]


def test_a_document_in_braces_is_json() -> None:
    found = parse_ucl('{"a": {"b": [1, 2, {"c": "d"}]}, "e": "f"}')
    inner = found.get("a")
    assert isinstance(inner, UclObject)
    assert inner.texts("b") == ["1", "2"]
    assert found.text("e") == "f"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a {", "line 1: a section that does not end"),
        ("\na = [1, 2", "line 2: a list that does not end"),
        ("a = <<EOD\nb", "line 1: a text that does not end with EOD"),
        ("/* a", "line 1: a comment that does not end"),
        ("a = [ } ]", "line 1: '}' in a list"),
        ("= b", "line 1: '=' where a key should be"),
        ("a {" * (MAX_DEPTH + 2), f"line 1: sections deeper than {MAX_DEPTH}"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UclError) as refused:
        parse_ucl(text)
    assert str(refused.value) == said


@given(st.text(alphabet='ab={}[]";:,#/*\n\\<EOD .', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_ucl(text)
    except UclError:
        pass


PIECES = ("a = b;\n", "a { b }\n", "[", "{", '"a', "/*", "/* */", "<<A\n", "a ", "#\n", "a = [1,")


@pytest.mark.parametrize("piece", PIECES)
def test_long_repeats_end(piece: str) -> None:
    """Quadratic work on a text of this length would take minutes."""
    try:
        parse_ucl(piece * 40_000)
    except UclError:
        pass
