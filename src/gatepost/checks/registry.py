"""The registry: every check there is, in the order in which they run.

A check is a module with `KINDS`, the things it can find, and `check`, a pure function from a Reading to findings. It
may have `NEEDS` or `THEMES`, without one of which in the message it finds nothing and is not called.
Nothing registers itself: what runs is what stands in `CHECKS`.
"""

from types import ModuleType

from gatepost.checks.files import (
    archives,
    calendar_invitation,
    commands,
    eicar,
    executables,
    protected_document,
    scanners,
    traits,
)
from gatepost.checks.headers import (
    bulk_mail,
    bulk_tools,
    date_field,
    defects,
    fake_bounce,
    fake_reply,
    forged_received,
    message_id,
    no_recipients,
    subject,
)
from gatepost.checks.links import (
    brand_in_path,
    download,
    foreign_target,
    free_names,
    ip_hosts,
    link_text,
    new_hosts,
    qr_codes,
    recipient_in_link,
    redirects,
    url_form,
)
from gatepost.checks.sender import (
    authentication,
    brand_name,
    broken_habit,
    decorated_name,
    display_name,
    envelope,
    first_contact,
    freemail_pose,
    from_field,
    homograph,
    host_names,
    lookalike,
    own_domain,
    protected_person,
    random_name,
    recipient_domain,
    reply_to,
    self_sent,
    stranger_asks,
)
from gatepost.checks.text import (
    advance_fee,
    brand_mention,
    call_back,
    campaign,
    credential_lure,
    extortion,
    filter_evasion,
    image_only,
    lures,
    payment_requests,
    spam_vocabulary,
    text_model,
    urgency,
)
from gatepost.findings import Check


def _register(module: ModuleType) -> Check:
    needs: frozenset[str] = getattr(module, "NEEDS", frozenset())
    themes: frozenset[str] = getattr(module, "THEMES", frozenset())
    return Check(module.__name__.rpartition(".")[2], module.KINDS, module.check, needs, themes)


CHECKS: tuple[Check, ...] = tuple(
    _register(module)
    for module in (
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
        message_id,
        date_field,
        bulk_tools,
        forged_received,
        no_recipients,
        homograph,
        link_text,
        ip_hosts,
        url_form,
        redirects,
        recipient_in_link,
        download,
        brand_in_path,
        foreign_target,
        new_hosts,
        qr_codes,
        credential_lure,
        brand_mention,
        urgency,
        payment_requests,
        extortion,
        call_back,
        advance_fee,
        lures,
        spam_vocabulary,
        filter_evasion,
        image_only,
        fake_reply,
        fake_bounce,
        subject,
        bulk_mail,
        campaign,
        text_model,
        eicar,
        archives,
        executables,
        scanners,
        traits,
        commands,
        protected_document,
        calendar_invitation,
        recipient_domain,
    )
)
