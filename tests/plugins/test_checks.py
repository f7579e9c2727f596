"""The code of plug-ins: held to the declaration when it is loaded, and to its kinds when it runs."""

import subprocess
import sys

import pytest
from tests.asking import run_in_steps
from tests.plugins.conftest import DECLARED, EXAMPLE, MakePlugin

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.checks.plugins import load_all
from gatepost.checks.reading import Check, Reading
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.plugins import PluginError, find_code_fault, find_plugin
from gatepost.workers.warmup import NOW, answers_to

FINE = "example:parking-fine"


def report_on(raw: bytes, checks: tuple[Check, ...], **context: object) -> Report:
    analysis = analyse(raw, Envelope(), Context(now=NOW, extra=checks, **context))  # type: ignore[arg-type]
    return run_in_steps(analysis, answers_to)


def test_the_example_is_loaded_under_its_namespace(example: str) -> None:
    (check,) = load_all([example])
    plugin = find_plugin(example)
    assert (check.name, check.kinds) == ("example.parking_fine", tuple(plugin.kinds.values()))
    (attack,), (twin,) = plugin.golden("attacks"), plugin.golden("twins")
    assert FINE in report_on(attack.read_bytes(), (check,)).tags
    assert FINE not in report_on(attack.read_bytes(), ()).tags
    assert FINE not in report_on(twin.read_bytes(), (check,)).tags


def test_the_tests_of_the_example_pass(example: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLE)
    assert ended.returncode == 0, ended.stdout
    assert "5 passed" in ended.stdout


def test_phrases_of_a_plugin_are_found_once_and_told_apart_by_place(example: str) -> None:
    load_all([example])
    own = sys.modules["gatepost_example.checks"].PLUGIN
    text = b"Subject: final notice\n\nYour parking fine, your parking fine, and your toll penalty.\n"
    reading = Reading(message=read(text))
    found = own.find_phrases(reading)
    assert found.themes == {"haste": ("final notice",), "fine": ("parking fine", "toll penalty")}
    assert found.in_subject == {"haste"}
    assert own.find_phrases(reading) is found
    assert own.find_phrases(Reading()).themes == {}


NO_CHECKS = "CHECKS = ()\n"
MADE = "from gatepost.checks.reading import check\nfrom gatepost.findings.kinds import Kind, TEXT_URGENCY\n"
FAULTS = {
    "import not_there\n": "cannot be imported: ModuleNotFoundError: No module named 'not_there'",
    "import sys\nsys.exit(3)\n": "cannot be imported: SystemExit: 3",
    "raise ValueError('no key')\n": "cannot be imported: ValueError: no key",
    "OTHER = 1\n": "cannot be imported: AttributeError",
    "CHECKS = 5\n": "must be a tuple of checks, made with the decorator `check`",
    "CHECKS = (len,)\n": "must be a tuple of checks, made with the decorator `check`",
    NO_CHECKS: "it has 0 checks; there can be 1 to 100",
    MADE
    + "@check(TEXT_URGENCY)\ndef a(r): yield\nCHECKS = (a,)": "the check a finds text:urgency, which gatepost.toml",
    MADE + "@check(Kind('faulty:thing', 'Other'))\ndef a(r): yield\nCHECKS = (a,)": "the check a finds faulty:thing",
    MADE + "@check()\ndef a(r): yield\nCHECKS = (a,)": "no check finds faulty:thing, which gatepost.toml declares",
    MADE + "@check()\ndef a(r): yield\nCHECKS = (a, a)": "two of its checks are called a",
    MADE + "@check(needs={'moon'})\ndef a(r): yield\nCHECKS = (a,)": "the check a needs 'moon', which is none of",
    MADE + "@check(themes={'moon'})\ndef a(r): yield\nCHECKS = (a,)": "the check a waits for the theme 'moon'",
    "from gatepost.checks.plugins import this_plugin\nthis_plugin(__package__).kind('faulty:other')\n": "has no kind",
    "from gatepost.checks.plugins import this_plugin\nthis_plugin(__package__).coefficients('faulty:thing', 'a')\n": (
        "gatepost.toml has no table [faulty:thing]"
    ),
}


@pytest.mark.parametrize(("code", "sentence"), FAULTS.items(), ids=range(len(FAULTS)))
def test_faulty_code_is_refused_when_it_is_loaded(make_plugin: MakePlugin, code: str, sentence: str) -> None:
    name = make_plugin(code=code)
    with pytest.raises(PluginError) as refused:
        load_all([name])
    assert str(refused.value).startswith("gatepost-faulty 0.1: ")
    assert sentence in str(refused.value)


def test_an_unreadable_phrase_is_refused(make_plugin: MakePlugin) -> None:
    name = make_plugin(DECLARED + '[phrases.a]\nen = ["a (b"]\n')
    with pytest.raises(PluginError, match="a phrase cannot be read"):
        load_all([name])


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("", ""),
        ("raise ValueError('no key')", "gatepost-faulty 0.1: gatepost_faulty.checks:CHECKS cannot be imported: Value"),
        ("import os\nos._exit(7)", "gatepost-faulty ended the process that loads plug-ins, with status 7"),
    ],
)
def test_a_child_process_tells_what_is_wrong_with_the_code(make_plugin: MakePlugin, code: str, sentence: str) -> None:
    assert find_code_fault([make_plugin(code=code)]).startswith(sentence)
    assert "gatepost_faulty" not in sys.modules


@pytest.mark.variant
@pytest.mark.process
def test_a_plugin_that_hangs_is_not_waited_for(make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.plugins.LOAD_SECONDS", 3.0)
    name = make_plugin(code="while True: pass")
    assert find_code_fault([name]) == "gatepost-faulty did not load within 3 seconds"


RAW = b"From: ann@other.example\nSubject: hello\n\nhttp://192.0.2.7/a\n"
STAGE = "check:faulty.thing"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('x')\n    yield", "it crashed (ValueError)"),
        ("yield 1", "it crashed (PluginError)"),
        ("from gatepost.findings.kinds import FILE_EICAR\n    yield FILE_EICAR.at('text')", "it crashed (PluginError)"),
        ("yield THING.at('text', strength=2.0)", "it crashed (PluginError)"),
        ("yield THING.at('text', strength=float('nan'))", "it crashed (PluginError)"),
    ],
)
def test_a_check_that_misbehaves_is_an_outcome_in_the_ledger(make_plugin: MakePlugin, body: str, reason: str) -> None:
    report = report_on(RAW, load_all([make_plugin(body=body)]))
    assert [(each.stage, each.state, each.reason) for each in report.outcomes] == [(STAGE, "failed", reason)]
    assert report.verdict == "unscannable"
    assert "text:bare-link" in report.tags  # what others found still counts


def test_findings_are_cut_to_what_a_ledger_keeps(make_plugin: MakePlugin) -> None:
    body = "yield from (THING.at('w' * 999, about='u' * 9999, fact='f' * 999) for _ in iter(int, 1))"
    found = list(load_all([make_plugin(body=body)])[0](Reading()))
    assert len(found) == 100
    assert {(len(each.where), len(each.about), len(each.facts["fact"])) for each in found} == {(300, 4096, 300)}


def test_a_stage_of_a_plugin_can_be_skipped(make_plugin: MakePlugin) -> None:
    report = report_on(RAW, load_all([make_plugin()]), skip={STAGE: "it ran out of its time"})
    assert [(each.stage, each.state) for each in report.outcomes] == [(STAGE, "skipped")]
    assert "faulty:thing" not in report.tags
