"""Signing in to the web interface: passwords, second factors, and an OpenID provider."""

from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from gatepost.settings.section import Section, group, live
from gatepost.settings.values import FilePath, Host, Secret, TenantUid, WebUrl

MAX_RULES = 500

RoleName: TypeAlias = Literal["administrator", "analyst", "auditor"]
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
Minutes = Annotated[int, Field(ge=5, le=7 * 1440)]


class AccessRuleSettings(Section):
    """One claim of an id token, and what it opens."""

    claim: ShortText = live(
        description="name of the claim, such as `groups`; `realm_access.roles` is `roles` inside of `realm_access`"
    )
    value: ShortText = live(description="value that the claim must have, or that must be in its list")
    role: RoleName = live(description="role of the user")
    tenant: TenantUid | None = live(None, description="tenant of the user; by default all tenants")


class OpenidConnectSettings(Section):
    """The OpenID provider through which users sign in."""

    issuer: WebUrl = live(description="issuer of the provider, exactly as it writes it in its id tokens")
    client_id: ShortText = live(description="id of Gatepost at the provider")
    client_secret: Secret | None = live(
        None, description="secret of Gatepost at the provider; not set for a public client, which PKCE alone protects"
    )
    access: Annotated[list[AccessRuleSettings], Field(min_length=1, max_length=MAX_RULES)] = live(
        description="who gets in: the first rule that an id token meets; a user who meets none has no access"
    )
    label: ShortText | None = live(
        None, description="name of the provider on the page for signing in; by default the host of `issuer`"
    )
    scopes: list[ShortText] = live(
        ["openid", "profile", "email"], description="scopes that are asked for; `openid` has to be one of them"
    )
    name_claim: ShortText = live("preferred_username", description="claim with the name of the user")
    max_age: Minutes | None = live(
        None,
        description="minutes after which users have to prove themselves to the provider again; sessions end then too."
        " By default sessions end after 12 hours, as with passwords",
    )
    hosts: list[Host] = live(
        [], description="further hosts of the provider; by default all its endpoints have to be on the host of `issuer`"
    )
    ca: FilePath | None = live(
        None,
        description="PEM file to verify the certificate of the provider with; by default that of the system",
        local=True,
    )

    @property
    def provider_name(self) -> str:
        """The value of `label` that is in force."""
        return self.label or urlsplit(self.issuer).hostname or ""

    @model_validator(mode="after")
    def _check_scopes(self) -> "OpenidConnectSettings":
        if "openid" not in self.scopes:
            raise ValueError("must have openid among its scopes")
        return self


class SignInSettings(Section):
    """Signing in to the web interface."""

    passwords: bool = live(
        True,
        description="whether users sign in with a password; `false` leaves `openidConnect` and `emergencyAccount`",
    )
    emergency_account: Annotated[str, Field(min_length=1, max_length=100)] | None = live(
        None,
        description="name of the one user whose password works although `passwords` is `false`",
    )
    second_factor: list[RoleName] = live(
        [],
        description="roles whose users need a second factor; one who has none sets it up before anything else",
    )
    second_factor_tenants: Annotated[list[TenantUid], Field(max_length=MAX_RULES)] = live(
        [],
        description="tenants whose users need a second factor, whatever their role; users with access to all tenants"
        " are subject to `secondFactor` only",
    )
    openid_connect: OpenidConnectSettings | None = group(
        None, description="OpenID provider through which users sign in; off if not set. It needs `publicUrl`"
    )

    @model_validator(mode="after")
    def _check_ways(self) -> "SignInSettings":
        if not self.passwords and not (self.openid_connect or self.emergency_account):
            raise ValueError("must leave a way to sign in: set openidConnect, or passwords to true")
        return self
