"""The map of tenants to databases, as the configuration has it; `tenant_databases` says what it means."""

from collections.abc import Mapping

import msgspec


class TenantMap(msgspec.Struct, frozen=True):
    """The databases besides the first, by name, and the names of those that tenants have their mail in, by uid."""

    databases: Mapping[str, str] = {}
    tenants: Mapping[str, str] = {}
