"""A process for conditions that does what a condition asks for: never end, or crash. It is sealed as the real one."""

import os
from collections.abc import Mapping
from typing import Any

from gatepost.policy import condition_process, conditions

_find_answer = condition_process._find_answer


def _misbehave(question: str, condition: str, variables: Mapping[str, Any]) -> tuple[bool, str]:
    while "endless" in condition:
        pass
    if "crash" in condition:
        os._exit(1)
    return _find_answer(question, condition, variables)


if __name__ == "__main__":
    conditions.evaluate("authenticated", conditions.make_variables())
    vars(condition_process)["_find_answer"] = _misbehave
    condition_process.main()
