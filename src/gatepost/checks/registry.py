"""The registry: the modules whose checks run.

A check is a generator function from a Reading to findings under the decorator `check`, which names the kinds that it
can find, and what the message must have for it to find any. Checks of one subject share a module. What runs is every
check of these modules, in their order.
"""

from gatepost.checks.files import malware, traits
from gatepost.checks.headers import bulk_mail, fields, replies
from gatepost.checks.links import hosts, urls
from gatepost.checks.reading import Check
from gatepost.checks.sender import authentication, envelope, history, lookalikes, mailboxes, sending_host
from gatepost.checks.text import advertising, fraud, learned, lures

_IDENTITY = (mailboxes, authentication, envelope, history, lookalikes, sending_host)
_MODULES = (
    *_IDENTITY,
    *(fields, replies, bulk_mail),
    *(hosts, urls),
    *(lures, fraud, advertising, learned),
    *(malware, traits),
)
CHECKS: tuple[Check, ...] = tuple(
    each for module in _MODULES for each in vars(module).values() if isinstance(each, Check)
)
# Checks that ask who the sender is, which is known of mail of own people.
IDENTITY_CHECKS = frozenset(each for module in _IDENTITY for each in vars(module).values() if isinstance(each, Check))
