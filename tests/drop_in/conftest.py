"""The loop that the service uses, for tests that are coroutines."""

from tests.smtp.conftest import runner

__all__ = ["runner"]
