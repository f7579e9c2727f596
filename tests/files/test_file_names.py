"""Names as the programs that open a file understand them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.file_types import find_last_extensions, list_extensions
from gatepost.names import normal_file_name


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("invoice.js", "js"),
        ("invoice.js..", "js"),
        ("a.js .", "js"),
        ("a.js\u00a0", "js"),
        ("a.js\u3000.", "js"),
        ("a.js\u2800", "js"),
        ("a.js\u202c", "js"),
        ("\u202ea.js", "js"),
        ("a.j\u200bs", "js"),
        ("a．ｊｓ", "js"),
        ("a.js\0.txt", "js"),
        ("a.js::$DATA", "js"),
        ("a.js:readme.txt", "js"),
        ("A.JS;1", "js"),
        ("folder\\a.js", "js"),
        ('"a.js"', "js"),
        (".bat", "bat"),
        ("a.settingcontent-ms", "settingcontent-ms"),
        ("notes.txt", "txt"),
        ("Re: minutes.pdf", "pdf"),
    ],
)
def test_the_extension_by_which_a_file_is_opened(name: str, extension: str) -> None:
    assert find_last_extensions(name)[0] == extension


@pytest.mark.parametrize("name", ["", "README", "exe", "folder/", "..", " . ", "a:b"])
def test_names_without_an_extension(name: str) -> None:
    assert find_last_extensions(name) == ()


def test_a_name_that_is_too_long_keeps_its_end() -> None:
    assert find_last_extensions("invoice" + "s" * 5_000 + ".pdf.js") == ("js",)
    assert len(normal_file_name("\ufdfa" * 5_000)) <= 512


def test_all_extensions_the_last_one_first() -> None:
    assert list_extensions("invoice.pdf .JS.") == ("js", "pdf")


@given(st.text(max_size=200))
def test_any_text_has_a_normal_form_that_stays(name: str) -> None:
    once = normal_file_name(name)
    assert len(once) <= 3_000
    assert not once.endswith((" ", "."))
    assert isinstance(list_extensions(name), tuple)
