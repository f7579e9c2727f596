"""Claims of the pages, each with what holds it: a fact that is looked up here, a test that shows it, or both.

A claim that is reworded has to be reworded here, and whoever does so sees what it rests on. A fact that changes makes
its sentence fail.
"""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, get_args

import pytest
from pydantic.fields import FieldInfo
from tests.doc_blocks import ROOT

from gatepost.api.call_limits import LIMITS, CallKind
from gatepost.api.lists import MAX_COMMENT, MAX_ENTRIES
from gatepost.api.openapi import LISTS_VERSION, SCANNING_VERSION
from gatepost.client.calls import RETRIED, Retries
from gatepost.findings import kinds
from gatepost.guard.quarantine.quarantine import ORPHAN_SECONDS, PURGE_SECONDS
from gatepost.lists.entries import MAX_ENTRY
from gatepost.policy.rules import shipped_policy
from gatepost.service.listeners import FAREWELL_SECONDS
from gatepost.settings.keys import AbbySettings, GuardSettings, HistorySettings
from gatepost.settings.values import Section
from gatepost.store.learning import MAX_PER_DAY, MAX_POOL

GUARD = GuardSettings.model_validate({"scanSources": {"restApi": {}}})
ABBY = AbbySettings.model_validate({"serviceProviders": {"core": {"hosts": ["https://127.0.0.1:9785"]}}})
RETRIES = Retries()
GIB = 1 << 30

# What opens connections to other machines, by what the pages say of it. Mail is read by none of these modules.
CONNECTING = {
    "abby/remote_core.py": "its cores",
    "client/__init__.py": "the Python client",
    "events/output.py": "receivers of events",
    "events/webhook.py": "receivers of events",
    "feeds/run.py": "feeds",
    "guard/answers/clamd.py": "ClamAV",
    "guard/answers/dns.py": "DNS",
    "guard/quarantine/raw_store.py": "an object store",
    "mailboxes/removal.py": "IMAP servers",
    "smtp/routing.py": "next hops",
    "store/": "PostgreSQL",
    "web/openid.py": "OpenID Connect provider",
}
_CONNECTS = re.compile(
    r"\b(?:import|from) (?:httpx|aiohttp|requests|asyncpg|obstore|smtplib|imaplib|http\.client|urllib\.request)\b"
    r"|\bopen_connection\(|\bcreate_connection\(|\bopen_unix_connection\(|\bcreate_datagram_endpoint\(|\bsock_connect\("
)


def connects_only_as_said() -> bool:
    """Whether no other module opens connections, and the page of requirements names what each of these is for."""
    page = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    source = ROOT / "src" / "gatepost"
    found = {
        str(file.relative_to(source)) for file in source.rglob("*.py") if _CONNECTS.search(file.read_text("utf-8"))
    }
    is_named = all(said in page for said in CONNECTING.values() if said != "the Python client")
    return is_named and all(any(name.startswith(known) for known in CONNECTING) for name in found) and len(found) >= 10


def has_limit(kind: CallKind, in_all: int, per_tenant: int, per_caller: int) -> bool:
    limit = LIMITS[kind]
    return (limit.in_all, limit.per_tenant, limit.per_caller) == (in_all, per_tenant, per_caller)


def encrypted_is_clean() -> bool:
    rule = shipped_policy().kinds[kinds.LIMIT_ENCRYPTED.id]
    return (rule.weight, rule.verdict) == (0.0, "clean")


def takes_python(version: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return bool(project["requires-python"] == f">={version}")


def has_default(file: str, path: str, value: object) -> bool:
    """Whether a key, by its path in a file, has this value where nothing sets it; lists and maps stand for their
    elements."""
    section: type[Section] = GuardSettings if file == "guard" else AbbySettings
    *above, last = path.split(".")
    for name in above:
        section = find_section(find_field(section, name).annotation)
    return bool(find_field(section, last).get_default(call_default_factory=True) == value)


def find_field(section: type[Section], alias: str) -> FieldInfo:
    return next(field for field in section.model_fields.values() if field.alias == alias)


def find_section(annotation: Any) -> type[Section]:
    waiting = [annotation]
    while waiting:
        each = waiting.pop()
        if isinstance(each, type) and issubclass(each, Section):
            return each
        waiting += get_args(each)
    raise AssertionError(annotation)


class Claim(NamedTuple):
    """A sentence of a page, or the part of it that claims; `test` is `file::function` below `tests`."""

    page: str
    sentence: str
    fact: Callable[[], bool] | None = None
    test: str = ""


CLAIMS = [
    Claim(
        "integrating.md",
        "five attempts, pauses from 0.5 s doubling up to 30 s, or as long as `Retry-After` asks",
        lambda: (RETRIES.attempts, RETRIES.first, RETRIES.longest) == (5, 0.5, 30.0),
        "blackbox/test_client_retries.py::test_it_gives_up_after_its_attempts",
    ),
    Claim("integrating.md", "| 429, 503 | yes, after `Retry-After` seconds |", lambda: {429, 503} <= RETRIED),
    Claim("integrating.md", "| 502, 504 | yes |", lambda: {502, 504} <= RETRIED),
    Claim("integrating.md", "it leaves a 500 to you", lambda: 500 not in RETRIED),
    Claim("api-limits.md", "8 for a key, 8 for a tenant, 32 in all", lambda: has_limit("stream", 32, 8, 8)),
    Claim("api-limits.md", "2 for a key, 3 for a tenant, 24 in all", lambda: has_limit("dry run", 24, 3, 2)),
    Claim("api-limits.md", "`maxGuardRequestsInProcessing`, 20 |", lambda: GUARD.maximum == 20),
    Claim("api-limits.md", "`analysisTimeout`, 30 s", lambda: GUARD.analysis_timeout == 30_000),
    Claim("api-limits.md", "`stageLimit`, 5 s", lambda: GUARD.stage_limit == 5_000),
    Claim(
        "api-limits.md",
        "| length of an entry; of a comment | 1,000 characters each |",
        lambda: MAX_COMMENT == MAX_ENTRY == 1_000,
        "blackbox/test_lists.py::test_a_comment_has_at_most_a_thousand_characters_and_null_is_absent",
    ),
    Claim("lists.md", "A call takes at most 500 entries", lambda: MAX_ENTRIES == 500),
    Claim("messages-api.md", "| searches of one token at once | 4 |", lambda: LIMITS["search"].per_caller == 4),
    Claim("messages-api.md", "| bulk calls of one token at once | 2 |", lambda: LIMITS["bulk action"].per_caller == 2),
    Claim(
        "verdicts.md",
        "Within seconds, near-copies of it are judged by the report (`campaign:marked`",
        lambda: "campaign:marked" in shipped_policy().kinds,
        "abby/test_message_api.py::test_a_report_is_on_the_trail_and_marks_the_text",
    ),
    Claim("verdicts.md", "get the tag `limit:encrypted`, which weighs nothing", encrypted_is_clean),
    Claim("internals/threat-model.md", "such mail is `clean` unless something else is found", encrypted_is_clean),
    Claim(
        "troubleshooting.md",
        "`history.headers: false` leaves the header section out",
        lambda: HistorySettings().headers,
        "guard/test_service.py::test_header_sections_are_kept_unless_they_are_left_out",
    ),
    Claim("troubleshooting.md", "Gatepost fetches no link of a message", connects_only_as_said),
    Claim(
        "policy.md",
        "Of the shipped findings only `text:model-wanted` does",
        lambda: {kind for kind, rule in shipped_policy().kinds.items() if rule.weight < 0} == {"text:model-wanted"},
    ),
    Claim(
        "policy.md",
        "`systemctl reload gatepost`, or SIGHUP. No client is refused meanwhile.",
        test="service/test_changes.py::test_a_change_loses_nothing_and_refuses_nobody",
    ),
    Claim(
        "versioning.md",
        "the Email Scanning API `1.1.0`, the List API `1.0.0`",
        lambda: (SCANNING_VERSION, LISTS_VERSION) == ("1.1.0", "1.0.0"),
    ),
    Claim(
        "glossary.md",
        "a way by which messages reach a core: `restApi`, `smtp`, `milter`, `spamd` or `rspamd`",
        lambda: (
            {each.alias for each in type(GUARD.scan_sources).model_fields.values()}
            == {"restApi", "smtp", "milter", "spamd", "rspamd"}
        ),
    ),
    Claim("requirements.md", "Neither makes any other connection", connects_only_as_said),
    Claim("requirements.md", "CPython 3.11 or newer", lambda: takes_python("3.11")),
    Claim("requirements.md", "`workerMemory` (default 1 GiB)", lambda: GUARD.worker_memory == GIB),
    Claim("learning.md", "A pool has at most 10,000 reports", lambda: MAX_POOL == 10_000),
    Claim("learning.md", "adds at most 500 reports a day", lambda: MAX_PER_DAY == 500),
    Claim(
        "lists.md",
        "It is off until there is a rule.",
        lambda: not GUARD.recipient_verification.rules,
        test="smtp/test_recipients.py::test_rules_are_for_domains_and_tenants",
    ),
    Claim(
        "operating.md",
        "an idle TLS client gets half a second to say goodbye",
        lambda: FAREWELL_SECONDS == 0.5,
        test="service/test_changes.py::test_the_watchdog_is_fed_and_a_stop_waits_for_no_idle_tls_client",
    ),
    Claim(
        "quarantine.md",
        "guard deletes such bytes at the next start and every hour",
        lambda: (PURGE_SECONDS, ORPHAN_SECONDS) == (3_600, 3_600),
        test="guard/quarantine/test_quarantine.py::test_killed_between_bytes_and_record",
    ),
    Claim(
        "dovecot.md",
        "It is off by default.",
        lambda: ABBY.remediation is None,
        "cli/test_mailboxes.py::test_mailboxes_that_are_not_configured_or_away",
    ),
    Claim(
        "troubleshooting.md",
        "[Reports to other domains](dmarc-reports.md#sending-reports) are off by default",
        lambda: GUARD.domain_reports.send is None,
    ),
]

# Claims that a test shows: by page, each sentence with its test.
SHOWN: dict[str, dict[str, str]] = {
    "verdicts.md": {
        "near-copies of it are judged by the report": "checks/text/test_learned.py::test_what_people_said_of_a_copy",
        "451; the third time within 24 hours the message is held": (
            "smtp/test_outcome.py::test_the_third_time_undecided_is_held"
        ),
        "behind a queue (`afterQueue: true`) it is held instead": "smtp/test_outcome.py::test_decisions",
    },
    "versioning.md": {
        "No version opens the data of a newer one": "store/test_upgrading.py::test_a_newer_schema_is_refused",
        "It refuses a tree with changes, a commit without the tag": (
            "tools/test_release.py::test_what_is_missing_is_said"
        ),
        "any version opens the data of all older versions, and upgrades them": (
            "store/test_upgrading.py::test_a_storage_of_schema_31_becomes_the_same_as_a_new_one"
        ),
        "any version opens the data of all older versions": "store/test_upgrading.py::test_data_of_schema_31_are_read",
        "until then it names the version that older data": (
            "store/test_upgrading.py::test_an_older_schema_has_to_pass_through_0_1_0"
        ),
    },
    "web-interface.md": {
        "it is excluded from statistics, quarantine, learning and campaign detection": (
            "guard/answers/test_campaigns.py::test_a_trial_is_compared_and_not_remembered"
        ),
        "excluded from statistics, quarantine, learning": (
            "guard/quarantine/test_quarantine.py::test_a_trial_is_not_held"
        ),
        "they are defined in `abby.yml` or on the page **Feeds**": (
            "web/test_feeds_pages.py::test_a_feed_is_defined_changed_paused_run_and_deleted"
        ),
        "The result is stored as a trial: searches find it": (
            "web/test_message_view.py::test_a_scan_is_a_trial_and_no_mail"
        ),
        "an attempt during a lock does not extend it": (
            "store/test_sign_in_attempts.py::test_a_running_lock_is_not_extended"
        ),
        "others cannot lock you out of it": (
            "store/test_sign_in_attempts.py::test_a_known_browser_passes_the_locks_of_others_and_has_one_of_its_own"
        ),
        "A new password ends all other sessions.": (
            "browser/test_managing.py::test_the_password_is_changed_and_other_sessions_end"
        ),
        "A page that refreshes itself does not count as use.": "web/test_frame.py::test_polling_is_no_use_of_a_session",
        "what you entered is kept: sign in, and send it again": (
            "web/test_frame.py::test_a_form_of_a_session_that_is_over_can_be_sent_again"
        ),
        "in a terminal, the first start prints it as well": (
            "service/test_first_start.py::test_a_terminal_is_shown_the_first_password"
        ),
        "objects of another tenant are not found on any page": (
            "web/test_other_tenants.py::test_what_is_another_tenants_is_not_there"
        ),
        "The frame of the HTML allows no script, no request, no form and no way out.": (
            "browser/test_mail_frame.py::test_a_shut_frame_does_nothing_even_with_the_html_as_it_came"
        ),
        "The HTML is written anew": (
            "browser/test_mail_frame.py::test_a_page_that_was_written_anew_does_nothing_even_in_an_open_frame"
        ),
    },
    "quarantine.md": {
        "It is not analysed again and cannot be held again.": (
            "guard/quarantine/test_quarantine.py::test_released_as_it_came_to_whom_it_was_for"
        ),
        "A message that the next hop refuses stays held": (
            "guard/quarantine/test_quarantine.py::test_what_the_next_hop_refuses_stays_held"
        ),
        "so only one of all processes and hosts gets it": (
            "guard/quarantine/test_quarantine.py::test_many_releases_at_once_send_once"
        ),
        "The record and the audit trail say who released the message, when, and to every address.": (
            "store/test_held_mail.py::test_a_release_is_added_once_to_record_and_audit_trail"
        ),
        "but only with the permission `quarantine.release-dangerous`": (
            "cli/test_quarantine.py::test_a_release_of_malware_names_the_option_that_it_needs"
        ),
        "guard holds messages only with `restApi: {keep: held}`": (
            "guard/quarantine/test_quarantine.py::test_rest_scans_are_not_kept_unless_it_is_configured"
        ),
        "A record always has its bytes.": (
            "store/test_held_bytes.py::test_what_was_said_to_be_held_is_whole_after_a_kill"
        ),
    },
    "backup.md": {
        "compares every row of every table": "store/test_backup.py::test_a_proof_compares_every_row",
        "A backup can be restored into either engine": (
            "store/test_backup.py::test_a_backup_of_one_engine_is_restored_into_the_other"
        ),
        "a trial does not hit production": (
            "cli/test_storage.py::test_a_restore_names_its_target_and_does_not_hit_production_by_accident"
        ),
        "The command refuses while guard or abby runs on": (
            "cli/test_storage.py::test_a_copy_beside_a_running_service_is_refused"
        ),
        "by a later version, which first brings a copy of the file to its own schema": (
            "store/test_backup.py::test_a_backup_of_schema_31_is_brought_to_this_schema"
        ),
        "makes a new key and encrypts all secrets in the database with it": (
            "store/test_sealed_secrets.py::test_a_new_key"
        ),
    },
    "sign-in.md": {
        "leaves only the provider and the account that `emergencyAccount` names": (
            "web/test_sign_in_rules.py::test_without_passwords_only_the_emergency_account_gets_in"
        ),
        "If a count does not rise, the key was copied: the sign-in is refused, logged": (
            "web/test_security_keys.py::test_a_counter_that_goes_back_is_refused_and_told"
        ),
        "after which the old ones no longer work": "web/test_account.py::test_new_recovery_codes_void_the_old_ones",
    },
    "digests.md": {
        "fetching one changes nothing": "browser/test_quarantine.py::test_a_recipient_by_the_links_of_a_digest",
        "A recipient without held mail gets none.": (
            "digests/test_run.py::test_each_recipient_gets_one_digest_of_its_own_mail"
        ),
        "A link that is forged, has ended, was used or leads to nothing always gets the same page": (
            "web/test_digest_pages.py::test_every_link_that_does_not_work_gets_one_answer"
        ),
    },
    "publishing.md": {
        "publishes nothing that has a fault": (
            "service/test_publishing.py::test_nothing_faulty_and_no_secret_is_published"
        ),
        "A version holds no secret.": "service/test_publishing.py::test_nothing_faulty_and_no_secret_is_published",
        "the version stops there: the node goes back to the version before": (
            "service/test_publishing.py::test_a_version_that_fails_on_the_first_node_stops_there"
        ),
    },
    "upgrading.md": {
        "Nothing is damaged then.": "store/test_upgrading.py::test_a_newer_schema_is_refused",
        "The command changes nothing and works while the old version runs": (
            "cli/test_upgrade.py::test_an_older_schema_is_announced_and_nothing_is_changed"
        ),
    },
    "drop-in.md": {
        "Gatepost holds nothing over these protocols": (
            "drop_in/test_drop_in.py::test_spamd_tells_the_decision_and_keeps_nothing"
        ),
        "Score and decision always agree": (
            "drop_in/test_drop_in.py::test_symbols_add_up_to_a_score_that_agrees_with_the_decision"
        ),
        "A busy core, or storage that fails, is a failure for now": (
            "drop_in/test_drop_in.py::test_trouble_is_a_failure_for_now"
        ),
    },
    "actions.md": {
        "the original is held and can be released": (
            "service/test_actions.py::test_an_attachment_is_taken_out_and_the_original_can_be_released"
        ),
        "Otherwise the copy is sent first": "smtp/test_actions.py::test_a_copy_by_another_route_is_safe_first",
        "A copy that has the same route as the message is one more recipient of the same transaction.": (
            "smtp/test_actions.py::test_a_copy_is_one_more_recipient_of_the_same_transaction"
        ),
        "a message is signed only for tenants that its client sends for": (
            "smtp/test_signer.py::test_a_tenant_does_not_sign_as_another"
        ),
    },
    "internals/threat-model.md": {
        "Changes need the token of the session and must come from Gatepost's own pages.": (
            "web/test_site.py::test_a_form_without_its_token_changes_nothing"
        ),
        "must come from Gatepost's own pages": "web/test_site.py::test_an_origin_is_ours_with_its_scheme",
    },
    "install.md": {
        "it is not in the journal": (
            "service/test_first_start.py::test_the_first_password_is_in_a_file_until_it_is_changed"
        ),
        "dpkg keeps your changes when it upgrades": (
            "tools/test_debian.py::test_it_is_installed_upgraded_removed_and_purged"
        ),
        "without an answer the data stay": "tools/test_debian.py::test_it_is_installed_upgraded_removed_and_purged",
        "The same sources, compiler and version of Python make the same wheel, byte for byte.": (
            "tools/test_wheel.py::test_two_builds_are_the_same"
        ),
    },
    "operating.md": {
        "are looked at every two seconds and read again when they change, without a signal": (
            "service/test_changes.py::test_changed_certificates_are_shown_without_a_signal"
        ),
        "A fault in any file changes nothing": (
            "service/test_changes.py::test_a_faulty_file_changes_nothing_and_is_reported"
        ),
        "so that the mail of others starts at once and is not put off": (
            "blackbox/test_floods.py::test_a_flood_puts_off_no_mail_of_another_tenant"
        ),
        "none of them gets all slots or all workers": (
            "workers/test_fair_queue.py::test_a_tenant_that_floods_leaves_slots_to_others"
        ),
    },
    "troubleshooting.md": {
        "An entry in `allowed-senders` counts only if the sender is authenticated": (
            "lists/test_rulings.py::test_an_allowed_sender_must_prove_itself"
        ),
        "or the sending host is in `allowed-ips`": (
            "lists/test_rulings.py::test_an_allowed_host_vouches_for_an_allowed_sender"
        ),
        "Archives and documents are opened if the password stands in the message.": (
            "files/archives/test_sevenzip.py::test_the_password_in_the_mail_opens_it"
        ),
        "Archives and documents are opened": (
            "files/test_samples.py::test_a_protected_document_is_opened_with_the_password_of_the_mail"
        ),
        "A message that got 250 is with the next hop, in the quarantine, or on record as dropped.": (
            "blackbox/test_smtp.py::test_nothing_is_lost_when_guard_is_killed_and_the_next_hop_fails"
        ),
        "Archives and documents are opened if the password": (
            "files/archives/test_rar.py::test_a_password_of_the_mail_opens_an_archive"
        ),
    },
    "README.md": {
        "The command refuses a service that has tenants, or more than 50 messages": (
            "cli/test_demo.py::test_a_new_service_is_filled_once"
        )
    },
    "dovecot.md": {
        "This script files tagged mail and newsletters": "test_doc_pages.py::test_the_sieve_script_files_what_it_says",
        "Copies are compared before they are moved": (
            "mailboxes/test_removal.py::test_a_message_is_found_moved_and_put_back"
        ),
    },
    "examples.md": {
        "The tests run every program whose language is installed.": (
            "service/test_doc_examples.py::test_a_program_scans"
        )
    },
    "learning.md": {"their model is often refused": "learning/test_proof.py::test_lies_make_no_model"},
    "health.md": {
        "messages wait for a slot while processors are idle": (
            "service/test_slot_watch.py::test_a_service_whose_slots_wait_says_so_while_its_processors_are_idle"
        ),
        "Unknown recipients never count as refusals.": (
            "smtp/test_hop_answers.py::test_a_share_of_the_last_minutes_is_judged"
        ),
        "A next hop does not take mail when, of its answers to MAIL, to RCPT or to DATA": (
            "smtp/test_hop_answers.py::test_a_next_hop_that_takes_no_mail_is_told_at_once"
        ),
        "It is well again after three messages in a row that it takes.": (
            "smtp/test_hop_answers.py::test_a_few_messages_in_a_row_end_it_whatever_the_share_is"
        ),
        "three such tries in a row that it accepts count as well": (
            "smtp/test_hop_answers.py::test_an_idle_next_hop_that_was_ill_is_tried_until_it_is_well"
        ),
        "needs twice as many each time, up to 48": (
            "smtp/test_hop_answers.py::test_each_relapse_needs_twice_as_many_messages"
        ),
        "`gatepost nodes` tells of each node by itself": (
            "service/test_faults.py::test_what_is_said_of_a_node_that_is_long_away"
        ),
        "The same words stand in": "service/test_faults.py::test_what_is_said_of_a_fault",
        "What else fails because storage is away has no lines of its own.": (
            "process/test_periodic.py::test_one_outage_is_one_line_and_its_end_another"
        ),
    },
    "postfix.md": {
        "It removes incoming fields that claim to be Gatepost's.": (
            "smtp/test_trace.py::test_forged_fields_go_and_nothing_else"
        )
    },
    "scaling.md": {
        "abby sends its scans to other cores at once, under the same ggrids": (
            "blackbox/test_scanning.py::test_a_core_that_dies_is_not_noticed"
        ),
        "the kernel gives each new connection to one of them": (
            "service/test_instances.py::test_instances_share_a_port_and_metrics_tell_them_apart"
        ),
        "the others get all new connections": (
            "service/test_instances.py::test_instances_share_a_port_and_metrics_tell_them_apart"
        ),
        "a second instance on a SQLite file is refused": (
            "service/test_instances.py::test_a_sqlite_file_has_one_instance_until_that_ends_however_it_ends"
        ),
        "limits of outbound senders count for all": (
            "store/test_flow_counts.py::test_senders_of_outbound_mail_are_counted_over_all_nodes"
        ),
    },
    "routing.md": {
        "A server that cannot be reached is asked last until it answers again": (
            "smtp/test_routing.py::test_the_next_one_is_used_while_the_first_is_down"
        ),
        "a map of servers to weights, by which they share the mail": (
            "smtp/test_routing.py::test_connections_are_shared_by_weight"
        ),
    },
    "feeds.md": {
        "is empty | refused; nothing changes": "feeds/test_run.py::test_what_is_not_plausible_changes_nothing"
    },
    "exchange.md": {
        "Gatepost removes header fields of that name from incoming mail": (
            "smtp/test_trace.py::test_forged_fields_go_and_nothing_else"
        )
    },
    "events.md": {
        "counted every 30 seconds beside the mail and told once in that time, as `threshold.reached`": (
            "service/test_web_alerts.py::test_a_threshold_is_told_once_in_its_time"
        ),
        "In **quiet hours** only errors are told at once; one summary follows.": (
            "events/test_filters.py::test_only_its_own_threshold_and_quiet_hours_afterwards"
        ),
    },
    "standards.md": {
        "a plain EXPUNGE would delete what others marked": (
            "mailboxes/test_removal.py::test_deleting_touches_nothing_that_was_marked_before"
        )
    },
    "dmarc-reports.md": {
        "When a day (UTC) is over, one node sends them by the next hop of outbound mail, signed with your key.": (
            "smtp/test_sent_reports.py::test_another_node_that_sends_is_left_alone"
        )
    },
    "exim.md": {
        "Mail that Gatepost would hold has the action `add header`: **Exim delivers it**": (
            "blackbox/test_drop_in.py::test_exim_as_its_page_says"
        )
    },
    "haraka.md": {
        "`config/plugins`, and write `config/rspamd.ini`": (
            "drop_in/test_drop_in.py::test_a_message_in_chunks_as_haraka_sends_it"
        )
    },
}

# Values that a key has where a file does not set it: page, sentence, file, key, value.
DEFAULTS = [
    ("events.md", "`maxSize` (100 MiB)", "guard", "events.file.maxSize", 104857600),
    ("events.md", "`maxSpool` (256 MiB) on disk", "guard", "events.webhooks.maxSpool", 268435456),
    ("feeds.md", "`lookBack` days (7 by default; 0 turns it off)", "abby", "feeds.lookBack", 7),
    ("feeds.md", "`maxEntries` entries (200,000 by default)", "abby", "feeds.maxEntries", 200000),
    ("feeds.md", "`maxLoss` percent of its entries (50 by default)", "abby", "feeds.maxLoss", 50),
    ("feeds.md", "`maxSize` bytes (64 MiB by default", "abby", "feeds.maxSize", 67108864),
    (
        "operating.md",
        "`serviceProviders.core.longRequestTimeout` (milliseconds, default 3600000)",
        "abby",
        "serviceProviders.core.longRequestTimeout",
        3600000,
    ),
    ("operating.md", "`maxThrottleDelay` is 5000 by default", "guard", "maxThrottleDelay", 5000),
    ("operating.md", "(default: `mainWorkerCount`, 20)", "guard", "mainWorkerCount", 20),
    (
        "api-limits.md",
        "`serviceProviders.core.longRequestTimeout`, 1 hour",
        "abby",
        "serviceProviders.core.longRequestTimeout",
        3600000,
    ),
    ("enable-scanning-api.md", "`mainWorkerCount` is not set, both are 20", "guard", "mainWorkerCount", 20),
    ("postfix.md", "`maxConnections` (200)", "guard", "scanSources.smtp.maxConnections", 200),
    ("privacy.md", "`history.retention`, 30 days", "guard", "history.retention", 30),
    ("privacy.md", "`quarantine.retention`, 30 days", "guard", "quarantine.retention", 30),
    ("privacy.md", "`learning.retention`, 180 days", "guard", "learning.retention", 180),
    ("privacy.md", "`senderHistory.retention`, 180 days", "guard", "senderHistory.retention", 180),
    ("requirements.md", "| 9081 | abby", "abby", "listen.port", 9081),
    ("requirements.md", "| 9785 | guard: internal HTTPS source", "guard", "scanSources.restApi.port", 9785),
    ("requirements.md", "| 10025 | guard: SMTP", "guard", "scanSources.smtp.port", 10025),
    ("requirements.md", "| 8894 | guard: milter", "guard", "scanSources.milter.listen", "127.0.0.1:8894"),
    ("requirements.md", "at most `quarantine.maxSize`, 20 GiB by default", "guard", "quarantine.maxSize", 20 * GIB),
    ("smtp-replies.md", "over `maxMessageSize` (50 MiB)", "guard", "scanSources.smtp.maxMessageSize", 52428800),
    ("smtp-replies.md", "more than `maxHops` (100) `Received` fields", "guard", "scanSources.smtp.maxHops", 100),
    ("drop-in.md", 'spamd: {listen: "127.0.0.1:1783"}', "guard", "scanSources.spamd.listen", "127.0.0.1:1783"),
    ("drop-in.md", 'rspamd: {listen: "127.0.0.1:11333"}', "guard", "scanSources.rspamd.listen", "127.0.0.1:11333"),
]
CLAIMS += [Claim(page, sentence, test=test) for page, rows in SHOWN.items() for sentence, test in rows.items()]
CLAIMS += [
    Claim(page, sentence, partial(has_default, file, key, value)) for page, sentence, file, key, value in DEFAULTS
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.sentence[:40]}")
def test_a_claim_stands_in_its_page_and_holds(claim: Claim) -> None:
    folder = ROOT if claim.page == "README.md" else ROOT / "docs"
    page = " ".join((folder / claim.page).read_text("utf-8").split())
    assert claim.sentence in page
    assert claim.fact or claim.test, "a claim needs what holds it"
    if claim.fact:
        assert claim.fact()
    if claim.test:
        file, _, name = claim.test.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


def test_there_are_many_of_them() -> None:
    assert len(set(CLAIMS)) == len(CLAIMS) >= 120


def test_a_connection_that_no_page_names_would_be_seen() -> None:
    assert _CONNECTS.search("    import httpx\n")
    assert _CONNECTS.search("await asyncio.open_connection(host, 80)")
    assert not _CONNECTS.search("from gatepost.smtp import replies")
