"""What other filters are configured with, as lists, rules and settings; and every statement with what became of it."""

import csv
import json
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.command_line import run_command

from gatepost.api.lists import records
from gatepost.migration.plan import ImportPlan
from gatepost.migration.rspamd import read_rspamd
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


@pytest.fixture
def rspamd(tmp_path: Path) -> Path:
    folder = tmp_path / "rspamd"
    (folder / "local.d" / "maps.d").mkdir(parents=True)
    (folder / "override.d").mkdir()
    files = {
        "local.d/multimap.conf": """
            GOOD { type = "from"; map = "$LOCAL_CONFDIR/local.d/maps.d/good.map"; score = -10.0; }
            BAD { type = "from"; filter = "email:domain"; map = "/etc/rspamd/local.d/maps.d/bad.map"; action = reject; }
            IPS { type = "ip"; map = ["maps.d/ips.map", "198.51.100.0/24"]; score = 8 }
            EXT { type = "filename"; filter = "extension"; map = "maps.d/ext.map"; score = 9 }
            FEW { type = "from"; filter = "email:domain"; map = "maps.d/few.map"; score = 2 }
            RE { type = "from"; regexp = true; map = "maps.d/re.map"; score = 2 }
            MAILER { type = "header"; header = "X-Mailer"; map = "maps.d/few.map"; score = 3 }
            FAR { type = "url"; map = "https://feeds.example/x.txt"; score = 8 }
            TO { type = "rcpt"; map = "maps.d/few.map"; score = 8 }
            GONE { type = "ip"; map = "maps.d/gone.map"; score = 8 }
            OUT { type = "ip"; map = "../../../etc/passwd.conf"; score = 8 }
        """,
        "local.d/maps.d/good.map": "ann@good.example # a friend\n*@corp.example\n",
        "local.d/maps.d/bad.map": "bad.example\n\n# worse\nworse.example 5\n",
        "local.d/maps.d/ips.map": "192.0.2.0/24\n",
        "local.d/maps.d/ext.map": "exe\n",
        "local.d/maps.d/few.map": "meh.example\n",
        "local.d/maps.d/re.map": "/^x.*@y/i\n/(?=z)/\n",
        "local.d/options.inc": 'local_addrs = [192.168.0.0/16, "fd00::/8"]; dns { timeout = 1s; }',
        "local.d/actions.conf": "reject = 15;",
        "local.d/headers_group.conf": "symbols { X { weight = 1 } }",
        "local.d/whitelist.conf": 'rules { "W" = { valid_dkim = true; domains = ["maps.d/few.map"]; } }',
        "local.d/rbl.conf": "rbls { a { rbl = zen.example; checks = [from] } b { rbl = d.example; checks = [urls] } }",
        "local.d/dkim_signing.conf": 'domain { example.com { path = "/k/e.key"; selector = "s1"; } }',
        "local.d/broken.conf": "a { b",
        "override.d/settings.conf": 'p { from = "@partner.example"; ip = "203.0.113.9"; whitelist = yes; }',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_rspamd_maps_networks_zones_and_keys(rspamd: Path) -> None:
    with condition_work():
        plan = read_rspamd(rspamd, find_fault)
    assert entries(plan) == {
        "allowed-senders": ["ann@good.example", "corp.example", "meh.example", "partner.example"],
        "blocked-senders": ["bad.example", "worse.example"],
        "blocked-ips": ["192.0.2.0/24", "198.51.100.0/24"],
        "blocked-file-types": ["exe"],
        "trusted-relays": ["192.168.0.0/16", "fd00::/8"],
        "allowed-ips": ["203.0.113.9"],
    }
    assert {rule.name: rule.when for rule in plan.rules.values()} == {
        "few": 'envelope_domain in ["meh.example"]',
        "re-1": 'envelope_sender.matches("(?i)^x.*@y")',
        "mailer": '"x-mailer" in headers && headers["x-mailer"].exists(value, value in ["meh.example"])',
    }
    for statement, said in (
        ("FAR", "add it as a feed"),
        ("TO", "rcpt cannot be taken"),
        ("GONE", "not in the folder"),
        ("OUT", "not in the folder"),
        ("reject", "thresholds"),
        ("symbols", "weights of their own"),
        ("broken.conf", "a section that does not end"),
        ("dns", "itself works"),
    ):
        ((outcome, reason),) = reasons(plan, statement)
        assert (outcome, said in reason) == ("not taken", True), (statement, reason)


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
    (tmp_path / "local.d").mkdir()
    (tmp_path / "local.d" / "multimap.conf").write_text(f'a {{ type = "from"; map = "/etc/rspamd/{name}.map"; }}\n')
    plan = read_rspamd(tmp_path, lambda _condition: "")
    assert "the file of the map is not in the folder" in [note.reason for note in plan.notes]


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
