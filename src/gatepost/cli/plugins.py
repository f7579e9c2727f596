"""`gatepost plugins`: installed packages that bring checks, and their golden messages."""

from pathlib import Path
from typing import Annotated

import msgspec

from gatepost.cli.commands import Argument, Group
from gatepost.cli.deployment import Deployment
from gatepost.cli.printing import Output
from gatepost.ids import new_id
from gatepost.service.data_folder import StartError

group = Group("List and test plug-ins, which are packages with further checks.")


class _InstalledPlugin(msgspec.Struct, frozen=True):
    """A plug-in that is installed; `about` is what is wrong with it where something is."""

    name: str
    version: str
    enabled: bool
    kinds: list[str]
    about: str


class _GoldenMessage(msgspec.Struct, frozen=True):
    """A golden message: the tags of its plug-in that it got, and whether these are what it should get."""

    message: str
    tags: list[str]
    passed: bool


@group.command("list")
def list_plugins(*, place: Deployment, output: Output) -> None:
    """Print every installed plug-in, whether the configuration enables it, and what it finds."""
    from gatepost.plugins import PluginError, find_plugin, list_installed

    enabled = {stated.partition("==")[0] for stated in place.load_policy_settings()[1]}
    found = []
    for name in list_installed():
        try:
            plugin = find_plugin(name)
        except PluginError as fault:
            found.append(_InstalledPlugin(name, "", name in enabled, [], str(fault)))
        else:
            found.append(_InstalledPlugin(name, plugin.version, name in enabled, list(plugin.kinds), plugin.about))
    if not found and not output.json:
        print("There are no plug-ins.")
        return
    lines = [
        (each.name, each.version, "yes" if each.enabled else "", ", ".join(each.kinds), each.about) for each in found
    ]
    output.show_table(found, ("plug-in", "version", "enabled", "finds", "about"), lines)


@group.command("test")
def try_golden_messages(
    name: Annotated[str, Argument(metavar="NAME", help="The name of an installed plug-in.")],
    *,
    output: Output,
) -> None:
    """Load a plug-in as the service would, and analyse its golden messages in a sealed worker.

    A message in `golden/attacks` must get the tag of the plug-in that it is named by, and a message in `golden/twins`
    must get none of its tags. No configuration is read, and no name server is asked.
    """
    from gatepost.plugins import PluginError, find_plugin

    try:
        plugin = find_plugin(name)
    except PluginError as fault:
        raise StartError(f"{fault}.") from None
    wanted = {path: {f"{plugin.namespace}:{path.stem}"} for path in plugin.golden("attacks")}
    wanted |= {path: set[str]() for path in plugin.golden("twins")}
    got = _analyse(name, list(wanted))
    found = []
    for path, tags in wanted.items():
        own = sorted(tag for tag in got[path] if tag in plugin.kinds)
        passed = tags <= set(own) if tags else not own
        found.append(_GoldenMessage(f"{path.parent.name}/{path.name}", own, passed))
    lines = [(each.message, ", ".join(each.tags), "yes" if each.passed else "no") for each in found]
    output.show_table(found, ("message", "its tags", "as wanted"), lines)
    if not all(each.passed for each in found):
        raise SystemExit(1)


def _analyse(name: str, paths: list[Path]) -> dict[Path, tuple[str, ...]]:
    """Return the tags of each message."""
    import asyncio
    import time

    from gatepost.cli.sealed_analysis import answer_offline, open_analyser
    from gatepost.mail.message import Envelope
    from gatepost.settings.files import load_policies
    from gatepost.settings.keys import GuardSettings, PolicySettings

    settings, policies = GuardSettings(plugins=[name]), load_policies(PolicySettings(), [name])
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, settings, policies.deployment.policy, answer_offline) as analyser,
    ):
        return {path: analyser.analyse(path.read_bytes(), new_id(), Envelope(), time.time()).tags for path in paths}
