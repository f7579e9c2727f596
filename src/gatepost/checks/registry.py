"""The registry: every check there is, in the order in which they run.

A check is a generator function from a Reading to findings under the decorator `check`, which names the kinds that it
can find, and what the message must have for it to find any. Checks of one subject share a module.
Nothing registers itself: what runs is what stands in `CHECKS`.
"""

from gatepost.checks.files.malware import commands, eicar, executables, scanners
from gatepost.checks.files.traits import archives, calendar_invitation, protected_document, traits, unreadable_files
from gatepost.checks.headers.bulk_mail import advertising_label, bulk_mail, bulk_tools
from gatepost.checks.headers.fields import (
    clocks,
    credited_sum,
    date_field,
    defects,
    foreign_charset,
    forged_received,
    hidden_recipients,
    message_id,
    subject,
)
from gatepost.checks.headers.habits import desktop_program, field_habits
from gatepost.checks.headers.replies import fake_bounce, fake_reply, stolen_thread
from gatepost.checks.links.hosts import foreign_target, free_names, ip_hosts, new_hosts, picture_host
from gatepost.checks.links.urls import (
    brand_in_path,
    download,
    link_text,
    qr_codes,
    recipient_in_link,
    redirects,
    shortened_links,
    url_form,
)
from gatepost.checks.sender.addresses import freemail_pose, from_field, random_name, reply_to
from gatepost.checks.sender.authentication import authentication, own_domain, recipient_domain, self_sent
from gatepost.checks.sender.display_names import (
    brand_name,
    decorated_name,
    display_name,
    protected_person,
    shown_domain,
)
from gatepost.checks.sender.envelope import envelope, malformed_envelope
from gatepost.checks.sender.history import broken_habit, first_contact, reputation, stranger_asks
from gatepost.checks.sender.lookalikes import homograph, lookalike
from gatepost.checks.sender.sending_host import host_names, provider_absent, received_host
from gatepost.checks.text.evasion import filter_evasion, image_only, picture_first
from gatepost.checks.text.fraud import (
    advance_fee,
    call_back,
    disguised_number,
    extortion,
    opening_letter,
    payment_requests,
    payroll_change,
    sudden_sum,
)
from gatepost.checks.text.learned import campaign, learnt_model, text_model
from gatepost.checks.text.lures import brand_mention, credential_lure, lures, planted_link, planted_name, urgency
from gatepost.checks.text.spam_vocabulary import gtube, spam_vocabulary
from gatepost.findings import Check

CHECKS: tuple[Check, ...] = (
    defects,
    authentication,
    display_name,
    from_field,
    brand_name,
    lookalike,
    protected_person,
    own_domain,
    reply_to,
    envelope,
    freemail_pose,
    self_sent,
    first_contact,
    broken_habit,
    stranger_asks,
    decorated_name,
    random_name,
    free_names,
    host_names,
    received_host,
    reputation,
    provider_absent,
    message_id,
    date_field,
    bulk_tools,
    advertising_label,
    credited_sum,
    forged_received,
    hidden_recipients,
    field_habits,
    clocks,
    foreign_charset,
    desktop_program,
    homograph,
    link_text,
    ip_hosts,
    url_form,
    redirects,
    shortened_links,
    recipient_in_link,
    download,
    brand_in_path,
    foreign_target,
    picture_host,
    new_hosts,
    qr_codes,
    credential_lure,
    brand_mention,
    urgency,
    payment_requests,
    extortion,
    call_back,
    advance_fee,
    opening_letter,
    lures,
    planted_link,
    planted_name,
    spam_vocabulary,
    filter_evasion,
    image_only,
    picture_first,
    fake_reply,
    fake_bounce,
    subject,
    bulk_mail,
    campaign,
    text_model,
    learnt_model,
    eicar,
    archives,
    unreadable_files,
    executables,
    scanners,
    traits,
    commands,
    protected_document,
    calendar_invitation,
    recipient_domain,
    malformed_envelope,
    gtube,
    stolen_thread,
    shown_domain,
    payroll_change,
    sudden_sum,
    disguised_number,
)
