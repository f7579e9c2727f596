"""Keys of DKIM and ARC in `guard.yml`: which private keys sign what. The files belong to one machine."""

from typing import Annotated, Literal

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import Domain, FilePath

MAX_KEYS = 1_000

Selector = Annotated[
    str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,3}$")
]


class SigningKeySettings(Section):
    """A private key of a domain. `gatepost dkim key` writes one."""

    domain: Domain = Field(description="domain that signs (d=)")
    selector: Selector = Field(description="name under which the public key is published (s=)")
    file: FilePath = Field(
        description="PEM file with the private key, RSA or Ed25519, that other users of the machine cannot read"
    )


class DkimSettings(Section):
    """DKIM signatures of mail that leaves."""

    keys: Annotated[list[SigningKeySettings], Field(max_length=MAX_KEYS)] = Field(
        [],
        description="keys; outbound mail is signed with all keys of the domain in From, or else of the nearest domain"
        " above it",
    )
    sign_changed: bool = Field(
        False,
        description="sign inbound mail of these domains, too, where an action has changed it and broken its signatures",
    )


class ArcSettings(Section):
    """ARC sets on inbound mail, for those who receive it after us."""

    key: SigningKeySettings = Field(description="the key that seals")
    seal: Literal["changed", "always"] = Field(
        "changed", description="`changed` seals mail that an action has changed, `always` all inbound mail"
    )
