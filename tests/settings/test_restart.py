"""Which keys a running service takes over: it is said beside the key, and the reference prints it."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.section import AppliesAtOnce, Section, needs_restart


class Marked(Section):
    level: Annotated[str, AppliesAtOnce()] = Field("info", description="taken over at once")
    port: int = Field(1, description="needs a restart")


def test_what_is_marked_needs_no_restart() -> None:
    assert {name: needs_restart(field) for name, field in Marked.model_fields.items()} == {"level": False, "port": True}


def test_every_key_needs_a_restart() -> None:
    """No service reads its files again."""
    for model in (GuardSettings, AbbySettings):
        assert all(needs_restart(field) for field in model.model_fields.values())
