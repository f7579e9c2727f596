"""Turn faults that an operator can correct into sentences."""

from gatepost.policy.rules import PolicyError
from gatepost.service.data_folder import StartError
from gatepost.settings.faults import ConfigError
from gatepost.store.errors import StorageError


def describe_fault(fault: Exception) -> str | None:
    """Return the text for the operator; None for a fault of the program, which is shown with its traceback."""
    if isinstance(fault, ConfigError):
        return _describe_configuration(fault)
    if isinstance(fault, StartError | StorageError | PolicyError):
        return str(fault)
    if isinstance(fault, OSError) and fault.filename is not None:
        return f"{fault.filename}: {(fault.strerror or 'cannot be used').lower()}."
    return _describe_refusal(fault)


def _describe_refusal(fault: Exception) -> str | None:
    from gatepost.client.exchange import ClientError

    return f"The service refused the request: {fault}." if isinstance(fault, ClientError) else None


def _describe_configuration(fault: ConfigError) -> str:
    count = len(fault.faults)
    head = "The configuration has a fault:" if count == 1 else f"The configuration has {count} faults:"
    return "\n".join([head, *(f"  {each}" for each in fault.faults)])
