"""The policy files that the configuration names, read and laid over each other."""

from pathlib import Path

from gatepost.config.fault import ConfigError, Fault
from gatepost.policy import Effective, Layer, Policies, PolicyError, laid, shipped
from gatepost.policy.layering import Level
from gatepost.policy.stating import MAX_CHARACTERS, Mistake
from gatepost.settings import Policy


def loaded(settings: Policy) -> Policies:
    """Every policy that holds; `ConfigError` where a file is at fault."""
    policies, found = _read(settings)
    if found:
        raise ConfigError(found)
    return policies


def faults(settings: Policy) -> list[Fault]:
    """All that is wrong with the files, each with its line and key."""
    return _read(settings)[1]


def layer(level: Level, path: Path) -> Layer:
    """One file as a layer; `PolicyError` or `OSError` where it cannot be read."""
    raw = path.read_bytes()[: 4 * MAX_CHARACTERS + 1]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise PolicyError(str(path), [Mistake(line, (), "is not UTF-8 here")]) from None
    return Layer("tenant" if level == "tenant" else "deployment", str(path), text)


def _read(settings: Policy) -> tuple[Policies, list[Fault]]:
    found: list[Fault] = []
    base = Effective(shipped())
    deployment = _over(base, "deployment", settings.file, found) if settings.file else base
    # A tenant's file is read over what could be read of the deployment's, so that all faults are told at once.
    tenants = {uid: _over(deployment, "tenant", file, found) for uid, file in settings.tenants.items()}
    return Policies(deployment, tenants), found


def _over(base: Effective, level: Level, file: str, found: list[Fault]) -> Effective:
    try:
        return laid(base, layer(level, Path(file)))
    except PolicyError as wrong:
        found += [Fault(wrong.file, each.line, ".".join(each.key), each.sentence) for each in wrong.mistakes]
    except OSError as wrong:
        found.append(Fault(file, 0, "", f"cannot be read: {(wrong.strerror or 'unknown error').lower()}"))
    return base
