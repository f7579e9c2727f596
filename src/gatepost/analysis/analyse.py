"""The analysis of one message: read it, ask what it cannot know, run the checks, judge.

`analyse` is a generator that yields questions (see `questions`) and returns a `Report`. It is deterministic: the same
bytes, envelope, context and answers give the same report, so a message can be replayed, and an analysis whose worker
died can start again in another one. `stages` holds each step.
"""

from gatepost.analysis.report import FileSeen, Outcome, Report, undecided
from gatepost.analysis.stages import Context, Stages
from gatepost.analysis.verdict import judge
from gatepost.checks.known_names import is_company_host
from gatepost.checks.reading import Reading
from gatepost.lists.lookup import find_subjects
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain
from gatepost.questions import Analysis

# RFC 5322 section 2.1.1: a line has at most 998 characters, and an id of more than half of that is none.
MAX_MESSAGE_ID = 500
MAX_SENDER_NAME = 200
MAX_SENDER_NAMES = 5


def analyse(raw: bytes, envelope: Envelope, context: Context) -> Analysis[Report]:
    """Analyse one message and return the report on it."""
    stages = Stages(context)
    message = stages.read_message(raw)
    stages.find_origin(message, envelope)
    facets = stages.collect_facets(message, envelope)
    words, signature = stages.sign_text(message)
    sender = yield from stages.ask_about_sender(message, envelope, facets, signature)
    authentication, history, campaign, reputation = sender
    files = stages.read_files(message)
    message = stages.add_document_texts(message, files)
    context.mark("lists")
    subjects = find_subjects(message, envelope, authentication, files)
    hits, antivirus, history, reputation = yield from stages.ask_about_content(subjects, files, history, reputation)
    if hits.failed:
        failure = Outcome("lists", "failed", "storage is down")
        return undecided("the lists could not be read", (*stages.outcomes, failure))
    reading = Reading(
        message=message,
        envelope=envelope,
        authentication=authentication,
        files=files,
        protected=stages.find_protected(authentication),
        now=context.now,
        antivirus=antivirus,
        sender_history=history,
        models=context.models,
        campaign=campaign,
        reputation=reputation,
        words=words,
        learnt=context.learnt,
        is_company=bool(message.senders) and is_company_host(normal_domain(message.senders[0].domain)),
    )
    judged = stages.leave_out_carried(reading)
    findings = stages.run_checks(judged)
    findings = stages.add_composites(findings)
    findings = stages.apply_own_rules(reading, findings)
    context.mark("judge")
    ruling = stages.apply_lists(hits, subjects, reading)
    judgement = judge(findings, stages.outcomes, context.policy, ruling)
    return Report(
        verdict=judgement.verdict,
        decision=judgement.decision,
        tags=judgement.tags,
        score=judgement.score,
        reason=judgement.reason,
        lines=judgement.lines,
        outcomes=tuple(stages.outcomes),
        authentication=authentication,
        files=tuple(FileSeen(f.path, f.type, len(f.content), f.sha256, f.names, ", ".join(f.not_read)) for f in files),
        subject=message.subject,
        senders=tuple(str(sender) for sender in message.senders),
        lists=judgement.lists,
        subjects=subjects,
        overrides=judgement.overrides,
        signature=signature,
        features=stages.make_row(judged),
        sender_names=tuple(sender.name[:MAX_SENDER_NAME] for sender in message.senders[:MAX_SENDER_NAMES]),
        message_id=(message.headers.first("message-id") or "").strip()[:MAX_MESSAGE_ID],
    )
