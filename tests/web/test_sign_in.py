"""Signing in and out: guessing, lock-out, second factor, fixation, and where one is sent then."""

from typing import Any

import httpx
import msgspec
import pytest
from tests.web.strangers import code_of, enter, post

from gatepost.ids import new_id
from gatepost.store.audit import CLI
from gatepost.store.sessions import SignInAttempt
from gatepost.store.users import Credentials, User
from gatepost.web import credentials
from gatepost.web.pages.sign_in import _describe_refusal
from gatepost.web.request import COOKIE_NAME

WRONG = "Name or password is wrong"


def cookie_of(answer: httpx.Response) -> str:
    given: str = answer.headers["set-cookie"]
    return given.partition(";")[0]


def opens(site: Any, cookie: str, path: str = "/account") -> bool:
    return httpx.get(site.url + path, headers={"Cookie": cookie}, trust_env=False).status_code == 200


def test_the_cookie_is_for_this_host_over_tls_and_not_for_scripts(site: Any, somebody: str) -> None:
    given = enter(site, somebody, site.password).headers["set-cookie"]
    for word in ("__Host-gatepost=", "Secure", "HttpOnly", "SameSite=lax", "Path=/"):
        assert word in given
    assert "Domain" not in given


def test_a_name_in_any_case_opens(site: Any, somebody: str) -> None:
    assert enter(site, somebody.upper(), site.password).status_code == 303


@pytest.mark.parametrize("password", ["", "wrong", "x" * 5000, "four quiet words her", "\0"])
def test_a_wrong_password_opens_nothing_and_says_nothing(site: Any, somebody: str, password: str) -> None:
    answer = enter(site, somebody, password)
    unknown = enter(site, f"nobody {new_id()}", password)
    assert answer.status_code == unknown.status_code == 401
    assert WRONG in answer.text
    assert WRONG in unknown.text
    assert "set-cookie" not in answer.headers


def test_who_is_shut_out_does_not_get_in(site: Any, somebody: str) -> None:
    session = cookie_of(enter(site, somebody, site.password))
    assert opens(site, session)
    user = site.known(somebody).user
    site.run(site.store.users.update(user.uid, by=CLI, disabled=True))
    assert not opens(site, session)
    assert enter(site, somebody, site.password).status_code == 401


def test_a_planted_cookie_is_never_let_in(site: Any, somebody: str) -> None:
    """Session fixation: the secret that was there before signing in is not the one that counts after."""
    planted = f"{COOKIE_NAME}=planted-by-somebody-else"
    given = cookie_of(enter(site, somebody, site.password, planted))
    assert given != planted
    assert cookie_of(enter(site, somebody, site.password, given)) != given
    assert opens(site, given)
    assert not opens(site, planted)


def test_signing_out_ends_the_session_for_good(site: Any, somebody: str) -> None:
    visitor = site.enter(somebody)
    answer = visitor.post("/sign-out")
    assert site.went(answer) == "/sign-in signed-out"
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert visitor.get("/account").status_code == 303


@pytest.mark.parametrize(
    ("wanted", "then"),
    [
        ("/messages?verdict=spam", "/messages?verdict=spam"),
        ("", "/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/%0d%0aSet-Cookie:x=1", "/%0d%0aSet-Cookie:x=1"),
        ("/x\r\nSet-Cookie: x=1", "/"),
        ("javascript:alert(1)", "/"),
        *((each, "/") for each in ("/a\nb", "/\t/evil.example", "/sign-in", "a\rb")),
    ],
)
def test_one_is_sent_on_to_our_own_pages_only(site: Any, somebody: str, wanted: str, then: str) -> None:
    answer = enter(site, somebody, site.password, next=wanted)
    assert answer.headers["location"] == then
    assert answer.headers.get_list("set-cookie")[0].startswith(COOKIE_NAME)


def test_a_page_that_was_asked_for_comes_after_signing_in(site: Any) -> None:
    answer = httpx.get(f"{site.url}/messages?verdict=spam", headers={"Accept": "text/html"}, trust_env=False)
    assert answer.headers["location"] == "/sign-in?next=%2Fmessages%3Fverdict%3Dspam"


def test_with_a_second_factor_the_password_alone_opens_nothing(site: Any, somebody: str) -> None:
    secret = credentials.new_totp_secret()
    user = site.known(somebody).user
    site.run(site.store.second_factors.set_totp(user.uid, secret, CLI))
    half = enter(site, somebody, site.password)
    assert half.status_code == 200
    assert 'name="code"' in half.text
    weak = cookie_of(half)
    assert not opens(site, weak)
    code = code_of(secret)
    wrong = str((int(code) + 1) % 10**6).zfill(6)
    assert post(site, "/sign-in/code", {"code": wrong}, weak).status_code == 401
    answer = post(site, "/sign-in/code", {"code": f"{code[:3]} {code[3:]}"}, weak)
    assert answer.status_code == 303
    strong = cookie_of(answer)
    assert strong != weak
    assert opens(site, strong)
    assert not opens(site, weak)
    again = cookie_of(enter(site, somebody, site.password))
    assert post(site, "/sign-in/code", {"code": code}, again).status_code == 401, "no code opens twice"


def test_codes_are_those_of_the_standard() -> None:
    """RFC 6238, appendix B, cut to six digits."""
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    for moment, code in ((59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")):
        assert credentials.totp_code(secret, moment // credentials.TOTP_SECONDS) == code
        assert (
            credentials.match_totp_code(secret, code, moment + credentials.TOTP_SECONDS)
            == moment // credentials.TOTP_SECONDS
        )
        assert credentials.match_totp_code(secret, code, moment + 2 * credentials.TOTP_SECONDS) is None
    assert credentials.match_totp_code(secret, "²87082", 59) is None


def test_the_qr_code_is_read_as_the_address() -> None:
    import zxingcpp
    from PIL import Image, ImageDraw

    secret = credentials.new_totp_secret()
    drawn = credentials.totp_qr_code(secret, "ann & co")
    image = Image.new("L", (drawn.size * 8, drawn.size * 8), 255)
    pen = ImageDraw.Draw(image)
    for piece in drawn.path.split("M")[1:]:
        place, wide, high = (piece.rstrip("Z").partition("h")[0], *piece.rstrip("Z").partition("h")[2].split("v")[:2])
        x, y = (int(number) for number in place.split())
        pen.rectangle([x * 8, y * 8, (x + int(wide)) * 8 - 1, (y + int(high.partition("h")[0])) * 8 - 1], fill=0)
    read = zxingcpp.read_barcode(image)
    assert read
    assert read.text == credentials.totp_uri(secret, "ann & co")


def test_what_is_told_of_a_refusal() -> None:
    """Nobody's name is told, a lock is, and so is an attempt that met one."""
    ann = User("0198a000-0000-7000-8000-000000000001", "ann", "analyst", None, 1)
    found = Credentials(ann, "hash")
    nobody = _describe_refusal(None, "192.0.2.1", None, "password")
    assert (nobody.user, nobody.reason, nobody.locked_until) == (None, "password", None)
    attempt = SignInAttempt(ann.uid, (("account", 0), ("address:192.0.2.1", 0)))
    first = _describe_refusal(found, "192.0.2.1", attempt, "password")
    assert (first.user, first.reason, first.locked_until) == ("ann", "password", None)
    last = SignInAttempt(ann.uid, (("account", 0), ("address:192.0.2.1", 1_900_000_000_000)))
    locking = _describe_refusal(found, "192.0.2.1", last, "code")
    assert (locking.reason, locking.locked_until) == ("code", "2030-03-17T17:46:40.000Z")
    assert _describe_refusal(found, "192.0.2.1", None, "password").reason == "locked"
    disabled = Credentials(msgspec.structs.replace(ann, disabled=True), "hash")
    assert _describe_refusal(disabled, "192.0.2.1", None, "password").reason == "disabled"
