"""Both files: what they may say, and every fault with its file, line and key at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.data_folders import write_files
from tests.own_names import replace_in
from tests.settings.refusals import find_faults

from gatepost.settings import consistency
from gatepost.settings.files import differing_settings, load, load_guard

ABBY = """\
listen: {host: 0.0.0.0, port: 9081}
serviceProviders:
  core: {hosts: ["https://127.0.0.1:9785"], longRequestTimeout: 3600000}   # secret, ca
staticApiTokens:
  - {name: border-mta, token: "64 hex digits", permissions: []}
storage: {url: "sqlite:gatepost.db"}
"""
GUARD = """\
mainWorkerCount: 20
scanSources:
  restApi: {}                       # {host, port: 9785, secret, keep: none}
  smtp: {host: 127.0.0.1, port: 10025}
delivery: {nextHop: "smtp://127.0.0.1:10026"}
dns: {nameservers: ["192.0.2.53:53"], timeout: 2000}   # default: the system's
storage: {url: "sqlite:gatepost.db"}                    # or postgresql://…
"""
Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    def write(guard: str = GUARD, abby: str = ABBY) -> Path:
        return write_files(tmp_path, guard, abby)

    return write


def faults(folder: Path) -> list[tuple[str, int, str]]:
    return [(Path(fault.file).name, fault.line, fault.key) for fault in find_faults(load, folder)]


def sentences(folder: Path) -> str:
    return "\n".join(map(str, find_faults(load, folder)))


def test_the_examples_of_the_documents_are_read(folder: Write) -> None:
    both = load(folder())
    assert (both.guard.maximum, both.guard.threshold) == (20, 20)
    assert both.guard.scan_sources.rest_api
    assert both.guard.scan_sources.rest_api.port == 9785
    assert both.abby.service_providers.core.long_request_timeout == 3_600_000
    assert both.abby.static_api_tokens[0].permissions == []


@pytest.mark.parametrize(
    "line",
    [
        "restApi {}",
        "restApi: {}",
        "restApi{}",
        "restApi { }",
        "restApi\t{}  # the way in",
        "restApi {} \r",
        "restApi: {keep: none}",
        "restApi {keep: none}",
        "restApi {port: 3} # x",
    ],
)
@pytest.mark.parametrize("indent", ["  ", "      "])
@pytest.mark.parametrize("after", ["", "{indent}smtp: {{port: 10030}}\n"])
def test_both_spellings_of_the_rest_source(folder: Write, line: str, indent: str, after: str) -> None:
    guard = load_guard(folder(f"scanSources:\n{indent}{line}\n{after.format(indent=indent)}mainWorkerCount: 3\n"))
    assert guard.scan_sources.rest_api is not None
    assert (guard.scan_sources.smtp is not None) == bool(after)


@pytest.mark.parametrize("line", ["scanSources: {restApi {}}", "scanSources: {restApi {}, smtp: {port: 1}}"])
def test_the_rest_source_on_one_line(folder: Write, line: str) -> None:
    assert load_guard(folder(f"{line}\n")).scan_sources.rest_api is not None


def test_the_smtp_source_is_written_likewise(folder: Write) -> None:
    smtp = load_guard(folder("scanSources:\n  smtp {port: 3}\n")).scan_sources.smtp
    assert smtp is not None
    assert smtp.port == 3


@pytest.mark.parametrize("line", ["xrestApi {}", "dns {}", "restApi x"])
def test_no_other_line_is_bent(folder: Write, line: str) -> None:
    ((file, _, key),) = faults(folder(f"scanSources:\n  {line}\n"))
    assert file == "guard.yml"
    assert key.startswith("scanSources")


def test_an_empty_guard_file_is_all_defaults(folder: Write) -> None:
    guard = load_guard(folder("# nothing yet\n"))
    assert guard.scan_sources.rest_api is None
    assert differing_settings(guard) == {}


def test_all_faults_of_both_files_at_once(folder: Write) -> None:
    guard = """\
mainWorkerCount: "20"
mainWorkerCount: 3
main_worker_count: 3
unsealed: no
scanSources:
  restApi:
  smtp:
    prot: 3
    xclientHosts:
      - 192.0.2.0/24
      - mail.example
dns: {nameservers: ["ns.example", "[2001:db8::1]:53", 192.0.2.1:x], timeout: 0}
tenants: {a.example: not-a-uuid}
log: {level: loud}
"""
    abby = """\
tls: {certificate: absent.pem}
serviceProviders:
  other: {what: ever}
  core:
    hosts: ["http://127.0.0.1:9785", "https://core:99999", "https://core:9785/path", 3]
staticApiTokens:
  - {name: border-mta, token: 123, permissions: [messages.write]}
storage: {url: "mysql://db"}
"""
    assert faults(folder(guard, abby)) == [
        ("abby.yml", 1, "tls.certificate"),
        ("abby.yml", 1, "tls.key"),
        ("abby.yml", 5, "serviceProviders.core.hosts[0]"),
        ("abby.yml", 5, "serviceProviders.core.hosts[1]"),
        ("abby.yml", 5, "serviceProviders.core.hosts[2]"),
        ("abby.yml", 5, "serviceProviders.core.hosts[3]"),
        ("abby.yml", 7, "staticApiTokens[0].permissions[0]"),
        ("abby.yml", 7, "staticApiTokens[0].token"),
        ("abby.yml", 8, "storage.url"),
        ("guard.yml", 1, "mainWorkerCount"),
        ("guard.yml", 2, "mainWorkerCount"),
        ("guard.yml", 3, "main_worker_count"),
        ("guard.yml", 4, "unsealed"),
        ("guard.yml", 6, "scanSources.restApi"),
        ("guard.yml", 8, "scanSources.smtp.prot"),
        ("guard.yml", 11, "scanSources.smtp.xclientHosts[1]"),
        ("guard.yml", 12, "dns.nameservers[0]"),
        ("guard.yml", 12, "dns.nameservers[2]"),
        ("guard.yml", 12, "dns.timeout"),
        ("guard.yml", 13, "tenants.a.example"),
        ("guard.yml", 14, "log.level"),
    ]


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ("workerProcess: 2\n", "did you mean workerProcesses?"),
        ("mainworkercount: 2\n", "did you mean mainWorkerCount?"),
        ("dns: {time-out: 2}\n", "did you mean timeout?"),
        ("dns: {zzz: 2}\n", "known here: nameservers, timeout"),
        ("unsealed: yes\n", "must be true or false, not a text"),
        ("mainWorkerCount: 1.5\n", "must be a whole number, not 1.5"),
        ("mainWorkerCount: true\n", "must be a whole number, not true or false"),
        ("mainWorkerCount: 0\n", "must be at least 1, not 0"),
        ('clamd: {address: "\\ud800"}\n', "has half a character in it"),
        ("delivery: smtp://x\n", "must be a group of keys, not a text"),
        ("- a\n- b\n", "the file must be a group of keys, not a list"),
        ("dns: {timeout: [}\n", "the file is not YAML here"),
        ("yara: {folder: rules}\n", "names a folder that does not exist"),
        ("scanSources: {restApi: {port: 7}, smtp: {port: 7}}\n", "is the port of scanSources.restApi as well"),
    ],
)
def test_faults_say_what_to_do(folder: Write, guard: str, words: str) -> None:
    assert words in sentences(folder(guard))


CORE, POSTGRES = "serviceProviders: {{core: {{hosts: [{}]}}}}\n", "storage: {url: postgresql://db/x}\n"
HERE = CORE.format('"https://127.0.0.1:9785"')
MILTER = GUARD.replace("  smtp: {", "  milter: {listen: '127.0.0.1:8891'}\n  smtp: {")


@pytest.mark.parametrize(
    ("guard", "abby", "key", "words"),
    [
        (GUARD.replace("restApi: {}", "restApi: {port: 9786}"), ABBY, "serviceProviders.core.hosts", "127.0.0.1:9786"),
        (
            GUARD.replace("restApi: {}", "restApi: {host: 192.0.2.7}"),
            ABBY,
            "serviceProviders.core.hosts",
            "abby would reach no core",
        ),
        (GUARD, ABBY.replace("9081", "10025"), "listen.port", "is the port of scanSources.smtp in guard.yml"),
        (GUARD, ABBY.replace("0.0.0.0, port: 9081", "localhost, port: 10025"), "listen.port", "scanSources.smtp"),
        (MILTER, ABBY.replace("9081", "8891"), "listen.port", "is the port of scanSources.milter in guard.yml"),
        (GUARD, ABBY.replace("9081", "10026"), "listen.port", "mail would be sent to abby"),
        (GUARD, ABBY.replace(":9785", ":9081"), "serviceProviders.core.hosts[0]", "where abby itself listens"),
        (GUARD.replace("10026", "10025"), ABBY, "delivery.nextHop", "mail would go in circles"),
        (GUARD.replace("10026", "9785"), ABBY, "delivery.nextHop", "scanSources.restApi of this guard"),
        (MILTER.replace("10026", "8891"), ABBY, "delivery.nextHop", "it takes no SMTP"),
        (GUARD, CORE.format('"https://mta.example:9785"'), "storage.url", "different hosts need PostgreSQL"),
        (GUARD, CORE.format('"https://127.0.0.1:9785", "https://192.0.2.1:9785"'), "storage.url", ""),
        (GUARD, CORE.format('"https://127.0.0.1:9785", "https://127.0.0.1:9785/"'), "serviceProviders.core.hosts", ""),
        (GUARD, CORE.format('"https://{mta_host}:9785"'), "serviceProviders.core.hosts[0]", "placeholder {mta_host}"),
        (GUARD, HERE + "storage: {url: 'sqlite:other.db'}\n", "storage.url", ""),
        (GUARD, HERE + "listen: {port: 9785}\n", "listen.port", ""),
        (GUARD, CORE.format("https://mta.example:9785") + POSTGRES, "serviceProviders.core", ""),
        (GUARD, ABBY.replace("longR", "secret: x, longR"), "serviceProviders.core.secret", ""),
        (
            GUARD,
            ABBY.replace("storage", "  - {name: b, token: 64 hex digits}\nstorage"),
            "staticApiTokens[1].token",
            "",
        ),
    ],
)
def test_files_that_cannot_work_together(folder: Write, guard: str, abby: str, key: str, words: str) -> None:
    written = folder(guard, abby)
    assert key in [found for _, _, found in faults(written)]
    assert words in sentences(written)


def test_the_name_of_this_machine_may_stand_for_any_of_its_addresses(
    folder: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_in(monkeypatch, consistency, "socket", gethostname=lambda: "gate.example")
    guard = GUARD.replace("restApi: {}", "restApi: {host: 192.0.2.7}")
    named = load(folder(guard, ABBY.replace("127.0.0.1:9785", "gate.example:9785")))
    assert named.abby.service_providers.core.hosts == ["https://gate.example:9785"]
    assert "would reach no core" in sentences(folder(guard, ABBY.replace("127.0.0.1:9785", "gate.example:9786")))


def test_cores_on_other_machines_are_no_fault(folder: Write) -> None:
    away = POSTGRES + CORE.format("https://mta.example:9999").replace("]", "], secret: s")
    assert load(folder(GUARD.rpartition("storage")[0] + POSTGRES, away)).abby.service_providers.core.secret == "s"


def test_paths_are_relative_to_their_file(folder: Write) -> None:
    place = folder(GUARD, ABBY + "tls: {certificate: own.pem, key: ../own.key}\n")
    (place / "abby/abby/own.pem").touch()
    (place / "abby/own.key").touch()
    tls = load(place).abby.tls
    assert tls not in (None, "off")
    assert Path(tls.certificate) == place / "abby/abby/own.pem"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "fine"), [("tls: off\n", True), ("tls: 'off'\n", True), ("tls: false\n", False), ("tls: on\n", False)]
)
def test_off_is_a_word(folder: Write, text: str, fine: bool) -> None:
    place = folder(GUARD, ABBY + text)
    if fine:
        assert load(place).abby.tls == "off"
    else:
        assert faults(place) == [("abby.yml", 7, "tls")]


def test_missing_files_are_both_named(tmp_path: Path) -> None:
    assert [name for name, _, _ in faults(tmp_path)] == ["abby.yml", "guard.yml"]


def test_values_in_force_hide_secrets(folder: Write) -> None:
    guard = GUARD.replace("restApi: {}", "restApi: {secret: hush}").replace(
        "sqlite:gatepost.db", "postgresql://u:hush@db/x"
    )
    shown = differing_settings(load_guard(folder(guard)))
    assert "hush" not in str(shown)
    assert shown["delivery.nextHop"] == "smtp://127.0.0.1:10026"
    assert "mainWorkerCount" not in shown


EVENTS = """\
events:
  webhooks:
    - {url: "https://siem.example/T0/B0?key=1", secret: "0123456789abcdef0123456789abcdef"}
  mail: {recipients: [ops@example.com]}
"""


def test_events_of_both_services_stand_in_one_file(folder: Write) -> None:
    both = load(folder(GUARD + EVENTS))
    assert both.guard.events.enabled
    assert not both.abby.events.enabled
    shown = differing_settings(both.guard)
    assert shown["events.webhooks[0].url"] == "https://siem.example/(hidden)"
    assert shown["events.webhooks[0].secret"] == "(hidden)"


def test_events_that_contradict_each_other(folder: Write) -> None:
    assert "differs from events in guard.yml" in sentences(folder(GUARD, ABBY + "events: {file: {}}\n"))
    without_hop = GUARD.replace('delivery: {nextHop: "smtp://127.0.0.1:10026"}\n', "")
    assert "needs a server, since there is no delivery.nextHop" in sentences(folder(without_hop + EVENTS))
    twice = EVENTS.replace("  mail", EVENTS.splitlines(keepends=True)[2] + "  mail")
    assert "names the same url twice" in sentences(folder(GUARD + twice))
