"""The base of every section of a configuration file."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)
