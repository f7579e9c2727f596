"""Who may sign in here, and what a user has to do before anything else.

A password that somebody else chose has to be changed, and a user whose role or tenant needs a second factor has to have
one, before any other page opens. Users of an OpenID provider have neither here: their proofs are the provider's. Where
passwords are switched off, one named account still has one, for the day on which the provider does not answer.
"""

from typing import Literal, TypeAlias

import msgspec

from gatepost.settings.sign_in import SignInSettings
from gatepost.store.users import User

SetupStep: TypeAlias = Literal["password", "second-factor"]


class SignInRules(msgspec.Struct, frozen=True):
    """The rules that the settings make."""

    settings: SignInSettings = SignInSettings()

    @property
    def has_local(self) -> bool:
        """May everybody with a password sign in with it?"""
        return self.settings.passwords

    def accepts(self, user: User) -> bool:
        """May this user be signed in? Where passwords are off, of those who have one only the emergency account."""
        return user.external is not None or self.settings.passwords or self._is_emergency_account(user)

    def next_step(self, user: User) -> SetupStep | None:
        """Return what the user has to do first; None if nothing is left."""
        if user.external is not None:
            return None
        if user.must_change:
            return "password"
        return "second-factor" if self.needs_second_factor(user) and not user.has_second_factor else None

    def needs_second_factor(self, user: User) -> bool:
        """Has a user of this role, or of this tenant, to have a second factor?"""
        return bool(self.describe_need(user))

    def describe_need(self, user: User) -> Literal["", "role", "tenant"]:
        """Return what makes a second factor necessary for a user; "" where nothing does."""
        if user.external is not None:
            return ""
        if user.role in self.settings.second_factor:
            return "role"
        return "tenant" if self.is_tenant_strict(user.tenant) else ""

    def is_tenant_strict(self, tenant: str | None) -> bool:
        """Do all users of a tenant need a second factor?"""
        return tenant is not None and tenant in self.settings.second_factor_tenants

    def _is_emergency_account(self, user: User) -> bool:
        named = self.settings.emergency_account
        return named is not None and user.name.strip().casefold() == named.strip().casefold()
