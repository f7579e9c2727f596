"""A key that is called live is one that the next generation of a running service reads.

A service starts from files in which every section is set. Then a second generation is built from the same files, read
anew, and takes over. What is read of the second settings is noted, and so is what the process itself reads of the first
ones, beside its generations: that can hold after a restart only.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.ports import free_ports
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gatepost.service.certificates import sign_certificate
from gatepost.service.data_folder import DataFolder
from gatepost.service.generation import Generation, Generations
from gatepost.service.plan import Plan, bind_ports
from gatepost.service.running import run_plan
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, Configuration, load
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section, find_section, needs_restart

TENANT = "0198a000-0000-7000-8000-000000000001"
GUARD_YML = """
workerProcesses: 1
scanSources:
  restApi: {{port: {0}, secret: {secret}, keep: held}}
  smtp:
    port: {1}
    outbound: {{hosts: [192.0.2.1], port: {2}, nextHop: "smtp://127.0.0.1:9", auth: {{user: a, password: b}}}}
  milter: {{listen: "127.0.0.1:{3}"}}
delivery:
  nextHop: "smtp://127.0.0.1:9"
  auth: {{user: a, password: b}}
  ca: own.pem
  certificate: own.pem
  key: own.key
  routes: [{{domains: [a.example], nextHop: "smtp://127.0.0.1:9", auth: {{user: a, password: b}}}}]
tls: {{certificate: own.pem, key: own.key}}
publicUrl: https://mail.example.com
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
yara: {{folder: rules}}
clamd: {{address: "127.0.0.1:9"}}
reputation:
  zones: [{{name: z, zone: z.example, asks: ip, answers: [{{codes: ["127.0.0.2"], means: listed, text: x}}]}}]
dkim: {{keys: [{{domain: example.com, selector: s, file: dkim.pem}}]}}
arc: {{key: {{domain: example.com, selector: s, file: dkim.pem}}}}
learning: {{reportAddresses: [{{address: spam@example.com, says: unwanted}}]}}
policy: {{file: policy.toml, outbound: policy.toml, tenants: {{{tenant}: policy.toml}}}}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {4}}}
tls: {{certificate: own.pem, key: own.key}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{0}"], secret: {secret}, ca: own.pem}}}}
staticApiTokens: [{{name: t, token: {secret}}}]
publicUrl: https://mail.example.com
signIn:
  openidConnect:
    issuer: "https://idp.example"
    clientId: c
    access: [{{claim: groups, value: mail, role: administrator}}]
feeds: [{{name: f, listName: blocked-urls, url: "https://feeds.example/x", credentials: {{user: a, password: b}}}}]
"""
Reads = set[tuple[str, str]]


def write_files(folder: Path) -> None:
    pem, key = sign_certificate(["localhost"], datetime.now(UTC))
    own = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    ports = free_ports(5)
    for name, text in ((GUARD_FILE, GUARD_YML), (ABBY_FILE, ABBY_YML)):
        path = folder / name
        (path.parent / "rules").mkdir(parents=True)
        path.write_text(text.format(*ports, secret="5f" * 32, tenant=TENANT))
        (path.parent / "own.pem").write_bytes(pem)
        (path.parent / "own.key").write_bytes(key)
        (path.parent / "policy.toml").write_text("")
        (path.parent / "rules" / "never.yar").write_text("rule never { condition: false }")
        (path.parent / "dkim.pem").write_bytes(own)
        (path.parent / "dkim.pem").chmod(0o600)


def list_sections(settings: Section) -> Iterator[Section]:
    yield settings
    for value in vars(settings).values():
        for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else (value,):
            if isinstance(each, Section):
                yield from list_sections(each)


class Recorder:
    """Notes which fields are read of which settings: of the first ones until a generation is built."""

    def __init__(self, first: Configuration, second: Configuration, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_process: Reads = set()
        self.by_generation: Reads = set()
        build, read = Generations.build, Section.__getattribute__
        reads = {id(each): self.by_process for file in (first.guard, first.abby) for each in list_sections(file)}
        later = {id(each): self.by_generation for file in (second.guard, second.abby) for each in list_sections(file)}

        async def build_next(generations: Generations, plan: Plan) -> Generation:
            reads.clear()
            reads.update(later)
            return await build(generations, plan)

        def note(section: Section, name: str) -> Any:
            if name in type(section).model_fields and (found := reads.get(id(section))) is not None:
                found.add((type(section).__name__, name))
            return read(section, name)

        monkeypatch.setattr(Generations, "build", build_next)
        monkeypatch.setattr(Section, "__getattribute__", note)


def record(folder: Path, monkeypatch: pytest.MonkeyPatch, *, with_guard: bool) -> Recorder:
    """Start abby, with guard or alone, let a second generation take over, and stop; returns what was read."""
    write_files(folder)
    first, second = load(folder), load(folder)
    # The page that shows all settings reads each of them.
    monkeypatch.setattr("gatepost.service.api_service.settings_in_force", lambda _file, _settings: ())
    recorder = Recorder(first, second, monkeypatch)

    async def run() -> None:
        data = DataFolder(folder / "data")
        data.make()
        plan = Plan(data, first.guard if with_guard else None, first.abby, config=folder, local=folder)
        stop = asyncio.Event()

        class Control:
            def attach(self, generations: Generations) -> None:
                self.generations = generations

            async def reload(self, _folder: Path) -> Any:
                raise NotImplementedError

            def restart(self) -> None:
                raise NotImplementedError

        control = Control()

        async def started(_port: int, _store: object) -> None:
            fresh = msgspec.structs.replace(plan, guard=second.guard if with_guard else None, abby=second.abby)
            control.generations.take_over(await control.generations.build(fresh))
            stop.set()

        await run_plan(plan, stop, started, bind_ports(plan), control)

    asyncio.run(run())
    return recorder


def list_live_keys(root: type[Section]) -> Iterator[tuple[str, tuple[str, str], Reads]]:
    """Every live key, with its field, and the fields of the sections above it."""

    def walk(section: type[Section], above: str, groups: Reads) -> Iterator[tuple[str, tuple[str, str], Reads]]:
        for name, field in section.model_fields.items():
            key, place = f"{above}{field.alias}", (section.__name__, name)
            inner, is_list = find_section(field.annotation)
            if (inner is None or is_list) and not needs_restart(root, key):
                yield key, place, groups
            if inner:
                yield from walk(inner, f"{key}[]." if is_list else f"{key}.", groups | {place})

    yield from walk(root, "", set())


@pytest.mark.process
def test_what_is_live_is_read_by_the_next_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_process: Reads = set()
    by_generation: Reads = set()
    for name, with_guard in (("both", True), ("alone", False)):
        with monkeypatch.context() as patches:
            recorder = record(tmp_path / name, patches, with_guard=with_guard)
        by_process |= recorder.by_process
        by_generation |= recorder.by_generation

    def is_read(field: tuple[str, str], groups: Reads) -> bool:
        """Whether the generation reads a key, or takes a section above it of which the process does not read it."""
        return field in by_generation or (bool(groups & by_generation) and field not in by_process)

    for root in (GuardSettings, AbbySettings):
        for key, field, groups in list_live_keys(root):
            assert is_read(field, groups), f"{root.__name__} {key}: no generation reads it"
    assert not is_read(("ListenSettings", "port"), {("AbbySettings", "listen")}), "a port is bound at the start"
    assert not is_read(("MilterSettings", "listen"), {("ScanSourcesSettings", "milter")})
