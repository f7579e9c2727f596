"""No output shows a secret: a marker stands in every key that can hold one or a URL, and all outputs are searched.

The keys are found in the definitions of the settings, so a new one is tried as soon as it is there.
"""

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from bench.ports import free_ports
from pydantic.fields import FieldInfo
from tests.command_line import run_command
from tests.service.running_service import RunningCommand, connect

from gatepost.process.hiding import SECRET_KEYS
from gatepost.settings import values
from gatepost.settings.document import Key, parse_document
from gatepost.settings.faults import Fault, render_key, validate
from gatepost.settings.files import differing_settings, settings_in_force
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section, find_section
from gatepost.web.registry import PAGES

MARK = "Xq7marker"
UID = "0195fb1e-7c5a-7000-8000-000000000001"
# A user's name is shown: it tells an operator which account a server refuses.
SHOWN = {"user"}
# Forms in which an address has a secret, whether or not a key takes the form.
ADDRESSES = (
    f"smtp://ann:{MARK}@h.example:25",
    f"https://ann:{MARK}@h.example/path",
    f"https://{MARK}/x?@h.example/path",
    f"https://ann:a {MARK}@h.example/path",
    f"https://h.example/path?token={MARK}",
    f"postgresql://ann:{MARK}@h.example/mail",
    f"postgresql:ann:{MARK}@h.example/mail",
    f"host=h.example user=ann password={MARK}",
    f"s3://bucket/mail?aws_secret_access_key={MARK}",
    f"az://box/mail?sv=1&sig={MARK}",
    f"imaps://ann:{{{MARK}}}@h.example",
)


def walk(model: type[Section], above: Key = ()) -> Iterator[tuple[Key, FieldInfo]]:
    """Every key of a file that is no section."""
    for field in model.model_fields.values():
        key = (*above, str(field.alias))
        section, is_list = find_section(field.annotation)
        if section:
            yield from walk(section, (*key, 0) if is_list else key)
        else:
            yield key, field


def marks_of(annotation: Any) -> set[int]:
    own = {id(mark) for mark in getattr(annotation, "__metadata__", ())}
    return own.union(*map(marks_of, get_args(annotation)))


def is_secret(field: FieldInfo) -> bool:
    return bool(marks_of(values.Secret) & (marks_of(field.annotation) | set(map(id, field.metadata))))


EVERY = [(model, key, field) for model in (GuardSettings, AbbySettings) for key, field in walk(model)]


def test_every_key_of_a_secret_is_known() -> None:
    found = {key[-1] for _, key, field in EVERY if is_secret(field)} - SHOWN
    assert found == set(SECRET_KEYS)


def nest(key: Key, value: Any) -> Any:
    for step in reversed(key):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def shown_of(model: type[Section], stated: Any) -> str:
    """All that is said of a document: its faults, or its settings in all forms."""
    settings, mistakes = validate(model, parse_document(json.dumps(stated).encode()), "/nowhere")
    faults = [Fault("guard.yml", each.line, render_key(each.key), each.sentence) for each in mistakes]
    said = json.dumps([str(fault) + fault.key for fault in faults])
    if settings is not None:
        said += json.dumps(differing_settings(settings), default=str) + str(settings_in_force("guard.yml", settings))
    return said


@pytest.mark.parametrize("model", [GuardSettings, AbbySettings])
def test_nothing_is_said_of_a_secret_in_any_key(model: type[Section]) -> None:
    tried = 0
    for _, key, field in (each for each in EVERY if each[0] is model):
        for text in (*ADDRESSES, *([MARK] if is_secret(field) else [])):
            for form in (text, [text], {text: 1}, {UID: text}, {UID: [text]}, [[text]], {"a": {"b": text}}):
                tried += 1
                said = shown_of(model, nest(key, form))
                assert MARK not in said, f"{render_key(key)}: {form!r} {said}"
    assert tried > 5_000 if model is GuardSettings else tried > 3_000


def test_numbers_and_signs_of_yaml_are_not_repeated() -> None:
    for text in ("12.75", f"*{MARK}", f"&{MARK} &{MARK}", f"!{MARK} x", f"!e!{MARK} x", f"{{{MARK}]", f"'a'{MARK}"):
        document = parse_document(f"delivery: {{nextHop: smtp://h, auth: {{user: a, password: {text}}}}}".encode())
        said = str(validate(GuardSettings, document, "/nowhere")[1])
        assert MARK not in said, text
        assert "12.75" not in said, text


class Marks:
    """Values with the marker, each with a number of its own, so that a failure names its key."""

    def __init__(self) -> None:
        self._number = count(1)

    def __call__(self, form: str = "{}") -> str:
        # 40 characters: long enough for every check of strength.
        return form.replace("{}", f"{MARK}{next(self._number):03}s8Jd02lKq9ZxW4vTn6BhYc1E")


def write_files(folder: Path, data: Path, database: str = "sqlite:gatepost.db", bucket: str = "") -> int:
    """A valid configuration with the marker in every key that takes one; returns the port of the API."""
    mark, (api, rest, smtp) = Marks(), free_ports(3)
    (folder / "guard/core").mkdir(parents=True)
    (folder / "abby/abby").mkdir(parents=True)
    core = mark()
    auth = {"user": "gate", "password": mark()}
    guard = {
        "workerProcesses": 1,
        "scanSources": {
            "restApi": {"port": rest, "secret": core},
            "smtp": {
                "port": smtp,
                "outbound": {
                    "hosts": ["192.0.2.1"],
                    "nextHop": ["smtp://127.0.0.1:1"],
                    "auth": {"user": "out", "password": mark()},
                    "senderRewriting": {"domain": "srs.example", "keys": [mark(), mark()]},
                },
            },
        },
        "delivery": {
            "nextHop": {"smtp://127.0.0.1:1": 3},
            "auth": auth,
            "routes": [
                {"domains": ["a.example"], "nextHop": "smtp://127.0.0.1:1", "auth": {"user": "b", "password": mark()}}
            ],
        },
        "dns": {"nameservers": ["127.0.0.1:1"], "timeout": 10},
        "reputation": {
            "zones": [
                {
                    "name": "zone",
                    "zone": "{key}.zone.example",
                    "queryKey": mark(),
                    "asks": "ip",
                    "answers": [{"codes": ["127.0.0.2"], "means": "listed"}],
                }
            ]
        },
        "events": {
            "file": {"path": str(data / "events.jsonl")},
            "webhooks": [{"url": mark("https://127.0.0.1:1/{}?x=1"), "secret": mark(), "timeout": 100}],
        },
        "storage": {"url": database},
        **({"quarantine": {"url": bucket}} if bucket else {}),
    }
    provider = {"issuer": "https://127.0.0.1:1", "clientId": "gatepost", "clientSecret": mark()}
    feed = {"listName": "blocked-urls", "url": mark("https://127.0.0.1:1/{}/list.txt"), "timeout": 100}
    abby = {
        "listen": {"host": "127.0.0.1", "port": api},
        "publicUrl": f"https://localhost:{api}",
        "serviceProviders": {"core": {"hosts": [f"https://127.0.0.1:{rest}"], "secret": core}},
        "staticApiTokens": [{"name": "border", "token": mark(), "permissions": ["messages.read"]}],
        "signIn": {"openidConnect": {**provider, "access": [{"claim": "g", "value": "a", "role": "auditor"}]}},
        "feeds": [
            {**feed, "name": "by-header", "credentials": {"header": "Auth-Key", "secret": mark("Bearer {}")}},
            {**feed, "name": "by-user", "credentials": {"user": "ann", "password": mark()}},
        ],
        "remediation": {
            "servers": [
                {
                    "domains": ["a.example"],
                    "server": "imaps://127.0.0.1:1",
                    "user": "{address}",
                    "password": mark(),
                }
            ],
            "timeout": 100,
        },
        "storage": {"url": database},
    }
    (folder / "guard/core/guard.yml").write_text(json.dumps(guard))
    (folder / "abby/abby/abby.yml").write_text(json.dumps(abby))
    return api


COMMANDS = (
    "config check",
    "config publish --reason x",
    "config diff",
    "doctor",
    "upgrade check",
    "storage partition",
    "tenant list",
    "feeds list",
    "feeds run by-header",
    "dkim list",
    "events test",
    "secrets list",
    "nodes",
)


@pytest.mark.parametrize(
    ("database", "bucket"),
    [
        ("sqlite:gatepost.db", ""),
        (
            f"postgresql://ann:{MARK}@127.0.0.1:1/mail?sslpassword={MARK}",
            f"s3://b/m?aws_secret_access_key={MARK}&aws_access_key_id={MARK}",
        ),
        (f"postgresql://ann:{MARK}/x@127.0.0.1:1/mail", f"az://account/m?sig={MARK}"),
        (f"postgresql://ann:a@h:{MARK}@127.0.0.1:1/mail", f"gs://b/m?service_account_key={MARK}"),
        (f"postgresql://ann:[{MARK}@127.0.0.1:1/mail", f"s3://ann:{MARK}@b/m"),
        (f"postgresql://ann:x@127.0.0.1:1,bob:{MARK}@127.0.0.1:2/mail", ""),
    ],
)
@pytest.mark.process
def test_no_command_prints_a_secret(database: str, bucket: str, tmp_path: Path) -> None:
    folder, data = tmp_path / "files", tmp_path / "data"
    data.mkdir()
    write_files(folder, data, database, bucket)
    for command in COMMANDS:
        for more in ([], ["--json"]):
            _, out, err = run_command(*command.split(), *more, "--config", folder, "--data", data)
            assert "unexpected" not in err
            assert MARK not in out + err, f"{command}: {out}{err}"


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_command_repeats_a_secret_of_its_own_words(address: str, tmp_path: Path) -> None:
    """What is typed stands in the history of a shell; what is printed stands in a log, a ticket or a screenshot."""
    (tmp_path / "m.eml").write_text("Subject: x\n\ny\n")
    tried = (
        ("storage", "copy", address),
        ("storage", "copy", "--to", address, "--yes"),
        ("restore", tmp_path / "m.eml", "--to", address),
        ("lists", "list", "--url", address, "--key", "x"),
        ("scan", "--url", address, "--token", "x", tmp_path / "m.eml"),
        ("messages", "search", "--url", address, "--token", "x"),
        ("config", "history", address),
        ("config", "show", address),
        ("audit", "--since", address),
        ("audit", "--limit", address),
        ("tenant", "retention", address, "5"),
        (address,),
        ("config", address),
        ("doctor", f"--to={address}"),
        ("backup", tmp_path / address.replace(" ", ".") / "file"),
        ("config", "check", "--config", tmp_path / address.replace(" ", ".")),
    )
    for words in tried:
        code, out, err = run_command(*words, *([] if words == (address,) else ["--data", tmp_path]))
        assert code
        assert MARK not in out + err, f"{words}: {out}{err}"


def test_a_version_with_references_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data = tmp_path / "files", tmp_path / "data"
    data.mkdir()
    write_files(folder, data)
    for number, name in enumerate(("guard/core/guard.yml", "abby/abby/abby.yml")):
        text, found = (folder / name).read_text(), dict[str, str]()
        for each in re.findall(rf"Bearer {MARK}\w+|https://[^\"]*\?x=1|{MARK}\w+", text):
            found[each] = f"SECRET_{number}_{len(found)}"
        for secret, variable in found.items():
            monkeypatch.setenv(variable, secret)
            text = text.replace(secret, f"${{env:{variable}}}")
        (folder / name).write_text(text)
    for command in ("config check", "config publish --reason x", "config show 1", "config diff 1", "config history"):
        for more in ([], ["--json"]):
            code, out, err = run_command(*command.split(), *more, "--config", folder, "--data", data)
            if command != "config publish --reason x" or not more:
                assert code == 0, f"{command}: {out}{err}"
            assert MARK not in out + err, f"{command}: {out}{err}"
    assert "${env:SECRET_0_0}" in run_command("config", "show", 1, "--config", folder, "--data", data)[1]


@pytest.mark.process
def test_a_service_shows_no_secret_in_its_log_events_and_pages(tmp_path: Path) -> None:
    folder, data = tmp_path / "files", tmp_path / "data"
    data.mkdir()
    api = write_files(folder, data)
    text = (folder / "guard/core/guard.yml").read_text()
    (folder / "guard/core/guard.yml").write_text(
        text.replace('"workerProcesses"', '"log": {"level": "debug"}, "workerProcesses"')
    )
    service = RunningCommand(tmp_path / "output", "serve", "--config", folder, "--data", data)
    try:
        service.until()
        with connect(data, api) as client:
            sizes = list(look_at_pages(client, (data / "first-password").read_text().strip()))
        assert len(sizes) > 40
        run_command("config", "check", "--config", folder, "--data", data)
    finally:
        service.stop()
    assert "service listening" in service.text
    for file in (tmp_path / "output", data / "events.jsonl"):
        assert MARK not in file.read_text("utf-8", "replace"), file


def look_at_pages(client: httpx.Client, password: str) -> Iterator[int]:
    """Open every page that has no id in its path, and what the APIs say of wrong calls; yields the size of each."""
    client.headers["Accept"] = "text/html"
    entered = client.post("/sign-in", data={"name": "admin", "password": password})
    assert entered.status_code == 303
    client.headers["Cookie"] = entered.headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    page = client.get("/account/password")
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/account").text or page.text)
    assert csrf
    changed = {"csrf": csrf[1], "password": password, "new": f"{password}-new", "again": f"{password}-new"}
    client.post("/account/password", data=changed)
    paths = {row.path for row in PAGES if row.method == "GET" and "{" not in row.path}
    paths |= {
        "/v1/openapi.json",
        "/api/public/lists/v1/openapi.json",
        "/docs",
        "/metrics",
        "/nothing",
        "/v1/messages/x",
    }
    for path in sorted(paths - {"/sign-in/openid"}):
        answer = client.get(path)
        assert MARK not in answer.text, path
        assert MARK not in str(answer.headers), path
        yield len(answer.content)
