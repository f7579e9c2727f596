"""The part of a wheel that is built: the native speedups, where they can be built (see `build_speedups`).

A wheel with them is for one platform and one version of Python, a wheel without them for all.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import build_speedups


class SpeedupsHook(BuildHookInterface[Any]):
    """Builds the speedups into the package before its files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is "standard" for a wheel and "editable" for a checkout."""
        if version == "editable":
            return
        try:
            build_speedups.build()
        except OSError as fault:
            self.app.display_warning(f"The native speedups are not in this wheel: {fault}.")
        else:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(f"src/gatepost/{build_speedups.target_name()}")
