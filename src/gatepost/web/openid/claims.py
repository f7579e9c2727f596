"""What the claims of an id token open: a role, for all tenants or for one. The first rule that is met counts.

A claim is a text, a number, or a list of them. A name with dots is first the name of a claim as it stands, as providers
use URLs for names, and else a path into nested objects. A user who meets no rule has no access.
"""

import hashlib
import math
from typing import Any

import msgspec

from gatepost.settings.sign_in import AccessRuleSettings, OpenidConnectSettings
from gatepost.store.users import Role

MAX_VALUES = 2_000
MAX_DEPTH = 8
MAX_NAME = 100


class Identity(msgspec.Struct, frozen=True):
    """A user of the provider: `external` is issuer and subject, which never change; `name` is for people."""

    external: str
    name: str
    session: str
    proven: float


class Access(msgspec.Struct, frozen=True):
    """What a user may do; `tenant` None is all tenants."""

    role: Role
    tenant: str | None


def find_access(claims: dict[str, Any], rules: list[AccessRuleSettings]) -> Access | None:
    """Return what the first rule gives that the claims meet, None if they meet none."""
    for rule in rules:
        if rule.value in _values(claims, rule.claim):
            return Access(rule.role, rule.tenant)
    return None


def describe_identity(claims: dict[str, Any], settings: OpenidConnectSettings) -> Identity:
    """Return who a verified id token is about. A name that cannot be shown is replaced by the subject."""
    subject, session = str(claims["sub"]), claims.get("sid")
    proven = parse_number(claims.get("auth_time"))
    return Identity(
        external=identify(settings.issuer, subject),
        name=_find_name(claims, settings.name_claim) or subject[:MAX_NAME],
        session=session if isinstance(session, str) else "",
        proven=float(claims["iat"]) if proven is None else proven,
    )


def identify(issuer: str, subject: str) -> str:
    """Return what tells one user of all providers from another."""
    return f"{issuer} {subject}"


def alternative_names(identity: Identity) -> tuple[str, ...]:
    """Return the names to try for a new user: somebody else here may have the first one."""
    mark = hashlib.sha256(identity.external.encode("utf-8", "replace")).hexdigest()
    room = identity.name[: MAX_NAME - 20]
    return (identity.name, f"{room} (external)", f"{room} ({mark[:16]})")


def _find_name(claims: dict[str, Any], name: str) -> str:
    for each in (name, "preferred_username", "email", "name"):
        value = claims.get(each)
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= MAX_NAME:
            return value.strip()
    return ""


def _values(claims: dict[str, Any], name: str) -> set[str]:
    """Return the values of a claim as texts."""
    found = claims.get(name)
    if found is None:
        found = claims
        for step in name.split(".")[:MAX_DEPTH]:
            found = found.get(step) if isinstance(found, dict) else None
    listed = found[:MAX_VALUES] if isinstance(found, list) else [found]
    return {each for each in map(_text, listed) if each is not None}


def parse_number(value: Any) -> float | None:
    """Return a number of JSON, such as a time; None for anything else, and for one that is too large to be a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
