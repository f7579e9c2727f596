"""Whatever ends by itself has a test beyond its end: caches, locks with a lease, and entries with a date.

They are found in the code. A comparison of a clock with a moment that was kept is an end (`find_ends`), and so is a
column of the schema that has one (`find_columns`). Each is named in one of the tables below, with its test; what is
compared and ends nothing says what it is instead. Tests of this file are of ends that no other file is about.
"""

import ast
import re
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.clock import Clock
from tests.own_names import replace_in
from tests.smtp.conftest import Hop

from gatepost.analysis.report import Report
from gatepost.guard.quarantine import quarantine
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.process.health import HealthLedger
from gatepost.settings.keys import OpenidConnectSettings
from gatepost.smtp.routing import IDLE_SECONDS, Relay
from gatepost.store import bulk_actions, digests
from gatepost.store.message_records import MessageRecord
from gatepost.store.publishing import SILENT_MILLISECONDS, NodeDetail, NodeRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store
from gatepost.web import openid
from gatepost.web.context import FRAME_MILLISECONDS, WebContext
from gatepost.web.pages import messages, overview

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/gatepost"
HERE = "tests/test_expiries.py"
CLOCKS = frozenset({"clock", "_clock", "now", "_now", "monotonic", "time"})
PRESENT = frozenset({"now", "moment", "today"})
PERIOD = "a period: work or a look that comes again"
PATIENCE = "a deadline: whoever waits gives up"
WINDOW = "a share of time that is measured"
SHOWN = "a page or a check says what storage decides"

# The place of each comparison: its test, or why it is no end of something that is kept.
ENDS: dict[str, str] = {
    "abby/authenticator.py _recent": "tests/abby/test_authenticator.py::test_wrong_guesses_are_forgotten_in_time",
    "abby/cores.py _has_given_up": "tests/abby/test_cores.py::test_a_core_that_falls_silent_loses_what_it_holds",
    "api/connections.py _look": PATIENCE,
    "api/connections.py count": WINDOW,
    "api/server.py is_unused_since": PATIENCE,
    "checks/headers/fields.py parse_date": "no clock: a date of a header",
    "cli/printing.py update": PERIOD,
    "digests/mail.py _work": PERIOD,
    "events/stream.py write": "tests/events/test_filters.py::test_so_many_in_an_hour_then_a_summary",
    "guard/answers/campaigns.py _read_marks": "tests/guard/answers/test_campaigns.py::"
    "test_a_mark_that_is_committed_after_a_later_one_is_read",
    "guard/answers/dns.py _end_overdue": PATIENCE,
    "guard/answers/dns.py get_all": "tests/guard/answers/test_dns.py::"
    "test_an_answer_holds_as_long_as_it_says_within_bounds",
    "guard/answers/dns.py sweep": PATIENCE,
    "guard/answers/lists.py _holds": "tests/store/test_lookup.py::"
    "test_an_unkeyed_entry_that_expires_is_another_version_without_any_change",
    "guard/answers/reputation.py inquire": "tests/guard/answers/test_reputation.py::"
    "test_a_muted_zone_is_asked_again_later",
    "guard/answers/reputation.py mute_reason": "tests/guard/answers/test_reputation.py::"
    "test_a_muted_zone_is_asked_again_later",
    "guard/answers/sender_history.py _known_before": "tests/guard/answers/test_sender_history.py::"
    "test_what_was_delivered_on_days_before_is_known",
    "guard/quarantine/quarantine.py _check_size": f"{HERE}::test_the_size_of_what_is_held_is_summed_again",
    "guard/quarantine/quarantine.py _has_room": f"{HERE}::test_the_size_of_what_is_held_is_summed_again",
    "process/background_work.py is_running": WINDOW,
    "process/background_work.py must_rest": WINDOW,
    "rejudge/list_plan.py try_adding": SHOWN,
    "scanning/spool.py _remove_stale": "tests/scanning/test_spool.py::"
    "test_leftovers_of_a_system_without_nameless_files_are_removed",
    "service/certificates.py take": "tests/service/test_certificates.py::"
    "test_where_the_one_before_has_expired_too_the_file_counts",
    "service/doctor/examination.py _count_sightings": SHOWN,
    "service/event_stream.py look": "tests/service/test_web_alerts.py::test_a_threshold_is_told_once_in_its_time",
    "service/health.py _check_writing": WINDOW,
    "service/running.py handle": PATIENCE,
    "service/schedules.py _is_due": PERIOD,
    "service/schedules.py is_training_due": PERIOD,
    "service/schedules.py look": PERIOD,
    "smtp/hop_answers.py _look": WINDOW,
    "smtp/hop_answers.py is_to_be_tried": "tests/smtp/test_hop_answers.py::"
    "test_without_mail_it_is_tried_and_then_one_message_that_is_put_off_is_enough",
    "smtp/outbound.py _read": "tests/store/test_flow_counts.py::"
    "test_senders_of_outbound_mail_are_counted_over_all_nodes",
    "smtp/routing.py _refresh": f"{HERE}::test_a_connection_that_lay_idle_for_long_is_closed",
    "smtp/session.py stop": PATIENCE,
    "smtp/transaction.py _keep_alive": PERIOD,
    "store/alerts.py reach": "tests/service/test_web_alerts.py::test_a_threshold_is_told_once_in_its_time",
    "store/api_keys.py _find": "tests/store/test_api_keys.py::test_what_opens_nothing",
    "store/api_keys.py note": "tests/store/test_token_uses.py::test_a_use_is_written_once_a_minute",
    "store/change_groups.py _start_or_wait": "tests/store/test_change_groups.py::test_it_waits_for_a_moment_only",
    "store/digests.py _current_key": f"{HERE}::test_a_key_of_digests_signs_for_its_time",
    "store/privacy.py erase_held": "tests/store/test_privacy.py::test_held_mail",
    "store/publishing.py state": f"{HERE}::test_a_node_is_silent_after_its_time",
    "store/second_factors.py take_challenge": "tests/store/test_security_keys.py::"
    "test_a_challenge_is_taken_once_in_time_and_for_its_purpose",
    "store/sessions.py _find_session": "tests/store/test_sessions.py::test_it_ends_at_its_time_or_unused",
    "store/sessions.py find": "tests/store/test_sessions.py::test_its_use_is_noted_once_a_minute",
    "store/sqlite.py _gather": WINDOW,
    "store/upgrading.py _merge": SHOWN,
    "web/context.py _describe_frame": f"{HERE}::test_what_pages_remember_is_asked_again",
    "web/openid.py _find_endpoints": f"{HERE}::test_what_is_known_of_a_provider_ends",
    "web/pages/lists.py show_entries": SHOWN,
    "web/pages/messages.py _find_live": f"{HERE}::test_what_pages_remember_is_asked_again",
    "web/pages/overview.py _count": f"{HERE}::test_what_pages_remember_is_asked_again",
    "web/pages/overview.py _format_tick": "no clock: ticks of a chart",
    "web/pages/quarantine.py _render_work": SHOWN,
    "workers/fair_queue.py were_several": WINDOW,
    "workers/jobs.py get": "tests/workers/test_poison.py::test_a_message_is_remembered_for_a_while",
    "workers/pool.py _watch": PATIENCE,
    "workers/process.py is_overdue": PATIENCE,
    "workers/process.py is_stalled": PATIENCE,
}
# Leases and dates in storage.
COLUMNS: dict[str, str] = {
    "api_keys.expires": "tests/store/test_api_keys.py::test_what_opens_nothing",
    "bulk_actions.lease": f"{HERE}::test_work_that_was_given_up_can_be_claimed_after_its_lease",
    "digest_runs.planned_until": "no end: up to which moment digests are planned",
    "digests.expires": "tests/digests/test_links.py::test_it_ends",
    "entries.expires": "tests/store/test_entries.py::test_what_has_expired_is_gone_before_it_is_purged",
    "flow_counts.expires": "tests/store/test_flow_counts.py::test_counts_add_up_until_they_are_over",
    "held.lease": f"{HERE}::test_a_release_that_was_given_up_can_be_claimed_after_its_lease",
    "jobs.locked_until": "tests/store/test_jobs.py::test_a_lease_is_renewed_beyond_its_first_end",
    "sessions.challenge_until": "tests/store/test_security_keys.py::"
    "test_a_challenge_is_taken_once_in_time_and_for_its_purpose",
    "sessions.expires": "tests/store/test_sessions.py::test_it_ends_at_its_time_or_unused",
    "sign_in_attempts.locked_until": "tests/store/test_sign_in_attempts.py::test_a_running_lock_is_not_extended",
}


def is_clock(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or node.args:
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in CLOCKS


def is_end(compared: ast.Compare) -> bool:
    """Whether a moment that was kept, in an attribute or a collection, is compared with the present."""
    if not any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in compared.ops):
        return False
    parts = list(ast.walk(compared))
    called = [each.func for each in parts if isinstance(each, ast.Call)]
    has_clock = any(is_clock(each) or (isinstance(each, ast.Name) and each.id in PRESENT) for each in parts)
    return has_clock and any(isinstance(each, ast.Attribute | ast.Subscript) and each not in called for each in parts)


@cache
def find_ends() -> frozenset[str]:
    return frozenset(
        f"{path.relative_to(SOURCE)} {function.name}"
        for path in SOURCE.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(each, ast.Compare) and is_end(each) for each in ast.walk(function))
    )


def find_columns() -> frozenset[str]:
    found, table = set[str](), ""
    for line in (SOURCE / "store/schema/sqlite.sql").read_text("utf-8").splitlines():
        if made := re.match(r"CREATE (?:VIRTUAL )?TABLE (\w+)", line):
            table = made[1]
        elif column := re.match(r"    (expires|lease|\w+_until|\w+_expires) (?:INTEGER|BIGINT)\b", line):
            found.add(f"{table}.{column[1]}")
    return frozenset(found)


def test_each_end_has_a_test_beyond_it() -> None:
    assert find_ends() == ENDS.keys()
    assert find_columns() == COLUMNS.keys()
    for place, said in {**ENDS, **COLUMNS}.items():
        file, _, name = said.partition("::")
        if file.startswith("tests/") and file.endswith(".py"):
            assert re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), place


def new_record() -> MessageRecord:
    report = Report("spam", "quarantine", (), 700, "it adds up", subject="Hello")
    return MessageRecord(new_id(), 1, 2_000, Envelope("a@x.example", ("b@y.example",)), 5, "ab" * 32, report)


async def test_the_size_of_what_is_held_is_summed_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(1_000.0)
    replace_in(monkeypatch, quarantine, "time", monotonic=clock)
    held = Quarantine(store, RawFolder(tmp_path / "q"), max_size=100)
    assert not held._has_room(1), "nobody has looked yet"
    await held._check_size(1)
    await store.quarantine.hold(msgspec.structs.replace(new_record(), size=60))
    clock.now += quarantine.SIZE_SECONDS
    assert held._has_room(50), "what another core holds is not known yet"
    clock.now += 1
    assert not held._has_room(50)
    await held._check_size(1)
    assert (held._has_room(40), held._has_room(50)) == (True, False)


def test_a_note_is_shown_until_its_end() -> None:
    clock = Clock(1_000.0)
    ledger = HealthLedger(clock)
    ledger.note("sender", "a sender is over its limit", seconds=60.0)
    clock.now += 59
    assert [each.sentence for each in ledger.reasons] == ["a sender is over its limit"]
    clock.now += 1
    assert not ledger.reasons


async def test_a_connection_that_lay_idle_for_long_is_closed() -> None:
    hop = Hop()
    relay = Relay(f"smtp://127.0.0.1:{await hop.start()}", "off", "gate.example")
    for seconds, opened in ((IDLE_SECONDS - 1, 1), (IDLE_SECONDS + 1, 2)):
        relay.give_back(await relay.borrow())
        relay._idle[0].last_used -= seconds
        relay.give_back(await relay.borrow())
        assert relay.opened == opened
    relay._idle[0].last_used -= IDLE_SECONDS + 1
    await relay._refresh()
    assert (relay.opened, len(relay._idle)) == (3, 1)
    await relay.close()
    await hop.stop()


async def test_a_key_of_digests_signs_for_its_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, day = Clock(1_800_000_000_000), 86_400_000
    monkeypatch.setattr(digests, "now", clock)
    first = await store.digests.current_key(day)
    clock.now += digests.KEY_MILLISECONDS
    assert (await store.digests.current_key(day)).number == first.number
    clock.now += 1
    second = await store.digests.current_key(day)
    assert second.number != first.number
    assert [key.number for key in await store.digests.keys()] == [second.number, first.number], "its links live on"
    clock.now += day
    await store.digests.current_key(day)
    assert [key.number for key in await store.digests.keys()] == [second.number]


def test_a_node_is_silent_after_its_time() -> None:
    node = NodeRecord("1", "mx1", 1_000, NodeDetail())
    assert node.state(1_000 + SILENT_MILLISECONDS) == node.detail.health.state
    assert node.state(1_001 + SILENT_MILLISECONDS) == "silent"


async def test_work_that_was_given_up_can_be_claimed_after_its_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(1_800_000_000_000)
    monkeypatch.setattr(bulk_actions, "now", clock)
    work = await store.bulk_actions.create(new_id(), "delete", ["x", "y"])
    assert await store.bulk_actions.claim(work.id)
    clock.now += bulk_actions.LEASE_MILLISECONDS
    assert not await store.bulk_actions.claim(work.id)
    await store.bulk_actions.add_results(work.id, [""])
    clock.now += 1
    assert not await store.bulk_actions.claim(work.id), "whoever works has it for longer"
    clock.now += bulk_actions.LEASE_MILLISECONDS
    assert await store.bulk_actions.claim(work.id)


async def test_a_release_that_was_given_up_can_be_claimed_after_its_lease(store: Store) -> None:
    record = new_record()
    await store.messages.record(record)
    await store.quarantine.hold(record)
    assert await store.quarantine.claim(record.ggrid, "a process that was killed", 1_000, 2_000)
    assert not await store.quarantine.claim(record.ggrid, "another", 1_999, 3_000)
    assert await store.quarantine.claim(record.ggrid, "another", 2_001, 3_000)


async def test_what_is_known_of_a_provider_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(10_000.0), list[str]()
    replace_in(monkeypatch, openid, "time", monotonic=clock)
    settings = OpenidConnectSettings.model_construct(issuer="https://id.example")
    provider = openid.Provider(settings)

    async def ask(_method: str, url: str) -> dict[str, Any]:
        asked.append(url.rpartition("/")[2])
        if is_away:
            raise openid.ProviderError("the provider does not answer")
        there = {name: f"https://id.example/{name}" for name in ENDPOINTS}
        return {"issuer": settings.issuer, **there} if asked[-1] == "openid-configuration" else {"keys": []}

    monkeypatch.setattr(provider, "_ask", ask)
    is_away = True
    for seconds, times in ((0.0, 1), (openid.PAUSE_SECONDS - 1, 1), (1.0, 2)):
        clock.now += seconds
        with pytest.raises(openid.ProviderError):
            await provider.endpoints()
        assert len(asked) == times, "a provider that is away is asked again after a while"
    is_away = False
    clock.now += openid.PAUSE_SECONDS
    await provider.endpoints()
    await provider.keys("1", "RS256")
    clock.now += openid.KEPT_SECONDS
    await provider.endpoints()
    assert asked[2:] == ["openid-configuration", "jwks_uri"]
    clock.now += 1
    await provider.keys("1", "RS256")
    assert asked[4:] == ["openid-configuration", "jwks_uri"]


ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class StrawContext(SimpleNamespace):
    """As much of a `WebContext` as what it remembers needs."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        super().__init__(store=store, now=clock, frames={}, top_values={}, remover=None)


async def test_what_pages_remember_is_asked_again(store: Store) -> None:
    clock = Clock(1_800_000_000_000)
    context: Any = StrawContext(store, lambda: int(clock.now))
    request: Any = SimpleNamespace(user=SimpleNamespace(tenant=None), may=lambda _right: True)
    search: Any = SimpleNamespace(text="", fault=None, messages=MessageFilter())
    span = overview.SPANS[0]

    async def count_held() -> int:
        return int((await WebContext._describe_frame(context, request))["held_shown"] or 0)

    async def count_live() -> int:
        return len((await messages._find_live(context, request, search))["rows"])

    async def count_top() -> int:
        return (await overview._count(context, request, None, span, int(clock.now))).top.counted

    looks: dict[Callable[[], Coroutine[Any, Any, int]], int] = {
        count_held: FRAME_MILLISECONDS,
        count_live: messages.LIVE_MILLISECONDS,
        count_top: overview.TOP_MILLISECONDS,
    }
    before = {look: await look() for look in looks}
    record = msgspec.structs.replace(new_record(), completed=int(clock.now))
    await store.messages.record(record)
    await store.quarantine.hold(record)
    for look, milliseconds in sorted(looks.items(), key=lambda each: each[1]):
        clock.now = 1_800_000_000_000 + milliseconds - 1
        assert await look() == before[look]
        clock.now += 1
        assert await look() == before[look] + 1
