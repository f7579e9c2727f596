"""What other filters are configured with, as lists, rules and settings; and every statement with what became of it."""

import csv
import json
import tomllib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.command_line import run_command

from gatepost.api.lists import records
from gatepost.migration.plan import MAX_FILE, ImportPlan
from gatepost.migration.rspamd import RspamdImport, read_rspamd
from gatepost.migration.sender_files import read_senders
from gatepost.migration.spamassassin import read_perl_regex, read_spamassassin
from gatepost.policy.condition_process import condition_work, find_fault
from gatepost.policy.layers import read_policy_file
from gatepost.policy.rules import shipped_policy

LOCAL_CF = r"""
required_score 5.0
trusted_networks 10/8 192.168. 203.0.113.7 !10.1.2.3
whitelist_from *@friend.example boss@corp.example   # colleagues
whitelist_from_rcvd *@lists.example lists.example
whitelist_auth *@bank.example
blacklist_from *@spam.example bad?guy@x.example
unblacklist_from *@spam.example
blacklist_uri_host bad.example
blacklist_to root@here.example
header LOCAL_SUBJECT Subject =~ /\bcheap (?:watches|pills)\b/i
describe LOCAL_SUBJECT Offers pills
score LOCAL_SUBJECT 3.0
header __LIST exists:X-Bad-List
header __NEWS From:addr =~ m{^news@.*\.example$}
meta LOCAL_META (__LIST && !__NEWS)
score LOCAL_META 0.5 0.6 0.7 2.5
meta LOCAL_COUNT (__LIST + __NEWS > 1)
header LOCAL_LOOK Subject =~ /foo(?=bar)/
header LOCAL_GOOD Subject =~ /minutes/
score LOCAL_GOOD -2
body LOCAL_BODY /cheap pills/i
score LOCAL_BODY 4
score BAYES_99 4.5
bayes_auto_learn 1
unheard_of 1
"""


def read_local(folder: Path, text: str = LOCAL_CF) -> ImportPlan:
    (folder / "local.cf").write_text(text)
    with condition_work():
        return read_spamassassin([folder / "local.cf"], find_fault)


def entries(plan: ImportPlan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in plan.entries:
        found.setdefault(each.list, []).append(each.entry)
    return found


def reasons(plan: ImportPlan, statement: str) -> list[tuple[str, str]]:
    return [(note.outcome, note.reason) for note in plan.notes if note.statement.startswith(statement)]


def test_spamassassin_lists_networks_and_rules(tmp_path: Path) -> None:
    plan = read_local(tmp_path)
    assert entries(plan) == {
        "trusted-relays": ["10.0.0.0/8", "192.168.0.0/16", "203.0.113.7"],
        "allowed-senders": ["friend.example", "boss@corp.example", "lists.example", "bank.example"],
        "blocked-urls": ["bad.example"],
    }
    rules = {rule.name: (rule.weight, rule.title) for rule in plan.rules.values()}
    assert rules == {
        "blocked-pattern-1": (100.0, "The sender matches bad?guy@x.example"),
        "local-subject": (3.0, "Offers pills"),
        "local-meta": (2.5, "Rule LOCAL_META of SpamAssassin"),
    }
    assert plan.rules["local-meta"].when == (
        '( ("x-bad-list" in headers) && ! (sender.matches("^news@.*\\\\.example$")) )'
    )


@pytest.mark.parametrize(
    ("statement", "outcome", "said"),
    [
        ("whitelist_from *@friend", "changed", "proves"),
        ("whitelist_auth", "taken", "allowed-senders"),
        ("required_score", "not taken", "5 points"),
        ("blacklist_to", "not taken", "recipients"),
        ("meta LOCAL_COUNT", "not taken", "counts or compares"),
        ("header LOCAL_LOOK", "not taken", "Perl"),
        ("header LOCAL_GOOD", "not taken", "not positive"),
        ("body LOCAL_BODY", "not taken", "blocked-phrases"),
        ("score LOCAL_BODY", "not taken", "its rule was not taken"),
        ("score BAYES_99", "not taken", "SpamAssassin's own"),
        ("bayes_auto_learn", "not taken", "itself works"),
        ("unheard_of", "not taken", "not known here"),
    ],
)
def test_every_line_of_spamassassin_says_what_became_of_it(
    tmp_path: Path, statement: str, outcome: str, said: str
) -> None:
    found = reasons(read_local(tmp_path), statement)
    assert found
    assert all(each == outcome and said in reason for each, reason in found), found


@pytest.mark.parametrize(
    ("perl", "expected"), [("/a b/i", "(?i)a b"), ("m{^x/y$}ms", "(?ms)^x/y$"), (r"/a\/b/", "a/b"), ("m!a!", "a")]
)
def test_perl_expressions(perl: str, expected: str) -> None:
    assert read_perl_regex(perl) == (expected, "")


@pytest.mark.parametrize("perl", ["plain", "/a", "/(a)\\1/", "/(?<!a)b/", "/a++/", "/(?>a)/", "/a b/x"])
def test_perl_expressions_that_re2_does_not_have(perl: str) -> None:
    expression, fault = read_perl_regex(perl)
    assert (expression, bool(fault)) == ("", True)


MAPS = "/etc/rspamd/local.d/maps.d"
# As rspamd prints it: numbers and truths are typed, a key or a section that stands several times is a list, macros are
# expanded, and what it ships with is merged in.
DUMP = {
    "multimap": [
        {
            "GOOD": {"type": "from", "map": f"{MAPS}/good.map", "score": -10.0},
            "BAD": {"type": "from", "filter": "email:domain", "map": f"{MAPS}/bad.map", "action": "reject"},
            "IPS": {"type": "ip", "map": [f"file://{MAPS}/ips.map", "198.51.100.0/24"], "score": 8},
            "EXT": {"type": "filename", "filter": "extension", "map": f"{MAPS}/ext.map", "score": 9},
        },
        {
            "FEW": [
                {"type": "from", "filter": "email:domain", "map": f"{MAPS}/few.map", "score": [7, "2.0"]},
                {"type": "from", "map": "again@few.example", "score": 1},
            ],
            "RE": {"type": "from", "regexp": True, "map": f"{MAPS}/re.map", "score": 2},
            "PLAIN": {"type": "from", "regexp": False, "map": f"{MAPS}/few.map", "score": 1e0},
            "MAILER": {"type": "header", "header": "X-Mailer", "map": f"{MAPS}/few.map", "score": 3},
            "FAR": {"type": "url", "map": "https://feeds.example/x.txt", "score": 8},
            "FREEMAIL": {"type": "from", "map": "https://maps.rspamd.com/freemail/free.txt.zst", "score": 8},
            "TO": {"type": "rcpt", "map": f"{MAPS}/few.map", "score": 8},
            "GONE": {"type": "ip", "map": f"{MAPS}/gone.map", "score": 8},
            "OUT": {"type": "ip", "map": "../outside.conf", "score": 8},
            "SELECTED": {"type": "from", "map": {"external": True}, "score": 8},
        },
    ],
    "options": {
        "local_addrs": ["192.168.0.0/16", "192.0.2.128/25", "2001:db8::/32"],
        "dns": {"timeout": 1.0},
    },
    "actions": {"reject": 15, "greylist": None},
    "group": {"headers": {"symbols": {"X": {"weight": 1}}}},
    "whitelist": {
        "rules": {
            "W": {"valid_dkim": True, "domains": [f"{MAPS}/few.map", "fallback+file:///etc/rspamd/maps.d/spf.inc"]},
            "B": {"valid_dkim": True, "blacklist": True, "domains": "worse.example"},
        }
    },
    "rbl": {
        "rbls": {
            "a": {"rbl": "zen.example", "checks": ["from"]},
            "b": {"rbl": "d.example", "checks": "urls"},
            "c": {"rbl": "list.dnswl.org", "checks": ["from"], "is_whitelist": True},
            "e": {"rbl": "off.example", "checks": ["from"], "enabled": False},
        }
    },
    "dkim_signing": {"domain": {"example.com": {"path": "/k/e.key", "selector": "s1"}}, "allow_envfrom_empty": True},
    "settings": {"p": {"from": "@partner.example", "ip": "203.0.113.9", "whitelist": True}},
    "worker": [{"normal": {"count": 1}}, {"controller": {}}],
}
FILES = {
    "good.map": "ann@good.example # a friend\n*@corp.example\n",
    "bad.map": "bad.example\n\n# worse\nworse.example 5\n",
    "ips.map": "192.0.2.0/24\n",
    "ext.map": "exe\n",
    "few.map": "meh.example\n",
    "re.map": "/^x.*@y/i\n/(?=z)/\n",
}


@pytest.fixture
def rspamd(tmp_path: Path) -> Path:
    """A configuration that was brought to another machine, with its maps."""
    folder = tmp_path / "rspamd"
    maps = folder / MAPS.lstrip("/")
    maps.mkdir(parents=True)
    for name, text in FILES.items():
        (maps / name).write_text(text)
    (tmp_path / "outside.conf").write_text("192.0.2.99\n")
    (folder / "rspamd.json").write_text(json.dumps(DUMP))
    return folder / "rspamd.json"


def test_rspamd_maps_networks_zones_and_keys(rspamd: Path) -> None:
    with condition_work():
        plan = read_rspamd(rspamd, find_fault)
    assert entries(plan) == {
        "allowed-senders": ["ann@good.example", "corp.example", "meh.example", "partner.example"],
        "blocked-senders": ["bad.example", "worse.example"],
        "blocked-ips": ["192.0.2.0/24", "198.51.100.0/24"],
        "blocked-file-types": ["exe"],
        "trusted-relays": ["192.0.2.128/25", "2001:db8::/32"],
        "allowed-ips": ["203.0.113.9"],
    }
    assert {rule.name: (rule.when, rule.weight) for rule in plan.rules.values()} == {
        "few": ('envelope_domain in ["meh.example"]', 2),
        "re-1": ('envelope_sender.matches("(?i)^x.*@y")', 2),
        "plain": ('envelope_sender in ["meh.example"]', 1),
        "mailer": ('"x-mailer" in headers && headers["x-mailer"].exists(value, value in ["meh.example"])', 3),
    }
    assert {key: len(items) for key, items in plan.settings.items()} == {"reputation.zones": 2, "dkim.keys": 1}
    assert {entry.comment for entry in plan.entries if entry.list == "blocked-ips"} == {"rspamd, multimap.IPS.map"}


@pytest.mark.parametrize(
    ("place", "statement", "said"),
    [
        ("multimap.FAR.map", "FAR", "add it as a feed"),
        ("multimap.FREEMAIL.map", "FREEMAIL", "ships with this map"),
        ("multimap.TO", "TO", "rcpt cannot be taken"),
        ("multimap.GONE.map", "GONE", f"bring {MAPS}/gone.map"),
        ("multimap.OUT.map", "OUT", "bring ../outside.conf"),
        ("multimap.SELECTED.map", "SELECTED", "names no file"),
        ("multimap.FEW", "FEW", "another map became rule few"),
        ("whitelist.rules.W.domains", "W: fallback", "ships with this map"),
        ("whitelist.rules.B", "B", "with a proof"),
        ("options.local_addrs", "local_addrs: 192.168.0.0/16", "ships with this network"),
        ("options", "options", "itself works"),
        ("rbl.rbls.c", "c", "that are bad"),
        ("rbl.rbls.e", "e", "that are bad"),
        ("actions", "actions", "thresholds"),
        ("group", "group", "weights of their own"),
        ("worker", "worker", "nothing that could be taken"),
    ],
)
def test_every_section_of_rspamd_says_what_became_of_it(rspamd: Path, place: str, statement: str, said: str) -> None:
    plan = read_rspamd(rspamd, lambda _condition: "")
    found = [
        note.reason
        for note in plan.notes
        if (str(note.place), note.outcome) == (place, "not taken") and note.statement.startswith(statement)
    ]
    assert len(found) == 1
    assert said in found[0]


def dumped(folder: Path, **sections: object) -> Path:
    (folder / "rspamd.json").write_text(json.dumps({"options": {}, **sections}))
    return folder / "rspamd.json"


def test_maps_of_rspamd_are_read_where_they_stand(tmp_path: Path) -> None:
    """Absolute paths, as its configuration has them; what is too large is said and not cut."""
    (tmp_path / "maps").mkdir()
    small, large = tmp_path / "maps" / "small.map", tmp_path / "maps" / "large.map"
    small.write_text("192.0.2.7\n")
    with large.open("wb") as stream:
        stream.truncate(MAX_FILE + 1)
    path = dumped(tmp_path, multimap={"a": {"type": "ip", "map": [str(small), str(large), str(tmp_path)], "score": 9}})
    plan = read_rspamd(path, lambda _condition: "")
    assert entries(plan) == {"blocked-ips": ["192.0.2.7"]}
    assert any(f"bring {large}" in note.reason for note in plan.notes)


def test_a_configuration_of_rspamd_leads_to_no_file_that_is_no_map(tmp_path: Path) -> None:
    """One of somebody else could name any file; without the ending of a map it must have been brought along."""
    secret, link = tmp_path / "secret.confidential", tmp_path / "link.map"
    secret.write_text("192.0.2.7\n")
    link.symlink_to(secret)
    folder = tmp_path / "rspamd"
    folder.mkdir()
    path = dumped(
        folder, multimap={"a": {"type": "ip", "map": [str(secret), f"file://{link}", "../secret"], "score": 9}}
    )
    plan = read_rspamd(path, lambda _condition: "")
    assert not plan.entries
    assert [note.reason.rpartition(" ")[2] for note in plan.notes if note.statement.startswith("a:")][:2] == [
        str(secret),
        str(link),
    ]
    brought = folder / str(secret).lstrip("/")
    brought.parent.mkdir(parents=True)
    brought.write_text("192.0.2.8\n")
    assert entries(read_rspamd(path, lambda _condition: "")) == {"blocked-ips": ["192.0.2.8"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ('multimap { a { type = "from"; } }', "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"options": {}, "a": ' + '{"a":' * 50_000 + "1" + "}" * 50_001, "nested too deeply"),
        ("[1]", "has no options"),
        ('{"GOOD": {"type": "from"}}', "has no options"),
        ('{"options": {}, "options": {}}', "twice"),
        ('{"options": [' + "1," * 200_000 + "1]}", "more than 100,000 values"),
    ],
)
def test_a_broken_configuration_of_rspamd_writes_nothing(tmp_path: Path, text: str, said: str) -> None:
    path, out = tmp_path / "rspamd.json", tmp_path / "out"
    path.write_text(text)
    code, _, fault = run_command("import", "rspamd", path, "--out", out)
    assert (code != 0, said in fault, str(path) in fault, out.exists()) == (True, True, True, False), fault


def test_a_configuration_of_rspamd_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "rspamd.json").open("wb") as stream:
        stream.truncate(MAX_FILE + 1)
    with pytest.raises(OSError, match="larger than 32 MiB"):
        read_rspamd(tmp_path / "rspamd.json", lambda _condition: "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.text()
                | st.sampled_from(("type", "map", "score", "rules", "domain", "rbls", "from", "ip", "whitelist")),
                inner,
            )
        ),
        max_leaves=8,
    )
)
def test_any_value_in_a_section_of_rspamd_is_read(value: object) -> None:
    sections = dict.fromkeys(("multimap", "whitelist", "options", "rbl", "dkim_signing", "settings"), value)
    plan = RspamdImport(Path("/nonexistent"), lambda _condition: "").read(sections)
    assert plan.notes


def test_lists_in_lists_of_rspamd_end() -> None:
    value: object = "192.0.2.1"
    for _ in range(100_000):
        value = [value]
    plan = RspamdImport(Path("/nonexistent"), lambda _condition: "").read({"options": {"local_addrs": value}})
    assert entries(plan) == {"trusted-relays": ["192.0.2.1"]}
    while isinstance(value, list):  # to free it all at once is recursive
        value = value.pop()


MICROSOFT = f"""#TYPE x
"Value","Action","ListType"
"bad.example","Block","Sender"
"ok@x.example","Allow","Sender"
"evil.example/a","Block","Url"
"{"ab" * 32}","Block","FileHash"
"x","Audit","Sender"
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "access",
            "bad@x.example REJECT no\n.y.example\t550 go\n192.168 REJECT\ngood.example OK\n/re/ REJECT\nz.example X\n",
            {
                "blocked-senders": ["bad@x.example", "*.y.example"],
                "blocked-ips": ["192.168.0.0/16"],
                "allowed-senders": ["good.example"],
            },
        ),
        ("plain.txt", "one.example\ntwo@x.example\n", {"blocked-senders": ["one.example", "two@x.example"]}),
        (
            "tabl.csv",
            MICROSOFT,
            {
                "blocked-senders": ["bad.example"],
                "allowed-senders": ["ok@x.example"],
                "blocked-urls": ["evil.example/a"],
                "blocked-files": ["ab" * 32],
            },
        ),
        (
            "pmg.json",
            json.dumps([{"email": "a@x.example"}, {"domain": "y.example"}, {"ip": "192.0.2.1"}, {"regex": ".*"}, 5]),
            {"blocked-senders": ["a@x.example", "y.example"], "blocked-ips": ["192.0.2.1"]},
        ),
        ("broken.json", "[{", {}),
        ("deep.json", "[" * 100_000, {}),
        ("half.json", '[{"email": "\\ud800@x.example"}]', {}),
        ("large.csv", f'Value,Action\n"{"a" * 200_000}",Block\n', {}),
        ("open.csv", 'Value,Action\nok@x.example,Allow\n"' + "a\n" * 100_000, {}),
    ],
)
def test_files_of_senders(tmp_path: Path, name: str, text: str, expected: dict[str, list[str]]) -> None:
    (tmp_path / name).write_text(text)
    plan = read_senders([tmp_path / name], allows=False)
    assert entries(plan) == expected
    assert plan.notes, "what is not taken is said"
    assert plan.write(tmp_path / "out")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_the_map_of_rspamd_has_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    source = f"/etc/rspamd/{name}.map"
    plan = read_rspamd(dumped(tmp_path, multimap={"a": {"type": "from", "map": source}}), lambda _condition: "")
    assert f"no file of up to 32 MiB that can be read: bring {source}" in [note.reason for note in plan.notes]


def test_names_that_yaml_cannot_have_are_not_suggested(tmp_path: Path) -> None:
    domains = {"a\x7f.example": {"path": "/k", "selector": "s"}}
    zones = {"a": {"rbl": "a\x85.example", "checks": "from"}}
    plan = read_rspamd(dumped(tmp_path, dkim_signing={"domain": domains}, rbl={"rbls": zones}), lambda _condition: "")
    assert not plan.settings
    assert len(plan.notes) == 3


def test_a_rule_with_a_control_character_can_be_read_again(tmp_path: Path) -> None:
    """TOML has no DEL in a text, and JSON has."""
    plan = read_local(tmp_path, "header ODD Subject =~ /a\x7fb/\nscore ODD 2\n")
    plan.write(tmp_path / "out")
    rules = tomllib.loads((tmp_path / "out" / "policy.toml").read_text())["rules"]
    assert "a\x7fb" in rules["odd"]["when"]


def test_what_is_written_is_what_other_commands_read(tmp_path: Path, rspamd: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "local.cf").write_text(LOCAL_CF)
    code, said, _ = run_command("import", "spamassassin", tmp_path / "local.cf", "--out", out)
    assert code == 0
    assert f"gatepost lists import allowed-senders {out}/allowed-senders.csv --dry-run" in said
    with condition_work():
        stated = read_policy_file((out / "policy.toml").read_text(), shipped_policy())
    assert stated.statements
    assert "local-subject" in tomllib.loads((out / "policy.toml").read_text())["rules"]
    lines = (out / "allowed-senders.csv").read_bytes().splitlines(keepends=True)
    rows = [record.entry.entry for record in records(lines, "csv")]
    assert rows == ["friend.example", "boss@corp.example", "lists.example", "bank.example"]
    report = list(csv.DictReader((out / "report.csv").read_text().splitlines()))
    assert {row["outcome"] for row in report} == {"taken", "changed", "not taken"}
    code, _, fault = run_command("import", "rspamd", rspamd, "--out", out)
    assert (code != 0, "has files already" in fault) == (True, True)
    other = tmp_path / "other"
    code, said, _ = run_command("import", "rspamd", rspamd, "--out", other, "--json")
    assert json.loads(said)["outcomes"]["taken"] > 5
    suggested = yaml.safe_load((other / "guard.yml").read_text())
    assert suggested["dkim"]["keys"] == [{"domain": "example.com", "selector": "s1", "file": "/k/e.key"}]
    assert [zone["asks"] for zone in suggested["reputation"]["zones"]] == ["ip", "domain"]
    code, _, fault = run_command("import", "senders", tmp_path / "absent", "--out", tmp_path / "third")
    assert (code != 0, "absent" in fault) == (True, True)
