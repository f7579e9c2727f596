"""The base of every section of a configuration file, and what a change of a key needs."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


class AppliesAtOnce:
    """Marks a key, among the metadata of its type, that a running service takes over without a restart. No key is so
    marked: services read their files when they start, and never again."""


def needs_restart(field: FieldInfo) -> bool:
    """Whether a change of a key holds only after a restart of the service that reads the file."""
    return not any(isinstance(each, AppliesAtOnce) for each in field.metadata)
