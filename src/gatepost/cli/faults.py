"""Faults that a person at the keyboard can mend, as sentences."""

from gatepost.client.exchange import ClientError
from gatepost.policy.rules import PolicyError
from gatepost.service.data_folder import StartError
from gatepost.settings.faults import ConfigError
from gatepost.store.errors import StorageError


def sentence(fault: Exception) -> str | None:
    """What to tell the person; None for a fault of ours, which deserves its traceback."""
    if isinstance(fault, ConfigError):
        return _configuration(fault)
    if isinstance(fault, StartError | StorageError | PolicyError):
        return str(fault)
    if isinstance(fault, ClientError):
        return f"The service did not do it: {fault}."
    if isinstance(fault, OSError) and fault.filename is not None:
        return f"{fault.filename}: {(fault.strerror or 'cannot be used').lower()}."
    return None


def _configuration(fault: ConfigError) -> str:
    count = len(fault.faults)
    head = "The configuration has a fault:" if count == 1 else f"The configuration has {count} faults:"
    return "\n".join([head, *(f"  {each}" for each in fault.faults)])
