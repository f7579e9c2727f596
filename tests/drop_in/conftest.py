"""The loop that the service uses, for tests that are coroutines."""

from tests.smtp.conftest import loop_runner

__all__ = ["loop_runner"]
