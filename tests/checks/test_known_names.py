"""What is known of the world."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks import known_names as known


def test_lists_are_not_empty_and_in_normal_form() -> None:
    assert len(known.BRANDS) > 250
    for name in (*known.OWNED, *known.EVERYWHERE, *known.NEARBY):
        assert name == name.strip().lower()


def test_every_brand_is_found_by_its_name_and_owns_its_domains() -> None:
    for brand in known.BRANDS:
        assert brand.label
        assert brand.domains or brand.everywhere, brand.name
        assert any(mention.brand.label == brand.label for mention in known.find_brands(brand.name)), brand.name
        assert all(known.owns(brand, f"mail.{domain}") for domain in brand.domains), brand.name


@pytest.mark.parametrize(
    ("domain", "genuine"),
    [
        ("paypal.com", True),
        ("mail.paypal.com", True),
        ("amazon.co.jp", True),
        ("irs.gov", True),
        ("paypal.com.evil.test", False),
        ("notpaypal.com", False),
        ("amazon.evil.test", False),
        ("", False),
    ],
)
def test_genuine(domain: str, genuine: bool) -> None:
    assert known.is_genuine(domain) == genuine


@pytest.mark.parametrize(
    ("domain", "exists"),
    [("corp.com", True), ("corp.co.za", True), ("x.com.np", True), ("corp.zoz", False), ("corp.h5ph", False)],
)
def test_endings(domain: str, exists: bool) -> None:
    assert known.ending_exists(domain) == exists


def test_places() -> None:
    assert known.is_freemail("gmail.com")
    assert not known.is_freemail("mail.gmail.com")
    assert known.is_tenant("shop.zendesk.com")
    assert known.is_shortener("bit.ly")
    assert known.is_hosted_page("x.github.io")
    assert known.is_form_service("x.typeform.com")


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12), min_size=1))
def test_words_of_many_lines_are_those_of_each(lines: list[str]) -> None:
    assert known.list_words_of_lines("\n".join(lines)) == [known.list_words(line) for line in lines]


@given(st.lists(st.text("Ann Lee'-1_", max_size=12), min_size=1))
def test_words_of_many_plain_lines_are_those_of_each(lines: list[str]) -> None:
    assert known.list_words_of_lines("\n".join(lines)) == [known.list_words(line) for line in lines]
