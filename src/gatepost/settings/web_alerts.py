"""Alerts that are defined in the web interface, as the settings of an alert.

What a person at a browser may name is narrower than what stands in guard.yml: calls go over https to the internet, and
mail takes the routes of other mail. The secret that calls are signed with is made by Gatepost. Receivers that a file
names are the file's: an alert of the web interface leaves them out, so that nobody is told twice.
"""

from typing import Any, get_args

import msgspec
from pydantic import ValidationError

from gatepost.settings.event_keys import AlertMailSettings, AlertSettings, EventKind, Severity
from gatepost.settings.web_feeds import check_web_url

MAX_ALERTS = 20
MAX_PER_HOUR = 100
# An alert for every scanned message would be no alert.
ALERT_KINDS: tuple[EventKind, ...] = tuple(kind for kind in get_args(EventKind) if kind != "message.scanned")
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
_FIELDS = {"mail": "recipients", "webhook": "url", "max_per_hour": "max_per_hour", "kinds": "kinds"}


class WebAlert(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which events alert whom; each field is the key of that name below `events.alerts`."""

    kinds: tuple[str, ...] = ()
    min_severity: str = "notice"
    max_per_hour: int = 10
    recipients: tuple[str, ...] = ()
    url: str = ""
    secret: str = ""


class WebAlertError(ValueError):
    """What is wrong with an alert: the field and the rest of a sentence, for each mistake."""

    def __init__(self, mistakes: tuple[tuple[str, str], ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{field} {sentence}" for field, sentence in mistakes))


def build_alert(alert: WebAlert, server: AlertMailSettings | None = None) -> AlertSettings:
    """Return the settings of an alert; raises `WebAlertError`. Mail goes through the server of `server`, if that names
    one."""
    mistakes = check_web_url(alert.url, "", "guard.yml") if alert.url else []
    if not alert.kinds or not set(alert.kinds) <= set(ALERT_KINDS):
        mistakes.append(("kinds", "must be chosen"))
    if not 1 <= alert.max_per_hour <= MAX_PER_HOUR:
        mistakes.append(("max_per_hour", f"must be a number from 1 to {MAX_PER_HOUR}"))
    if not alert.recipients and not alert.url:
        mistakes.append(("recipients", "are needed, or an address to call"))
    stated: dict[str, Any] = {
        "kinds": list(alert.kinds),
        "min_severity": alert.min_severity,
        "max_per_hour": alert.max_per_hour,
    }
    if alert.recipients:
        stated["mail"] = {"recipients": list(alert.recipients)}
        if server and server.server:
            stated["mail"] |= {"server": server.server, "tls": server.tls, "sender": server.sender}
    if alert.url:
        stated["webhook"] = {"url": alert.url, "secret": alert.secret or "-"}
    try:
        settings = AlertSettings.model_validate(stated)
    except ValidationError as fault:
        mistakes += [_describe(each) for each in fault.errors()]
        settings = None
    if mistakes or settings is None:
        raise WebAlertError(tuple(dict.fromkeys(mistakes)))
    return settings


def leave_out(alert: WebAlert, file: AlertSettings | None) -> WebAlert:
    """Return an alert without the receivers that a file names."""
    if file is None:
        return alert
    mailed = {each.lower() for each in (file.mail.recipients if file.mail else ())}
    kept = tuple(each for each in alert.recipients if each.lower() not in mailed)
    is_called = file.webhook is not None and file.webhook.url == alert.url
    return msgspec.structs.replace(alert, recipients=kept, url="" if is_called else alert.url)


def _describe(fault: Any) -> tuple[str, str]:
    place = str(fault["loc"][0]) if fault["loc"] else ""
    return _FIELDS.get(place, place), str(fault["msg"]).removeprefix("Value error, ")
