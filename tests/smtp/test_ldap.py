"""A directory is asked whether an address exists: a real slapd, and servers that lie, hang and send nonsense."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bench.ports import free_port

from gatepost.service.certificates import sign_certificate
from gatepost.settings.recipients import DEFAULT_FILTER, encode_ber, parse_filter
from gatepost.smtp.ldap import MAX_MESSAGE, LdapDirectory, LdapError, LdapServer

SLAPD = shutil.which("slapd", path="/usr/sbin:/usr/libexec:/usr/bin")
BASE, ADMIN, PASSWORD = "dc=y,dc=example", "cn=admin,dc=y,dc=example", "secret word"

CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCertificateFile {folder}/chain.pem
TLSCertificateKeyFile {folder}/key.pem
TLSCACertificateFile {folder}/chain.pem
database mdb
suffix "{base}"
rootdn "{admin}"
rootpw "{password}"
directory {folder}/db
access to * by dn.exact="{admin}" write by anonymous auth by * none
"""
PEOPLE = """\
dn: dc=y,dc=example
objectClass: dcObject
objectClass: organization
o: y
dc: y

dn: ou=people,dc=y,dc=example
objectClass: organizationalUnit
ou: people

dn: cn=Ann,ou=people,dc=y,dc=example
objectClass: inetOrgPerson
cn: Ann
sn: A
mail: ann@y.example
mail: ann.a@y.example
employeeType: mailbox

dn: cn=Star,ou=people,dc=y,dc=example
objectClass: inetOrgPerson
cn: Star
sn: S
mail: s*(x)\\y@y.example
"""


class Slapd:
    """A directory with a few people in it; who does not bind sees nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.secure_port = folder, free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        urls = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.secure_port}"
        command = [str(SLAPD), "-d", "0", "-f", str(self.folder / "slapd.conf"), "-h", urls]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    if SLAPD is None:
        pytest.skip("not run: there is no slapd (Debian: apt-get install slapd)")
    folder = tmp_path_factory.mktemp("slapd")
    (folder / "db").mkdir()
    chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (folder / "chain.pem").write_bytes(chain)
    (folder / "key.pem").write_bytes(key)
    text = CONFIGURATION.format(folder=folder, base=BASE, admin=ADMIN, password=PASSWORD)
    (folder / "slapd.conf").write_text(text)
    (folder / "people.ldif").write_text(PEOPLE)
    add = [SLAPD, "-T", "add", "-f", str(folder / "slapd.conf"), "-l", str(folder / "people.ldif")]
    subprocess.run(add, check=True, capture_output=True)
    server = Slapd(folder)
    server.start()
    yield server
    server.stop()


def describe(slapd: Slapd, **changes: Any) -> LdapServer:
    values: dict[str, Any] = {
        "urls": (f"ldap://127.0.0.1:{slapd.port}",),
        "base": BASE,
        "filter": parse_filter("(mail={address})"),
        "user": ADMIN,
        "password": PASSWORD,
        "start_tls": True,
        "ca": str(slapd.folder / "chain.pem"),
        "seconds": 10.0,
    }
    return LdapServer(**{**values, **changes})


async def wait_for(directory: LdapDirectory) -> None:
    """Wait until the server takes connections."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(LdapError):
                await directory.knows("nobody@y.example")
                return
            await asyncio.sleep(0.02)


Ask = Callable[[LdapDirectory], Awaitable[None]]


@pytest.fixture
def ask(slapd: Slapd, run: Any) -> Callable[..., None]:
    """Run a coroutine with a directory that is asked in some way."""

    def asked(what: Ask, **changes: Any) -> None:
        async def go() -> None:
            ready = LdapDirectory(describe(slapd))
            await wait_for(ready)
            await ready.close()
            directory = LdapDirectory(describe(slapd, **changes))
            try:
                await what(directory)
            finally:
                await directory.close()

        run(go())

    return asked


@pytest.mark.parametrize("way", ["StartTLS", "ldaps"])
def test_a_real_directory(slapd: Slapd, ask: Any, way: str) -> None:
    async def go(directory: LdapDirectory) -> None:
        assert await directory.knows("ann@y.example")
        assert await directory.knows("ANN.A@y.example")
        assert not await directory.knows("bob@y.example")
        found = await asyncio.gather(*(directory.knows(f"{each}@y.example") for each in ("ann", "bob", "ann.a") * 20))
        assert found == [True, False, True] * 20

    urls = (f"ldaps://127.0.0.1:{slapd.secure_port}",) if way == "ldaps" else (f"ldap://127.0.0.1:{slapd.port}",)
    ask(go, urls=urls)


def test_no_address_changes_what_is_asked(ask: Any) -> None:
    async def go(directory: LdapDirectory) -> None:
        for hostile in (
            "*",
            "ann*",
            "*)(mail=*",
            "ann@y.example)(objectClass=*",
            "\\2a",
            "a\0b@y.example",
            "{address}",
        ):
            assert not await directory.knows(hostile), hostile
        assert await directory.knows("s*(x)\\y@y.example"), "signs of the filter language are plain letters here"

    ask(go)


@pytest.mark.parametrize(
    ("filter_text", "known"),
    [
        (DEFAULT_FILTER.replace("proxyAddresses", "description"), True),
        ("(&(mail={address})(employeeType=mailbox))", True),
        ("(&(mail={address})(!(employeeType=mailbox)))", False),
        ("(&(objectClass=inetOrgPerson)(mail={local}*))", True),
        ("(&(mail=*@{domain})(cn={local}))", True),
        (
            "(&(mail={address})(cn=*)(createTimestamp>=20000101000000Z)(createTimestamp<=29990101000000Z)(cn~=ann))",
            True,
        ),
        ("(mail:caseIgnoreIA5Match:={address})", True),
        ("(&(mail={address})(cn=\\41nn))", True),
        ("(&(mail={address})(cn=a*n*n))", True),
        ("(&(mail={address})(cn=a*x*n))", False),
    ],
)
def test_filters(ask: Any, filter_text: str, known: bool) -> None:
    async def go(directory: LdapDirectory) -> None:
        assert await directory.knows("ann@y.example") is known

    ask(go, filter=parse_filter(filter_text))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"password": "wrong"}, "refuses to bind: invalid credentials"),
        ({"base": "dc=z,dc=example"}, "answered the search with the base does not exist"),
        ({"base": "no name"}, "answered the search with the base is no distinguished name"),
        ({"user": "", "password": ""}, "insufficient access rights"),
        ({"ca": None}, "could not start TLS"),
        ({"urls": ("ldap://127.0.0.1:1",)}, "ldap://127.0.0.1:1 cannot be reached"),
    ],
)
def test_what_is_wrong_is_said(ask: Any, changes: dict[str, Any], reason: str) -> None:
    async def go(directory: LdapDirectory) -> None:
        with pytest.raises(LdapError) as fault:
            await directory.knows("ann@y.example")
        assert reason in str(fault.value)

    ask(go, **changes)


def test_a_second_server_is_asked_and_a_restart_is_survived(slapd: Slapd, ask: Any) -> None:
    async def go(directory: LdapDirectory) -> None:
        assert await directory.knows("ann@y.example")
        slapd.stop()
        with pytest.raises(LdapError, match="cannot be reached"):
            await directory.knows("ann@y.example")
        slapd.start()
        await wait_for(directory)
        assert await directory.knows("ann@y.example")

    ask(go, urls=("ldap://127.0.0.1:1", f"ldap://127.0.0.1:{slapd.port}"))


def number(value: int, tag: int = 2) -> bytes:
    return encode_ber(tag, bytes((value,)))


def message(*parts: bytes, identifier: int = 1) -> bytes:
    return encode_ber(0x30, number(identifier), *parts)


def done(code: int, tag: int = 0x65) -> bytes:
    return encode_ber(tag, number(code, 0x0A), b"\x04\x00\x04\x00")


ENTRY = encode_ber(0x64, encode_ber(4, b"cn=x"), b"\x30\x00")
ANSWERS: dict[str, tuple[bytes, bool | str]] = {
    "an entry": (message(ENTRY) + message(done(0)), True),
    "none": (message(done(0)), False),
    "more than one": (message(ENTRY) + message(done(4)), True),
    "a reference and none": (message(encode_ber(0x73, encode_ber(4, b"ldap://x"))) + message(done(0)), False),
    "an answer to something else before": (message(done(0), identifier=9) + message(ENTRY) + message(done(0)), True),
    "with controls": (message(ENTRY, b"\xa0\x00") + message(done(0), b"\xa0\x02\x30\x00"), True),
    "a referral": (message(done(10)), "a referral to another server"),
    "an unknown result": (message(done(80)), "result 80"),
    "busy": (message(done(51)), "the server is busy"),
    "goodbye": (
        message(encode_ber(0x78, number(52, 0x0A), b"\x04\x00\x04\x00"), identifier=0),
        "closed the connection",
    ),
    "nothing": (b"", "closed the connection"),
    "half a message": (message(done(0))[:-3], "closed the connection"),
    "SMTP": (b"220 mail ESMTP\r\n" * 40, "no LDAP"),
    "HTTP": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no LDAP"),
    "a length of four gigabytes": (b"\x30\x84\xff\xff\xff\xff", "no LDAP"),
    "a length beyond the limit": (b"\x30\x83" + (MAX_MESSAGE + 1).to_bytes(3, "big") + b"x" * 100, "no LDAP"),
    "a length of 100 bytes": (b"\x30\xe4" + b"\x01" * 100, "no LDAP"),
    "an indefinite length": (b"\x30\x80\x02\x01\x01\x00\x00", "no LDAP"),
    "a length that overruns": (encode_ber(0x30, number(1), b"\x65\x20\x0a\x01\x00"), "no LDAP"),
    "no number": (encode_ber(0x30, done(0)), "no LDAP"),
    "a number of nine bytes": (encode_ber(0x30, encode_ber(2, b"\x01" * 9), done(0)), "no LDAP"),
    "an empty sequence": (b"\x30\x00", "no LDAP"),
    "a result without a code": (message(b"\x65\x00"), "no LDAP"),
    "a long tag": (message(b"\x7f\x81\x01\x00"), "no LDAP"),
    "a request": (message(encode_ber(0x63, b"")), "no LDAP"),
    "a thousand entries": (message(ENTRY) * 1_000 + message(done(4)), True),
}


@contextlib.asynccontextmanager
async def answering(answer: bytes, *, stalls: bool = False) -> AsyncIterator[str]:
    """A server that sends this when the first question has come."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(2)
            writer.write(answer)
            await writer.drain()
            if stalls:
                await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"ldap://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        ended.set()
        server.close()


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_any_server(name: str, run: Any) -> None:
    answer, expected = ANSWERS[name]

    async def go() -> None:
        async with answering(answer) as url:
            directory = LdapDirectory(LdapServer((url,), "", parse_filter("(mail={address})"), seconds=60.0))
            if isinstance(expected, bool):
                assert await directory.knows("ann@y.example") is expected
            else:
                with pytest.raises(LdapError) as fault:
                    await directory.knows("ann@y.example")
                assert expected in str(fault.value)
            await directory.close()

    run(go())


def test_a_server_that_hangs(run: Any) -> None:
    async def go() -> None:
        async with answering(b"", stalls=True) as url:
            directory = LdapDirectory(LdapServer((url,), "", parse_filter("(mail={address})"), seconds=0.2))
            with pytest.raises(LdapError, match=r"did not answer within 0\.2 s"):
                await directory.knows("ann@y.example")
            await directory.close()

    run(go())


@pytest.mark.parametrize(
    "text",
    [
        "", "(", "()", "(mail={address}", "(mail={address}))", "(&)", "(!(a={address})(b=c))", "(={address})",
        "(mail{address})", "(mail=**)({address})", "(ma il={address})", "(mail={address}\\zz)",
        "(mail={address}\\2)", "(&(a={address})x)",
        "(" * 50 + "{address}", "(&" * 11 + "(a={address})" + ")" * 11, "(|" + "(a={address})" * 101 + ")",
        "(a:b:c:={address})", "(:={address})", "(a=" + "x" * 2_000 + "{address})", "(a={address}(b))",
    ],
)  # fmt: skip
def test_filters_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|has) "):
        parse_filter(text)
