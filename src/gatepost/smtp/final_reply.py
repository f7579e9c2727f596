"""The reply to a whole message: it is analysed, the decision is carried out, and what the next hop said is kept."""

import itertools
import time

import msgspec
import structlog

from gatepost.ids import new_id
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.services import Services
from gatepost.smtp.trace import build_trace_fields, leave_out, read_header
from gatepost.smtp.transaction import Transaction

log = structlog.get_logger("gatepost.guard")


class Submission(msgspec.Struct, frozen=True):
    """A whole message, whose it is, and how it came: after EHLO, under TLS. With a `refusal` it is held (see
    `MessageHandler.holds`)."""

    client: SmtpClient
    body: SpooledBody
    refusal: SmtpReply | None
    extended: bool
    encrypted: bool


async def find_final_reply(services: Services, transaction: Transaction, how: Submission) -> SmtpReply:
    """Have a message analysed, carry out the decision, and return the reply."""
    body, refusal = how.body, how.refusal
    header = read_header(body, services.hostname)
    if header.hops > services.limits.hops:
        refusal = refusal or replies.LOOP
    if not header.whole:
        refusal = refusal or replies.LONG_HEADER
    if refusal and not services.handler.holds(refusal):
        return refusal
    now = time.time()
    request = ScanRequest(
        *(new_id(), int(now * 1_000), transaction.envelope(), body, "smtp", refusal.text if refusal else ""),
        client=how.client.address,
        queue_id=how.client.queue_id(header.queue_id),
    )

    if transaction.report and services.reports:
        answer = await services.reports.take(request, how.client, transaction.report)
        services.count_reply(answer)
        return answer

    sent: dict[str, str] = {}

    async def deliver(result: ScanResult) -> SmtpReply:
        arrival = transaction.describe_arrival(now, extended=how.extended, encrypted=how.encrypted)
        top = build_trace_fields(result, services.hostname, arrival)
        try:
            return await transaction.deliver(itertools.chain((top,), leave_out(body, header.claims)))
        finally:
            delivery = transaction.describe_delivery(result.ggrid, int(time.time() * 1_000))
            sent.update(next_hop=delivery.next_hop, queue_id=delivery.queue_id)
            if services.deliveries is not None:
                services.deliveries.note(delivery)

    answer = await services.handler.handle(request, transaction.digest(body.sha256), deliver)
    services.count_reply(answer)
    log.info("message answered", ggrid=request.ggrid, code=answer.code, client=how.client.address, **sent)
    return answer
