"""What of a message is looked up."""

from gatepost.auth.results import Authentication
from gatepost.files.values import File
from gatepost.lists.catalogue import KINDS
from gatepost.lists.lookup import find_subjects
from gatepost.lists.rulings import collect_keys
from gatepost.mail.message import Envelope, Field, Headers, Link, Message
from gatepost.names import Address

MESSAGE = Message(
    headers=Headers((Field("sender", "Desk <desk@agency.example>", b""),)),
    senders=(Address("Ann", "ann", "shop.example"),),
    links=(
        Link("https://A.example/x", "https://a.example/x", "a.example", "", "1", "html"),
        Link("https://A.example/x", "https://a.example/x", "a.example", "", "2", "html"),
        Link("mailto:x@y.example", "mailto:x@y.example", "", "", "1", "html"),
    ),
)
FILES = (File("2/a.tar.gz", b"x", "gzip", "a" * 64, ("A.tar.GZ",), "Application/GZip"),)


def test_subjects() -> None:
    found = find_subjects(MESSAGE, Envelope(sender="<B@Mailer.example>"), Authentication(host="192.0.2.9"), FILES)
    assert {(subject.role, subject.value) for subject in found} == {
        ("envelope", "b@mailer.example"),
        ("from", "ann@shop.example"),
        ("sender", "desk@agency.example"),
        ("host", "192.0.2.9"),
        ("link", "https://a.example/x"),
        ("file", "a" * 64),
        ("type", "gzip"),
        ("type", "application/gzip"),
        ("type", "tar"),
        ("type", "gz"),
        ("type", "tar.gz"),
    }


def test_a_bounce_has_no_envelope_sender() -> None:
    assert find_subjects(Message(), Envelope(sender="<>"), Authentication(), ()) == ()


def test_one_question_for_all_lists() -> None:
    asked = dict(collect_keys(find_subjects(MESSAGE, Envelope(), Authentication(), FILES), KINDS))
    assert set(asked) == {"sender", "url", "sha256", "file-type"}
    assert dict(collect_keys(find_subjects(MESSAGE, Envelope(), Authentication(), FILES), ("sha256",))) == {
        "sha256": ("a" * 64,)
    }
    assert "*.example" in asked["sender"]
    assert all(len(keys) == len(set(keys)) for keys in asked.values())
