"""`gatepost serve`, `gatepost guard` and `gatepost abby`: both services in one process, or one each."""

from gatepost.cli.places import ConfigOption, DataOption, data_folder


def serve(config: ConfigOption = None, data: DataOption = None) -> None:
    """Run guard and abby together; with no configuration, write a working one first."""
    from gatepost.cli.welcome import greet
    from gatepost.service import commands

    commands.serve(data_folder(data), config.expanduser().absolute() if config else None, greet)


def guard(config: ConfigOption = None, data: DataOption = None) -> None:
    """Run the core alone."""
    from gatepost.cli.places import config_folder
    from gatepost.service import commands

    place = data_folder(data)
    commands.guard(place, config_folder(config, place))


def abby(config: ConfigOption = None, data: DataOption = None) -> None:
    """Run the API service alone."""
    from gatepost.cli.places import config_folder
    from gatepost.service import commands

    place = data_folder(data)
    commands.abby(place, config_folder(config, place))
