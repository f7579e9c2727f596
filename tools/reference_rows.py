"""Write the reference set of learnt models: feature rows of the golden messages, which were written for the checks.

`python -m tools.reference_rows` analyses every attack and every twin of `tests/golden` and writes
`src/gatepost/learning/reference.msgpack`. It is to be run when golden messages are added or feature rows change.
"""

from pathlib import Path

import msgspec
from tests.golden.test_golden import ATTACKS, TWINS, report_on

from gatepost.learning.sealed_training import REFERENCE, ReferenceRow
from gatepost.mail.reader import read
from gatepost.textmodel.features import extract_features
from gatepost.textmodel.learnt import make_row

TARGET = Path(__file__).parents[1] / "src" / "gatepost" / "learning" / REFERENCE


def build_reference() -> list[ReferenceRow]:
    """Return a row for each golden message that has text enough to say something."""
    found = []
    for file in (*ATTACKS, *TWINS):
        report, message = report_on(file), read(file.read_bytes())
        model = sum(line.counted for line in report.lines if line.kind.startswith("text:model"))
        conclusive = any(line.conclusive for line in report.lines)
        is_unwanted = report.decision != "deliver"
        # An attack that one finding alone does not hold is a lesson in that finding, not in what is unwanted.
        if file in ATTACKS and not is_unwanted:
            continue
        row = make_row(message, extract_features(message))
        name = f"{file.parent.name}/{file.stem}"
        found.append(ReferenceRow(name, is_unwanted, report.score / 100, model / 100, conclusive, row))
    return found


def main() -> None:
    """Write the file."""
    rows = build_reference()
    TARGET.write_bytes(msgspec.msgpack.encode(rows))
    print(f"{TARGET.name}: {len(rows)} messages, {sum(row.is_unwanted for row in rows)} of them unwanted")


if __name__ == "__main__":
    main()
