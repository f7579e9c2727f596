"""The checks of this plug-in; `CHECKS` is what its entry point names."""

from collections.abc import Iterator

from gatepost.checks.plugins import this_plugin
from gatepost.checks.reading import Reading, check
from gatepost.findings.kinds import Finding
from gatepost.names import org_domain

PLUGIN = this_plugin(__package__)
PARKING_FINE = PLUGIN.kind("example:parking-fine")
_PER_PHRASE, _HASTE = PLUGIN.coefficients(PARKING_FINE, "per_phrase", "haste")


@check(PARKING_FINE, needs={"link"})
def parking_fine(reading: Reading) -> Iterator[Finding]:
    """Parking fines that nobody has: "Your unpaid parking ticket, pay within 48 hours at https://city-fines.example".

    Cities and car parks ask for money on paper, or lead to their own site. A link to somebody else, in a letter that
    speaks of a fine, is the whole trick. Newsletters of a city tell of fines as well, and link to the city. People on a
    discussion list that the tenant knows talk of them, too; that a mail names a list proves nothing.
    """
    phrases = PLUGIN.find_phrases(reading)
    fines = phrases.of("fine")
    if not fines or reading.is_known_list:
        return
    for host, link in reading.sites.items():
        # The sender's own site is where an honest letter leads to.
        if org_domain(host) not in reading.sender_domains:
            strength = min(1.0, _PER_PHRASE * len(fines) + _HASTE * bool(phrases.of("haste")))
            yield PARKING_FINE.at("text", strength=round(strength, 2), about=link.url, words="; ".join(fines[:5]))
            return


CHECKS = (parking_fine,)
