"""The readers of what operators type, and of what feeds, providers and clients of the APIs send, as functions of bytes
that return a value which can be compared."""

from collections.abc import Coroutine, Iterator
from functools import cache
from typing import Any

import msgspec
from joserfc import jws
from joserfc.jwk import ECKey

from bench.fuzz.readers import NOW, Run, decode_text
from gatepost.abby import held_mail, lists, messages
from gatepost.abby.scan import read_parameters
from gatepost.auth.dmarc_record import ReportUri, parse_report_uris
from gatepost.drop_in.protocols import Rspamd, Spamd
from gatepost.drop_in.requests import Head, Refusal
from gatepost.feeds import sealed_reading
from gatepost.feeds.sealed_reading import FeedFault, FeedItems, FeedPlan
from gatepost.lists.catalogue import BY_NAME
from gatepost.policy.conditions import ConditionError, describe_file, evaluate, find_fault, make_variables
from gatepost.settings.keys import OpenidConnectSettings
from gatepost.smtp.sender_rewriting import SenderRewriting
from gatepost.store.message_index import match_rows, parse_term
from gatepost.store.search_conditions import MESSAGE_ROWS, needs_record, row_condition
from gatepost.store.search_language import SearchFault, SearchPlace, complete, parse_search
from gatepost.store.second_factors import SecurityKey
from gatepost.web.forms import Form, parse_query, read_unsent
from gatepost.web.openid import (
    TokenError,
    describe_identity,
    find_access,
    verify_id_token,
    verify_logout_token,
)
from gatepost.web.openid_keys import SigningKey
from gatepost.web.second_factors import Assertion, RelyingParty, encode, verify_assertion, verify_new_key

_FEED_LISTS = ("blocked-urls", "blocked-senders", "blocked-ips", "blocked-files", "blocked-phrases")


def read_rewritten(data: bytes) -> tuple[str, str | None, bool]:
    """Rewrite a sender and reverse it; what was rewritten here is what comes back."""
    address = decode_text(data)
    rewriting = SenderRewriting("srs.example", ("a key of some length",), clock=lambda: NOW)
    made = rewriting.rewrite(address)
    back = rewriting.reverse(made) if made != address else address
    return made, rewriting.reverse(address), back is not None


def read_report_addresses(data: bytes) -> tuple[ReportUri, ...]:
    """Read where a domain wants reports; what is found stands in a field of a message, and in a command."""
    found = parse_report_uris(decode_text(data))
    assert all(each.address.isprintable() and not set(each.address) & set(" <>,;\r\n") for each in found)
    return found


def read_drop_in_request(data: bytes) -> list[object]:
    """Read the head of a request as both protocols do; what is refused is answered in one line."""
    first, *rest = decode_text(data).split("\n")
    pairs = (each.partition(":") for each in rest)
    head = Head(first, tuple((name.strip().lower(), value.strip()) for name, colon, value in pairs if colon))
    answers: list[object] = []
    for protocol in (Spamd(), Rspamd()):
        asked = protocol.read(head)
        if isinstance(asked, Refusal):
            assert protocol.refuse(asked).count(b"\n") < 12
        answers.append(asked)
    return answers


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the reader waits for something")


def _new_items() -> Iterator[FeedItems]:
    for name in _FEED_LISTS:
        yield FeedItems(BY_NAME[name], "feed", 500)


def _read_feed(data: bytes, items: FeedItems, kind: str) -> None:
    plan = FeedPlan(BY_NAME["blocked-urls"], "feed", 500, kind, header=len(data) % 2 == 1, field="a.entry")
    sealed_reading.read_feed(plan, items, data)


def read_feed(*kinds: str) -> Run:
    """Return a target that reads a feed in these formats, for lists of every kind."""

    def run(data: bytes) -> object:
        found: list[object] = []
        for kind in kinds:
            for items in _new_items():
                try:
                    _read_feed(data, items, kind)
                except FeedFault as fault:
                    found.append(str(fault))
                found.append((sorted(items.entries), items.invalid, items.rejected))
        return found

    return run


@cache
def _full_message() -> dict[str, Any]:
    return make_variables(
        subject="Invoice " * 40,
        sender="ann@a.example",
        tags=["auth:dmarc-fail"] * 20,
        links=["a.example"] * 40,
        headers={"x-a": ["b" * 300], "received": ["c" * 200] * 8},
        files=[describe_file("a.pdf", "pdf", "0" * 64)] * 4,
        size=4_000,
    )


def read_condition(data: bytes) -> object:
    """A condition of a rule: what is wrong with it, and whether it holds."""
    text = decode_text(data)
    fault = find_fault(text)
    if fault:
        return fault
    try:
        return evaluate(text, _full_message())
    except ConditionError as error:
        return str(error)


def read_search(data: bytes) -> object:
    """What somebody types into the one field of a search, as a word, as a text of the language with its conditions on
    rows, and while it is being written; and the query of a page."""
    text = decode_text(data)
    form = parse_query(text)
    term = parse_term(text)
    place = SearchPlace(1_700_000_000_000)
    found = parse_search(text, place)
    asked = () if isinstance(found, SearchFault) else (row_condition(found, MESSAGE_ROWS), needs_record(found))
    hints = complete(text, len(text) // 2, place, {})
    return term, match_rows(term), found, asked, hints, form, read_unsent(form), form.with_field("q", text[:100])


def read_bodies(data: bytes) -> object:
    """A body of each operation of the APIs, and the parameters of a scan."""
    readers = (lists.ADD, lists.DELETE, lists.LIST)
    others = (messages.SEARCH, messages.SEARCH_HELD, messages.REPORT, held_mail.ACT)
    return [*(each.decode(data) for each in readers), *(each.decode(data) for each in others), read_parameters(data)]


class _Keys:
    """A provider with one key, which nobody has to ask."""

    def __init__(self) -> None:
        self.settings = OpenidConnectSettings.model_validate(_PROVIDER)
        self.key = ECKey.generate_key("P-256")
        self._known = (SigningKey("k", "ES256", self.key),)

    async def keys(self, _kid: str, algorithm: str) -> tuple[SigningKey, ...]:
        return self._known if algorithm == "ES256" else ()


_PROVIDER = {
    "issuer": "https://a.example",
    "clientId": "gatepost",
    "clientSecret": "s" * 40,
    "access": [{"claim": "groups.x", "value": "admins", "role": "analyst"}],
}
_provider = cache(_Keys)


def read_token(data: bytes) -> object:
    """A token of a provider: as it comes, and its bytes as claims that the provider has signed."""
    provider: Any = _provider()
    found: list[object] = []
    signed = jws.serialize_compact({"alg": "ES256", "kid": "k"}, data, provider.key)
    for token in (decode_text(data), signed):
        try:
            found.append(_run(verify_logout_token(token, provider, NOW)))
        except TokenError as fault:
            found.append(str(fault))
        try:
            claims = _run(verify_id_token(token, provider, "n", NOW))
            found += [describe_identity(claims, provider.settings), find_access(claims, provider.settings.access)]
        except TokenError as fault:
            found.append(str(fault))
    return found


def claims() -> list[bytes]:
    """Return claims of an id token and of a logout token that are believed."""
    common = {"iss": "https://a.example", "aud": "gatepost", "sub": "ann", "iat": int(NOW), "exp": int(NOW) + 60}
    event: dict[str, dict[str, str]] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    groups = {"groups": {"x": ["admins", 1, True]}, "name": "Ann", "nonce": "n", "auth_time": int(NOW)}
    return [msgspec.json.encode({**common, **each}) for each in (groups, {"events": event, "sid": "s"})]


_PARTY = RelyingParty("mail.example.com", "https://mail.example.com")
# An attested credential: no AAGUID, the id "a", and the generator of P-256 as its key.
_STORED_KEY = bytes.fromhex(
    "00000000000000000000000000000000000161a5010203262001215820"
    "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296225820"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)


def _key_form(**parts: bytes) -> Form:
    return Form({name.replace("_", "-"): (encode(part),) for name, part in parts.items()})


def read_new_key(data: bytes) -> object:
    """The attestation object of a security key, with the client data of an honest browser."""
    client_data = b'{"type":"webauthn.create","challenge":"%s","origin":"https://mail.example.com"}'
    challenge = encode(bytes(32))
    form = _key_form(key_client_data=client_data % challenge.encode(), key_attestation=data)
    return verify_new_key(_PARTY, challenge, form)


def read_key_answer(data: bytes) -> object:
    """Client data, authenticator data and signature of a security key, with line feeds between them."""
    client_data, authenticator_data, signature_part = [*data.split(b"\n", 2), b"", b""][:3]
    assertion = Assertion("a", client_data, authenticator_data, signature_part)
    stored = SecurityKey("1", "1", "a", _PARTY.id, _STORED_KEY, 0, "", "", 0)
    return verify_assertion(_PARTY, [stored], encode(bytes(32)), assertion)
