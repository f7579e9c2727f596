"""`gatepost reports`: files are read in a sealed worker, and what they say is listed and explained."""

import json
import time
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.files.report_samples import BEGIN, DAY, MICROSOFT, TLS, gzipped, mail, zipped

from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder


@pytest.mark.process  # a sealed worker
def test_reports_from_files(tmp_path: Path) -> None:
    place = ("--data", tmp_path / "data")
    prepare(DataFolder(tmp_path / "data"), None)
    today = int(time.time()) // DAY * DAY
    text = MICROSOFT.replace(str(BEGIN), str(today)).replace(str(BEGIN + DAY), str(today + DAY - 1))
    files = {
        "plain.xml": text.encode(),
        "packed.zip": zipped(text.replace("0123456789abcdef0123456789abcdef", "2")),
        "mail.eml": mail(
            ("r.xml.gz", "application/gzip", gzipped(text.replace("0123456789abcdef0123456789abcdef", "3")))
        ),
        "old.json.gz": gzipped(TLS),
        "evil.xml": b"<!DOCTYPE x [<!ENTITY a 'b'>]><feedback>&a;</feedback>",
        "letter.txt": b"Hello\r\n\r\nworld",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in files]
    code, out, err = run_command("reports", "import", *paths, *place, "--json")
    assert code == 0, err
    outcomes = {(each["file"], each["domain"]): each["outcome"] for each in json.loads(out)}
    assert outcomes == {
        ("plain.xml", "y.example"): "kept",
        ("packed.zip", "y.example"): "kept",
        ("mail.eml", "y.example"): "kept",
        ("old.json.gz", "y.example"): "period",
        ("old.json.gz", "z.y.example"): "period",
        ("evil.xml", ""): "a part has a document type, which no report needs",
        ("letter.txt", ""): "no report",
    }
    assert "known" in run_command("reports", "import", paths[0], *place)[1]

    code, out, _ = run_command("reports", "list", *place, "--json")
    (found,) = json.loads(out)
    assert (found["domain"], found["policy"], found["messages"], found["passed"]) == (
        "y.example",
        "quarantine",
        129,
        120,
    )
    assert "93.0%" in run_command("reports", "list", *place)[1]

    code, out, _ = run_command("reports", "show", "Y.example", *place)
    assert code == 0
    assert "y.example: 120 of 129 passed in 30 days. p=quarantine" in out
    assert "Next step: Wait for reports of 13 more days" in out
    assert "192.0.2.77" in out
    shown = json.loads(run_command("reports", "show", "y.example", *place, "--json")[1])
    assert shown["advice"]["step"] == "wait"
    assert [each["row"]["count"] for each in shown["sources"]] == [120, 9]

    code, _, err = run_command("reports", "show", "other.example", *place)
    assert code == 2
    assert "nothing was reported of this domain" in err
    code, _, err = run_command("reports", "import", tmp_path / "absent", *place)
    assert code == 2
    assert "cannot be read: no such file or directory" in err
