"""Companies, banks and authorities that write from a free mailbox.

`Federal Bank Head Office <head.office.desk@gmail.com>`. Small shops do write from free mailboxes, so words like "shop"
or "studio" do not count; no bank, court, ministry or payment office does.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, words_of
from gatepost.findings import Reading
from gatepost.kinds import SENDER_FREEMAIL_POSE, Finding
from gatepost.names import normal_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_FREEMAIL_POSE,)

_OFFICES = frozenset(
    "bank banking banco banque fund funds fbi imf interpol irs treasury ministry minister embassy consulate court "
    "tribunal police government federal united nations lottery lotto award compensation inheritance barrister "
    "attorney solicitor notary headquarters hq department dept director governor payment payments billing invoice "
    "refund support helpdesk security verification notification administrator webmaster postmaster mailbox account "
    "accounts customer service services delivery courier logistics customs parcel finance loan loans credit atm "
    "behoerde finanzamt gericht polizei sparkasse kundenservice ministerio policia juzgado hacienda receita "
    "atendimento suporte cobranca prefeitura ministere gendarmerie impots polizia agenzia".split()
)
_ORGANISATION = frozenset("bank fbi imf irs interpol treasury embassy federal nations lottery police court".split())
_ENOUGH = 2
(_ONE_WORD,) = coefficients(SENDER_FREEMAIL_POSE, "one_word")


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:5]:
        if not is_freemail(normal_domain(sender.domain)):
            continue
        posing = _OFFICES.intersection(words_of(sender.name))
        # One such word may be a surname or a nickname; two are an office.
        if len(posing) >= _ENOUGH or posing & _ORGANISATION:
            yield SENDER_FREEMAIL_POSE.at(
                "From", strength=1.0 if len(posing) >= _ENOUGH else _ONE_WORD, shown=sender.name, actual=sender
            )
