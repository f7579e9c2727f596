"""The keys of sources for mail servers that deliver themselves: addresses, what contradicts them, what is built."""

from pathlib import Path

import pytest
from tests.data_folders import write_files
from tests.settings.refusals import find_faults

from gatepost.service.core import build_asker_limits
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.examination import check_ports
from gatepost.service.doctor.rows import ExaminedFiles
from gatepost.service.plan import Plan, bind_ports, list_doors, release_ports
from gatepost.settings.files import find_warnings, load_guard
from gatepost.smtp.commands import SmtpLimits


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("{milter: {listen: '8894'}}", "milter.listen", "address:port, or unix:/path"),
        ("{milter: {listen: '127.0.0.1:0'}}", "milter.listen", "address:port, or unix:/path"),
        ("{milter: {listen: 'unix:run/x'}}", "milter.listen", "unix:/path"),
        ("{milter: {listen: 'unix:/run/x/'}}", "milter.listen", "unix:/path"),
        (f"{{milter: {{listen: 'unix:/{'x' * 107}'}}}}", "milter.listen", "more than 107 bytes"),
        ("{milter: {listen: []}}", "milter.listen", "at least 1"),
        ("{milter: {listen: ['unix:/a', 'unix:/a']}}", "milter.listen[1]", "twice"),
        ("{milter: {listen: '127.0.0.1:9785'}, restApi: {}}", "milter.listen", "port of scanSources.restApi"),
        ("{milter: {listen: ['0.0.0.0:10025']}, smtp: {}}", "milter.listen[0]", "port of scanSources.smtp"),
        ("{milter: {socketMode: '066'}}", "milter.socketMode", "in quotes"),
        ("{milter: {socketMode: 660}}", "milter.socketMode", "text"),
        ("{milter: {allowedHosts: [0.0.0.0/0]}}", "milter.allowedHosts[0]", "too wide"),
        ("{milter: {quarantine: both}}", "milter.quarantine", "queue"),
        ("{spamd: {listen: '127.0.0.1:10025'}, smtp: {}}", "spamd.listen", "port of scanSources.smtp"),
        ("{rspamd: {listen: '127.0.0.1:1783'}, spamd: {}}", "rspamd.listen", "port of scanSources.spamd"),
        ("{milter: {listen: 'unix:/a'}, spamd: {listen: 'unix:/a'}}", "spamd.listen", "socket of scanSources.milter"),
        ("{rspamd: {heldAs: discard}}", "rspamd.heldAs", "reject"),
    ],
)
def test_faults(tmp_path: Path, text: str, key: str, said: str) -> None:
    (fault,) = find_faults(load_guard, write_files(tmp_path, f"scanSources: {text}\n"))
    assert fault.key == f"scanSources.{key}"
    assert said in fault.sentence


def test_addresses_limits_and_rows_of_the_doctor(tmp_path: Path) -> None:
    text = (
        f"scanSources: {{milter: {{listen: ['127.0.0.1:18894', 'unix:{tmp_path}/milter'], socketMode: '0606',"
        " maxMessageSize: 70000, maxRecipients: 7, commandTimeout: 2000, messageTimeout: 3000}}\n"
    )
    guard = load_guard(write_files(tmp_path, text))
    source = guard.scan_sources.milter
    assert source
    assert source.hosts == ("127.0.0.1", f"unix:{tmp_path}/milter")
    assert build_asker_limits(source) == SmtpLimits(message=70_000, recipients=7, command_wait=2.0, data_most=3.0)
    assert any("can be exported, but not released" in str(each) for each in find_warnings(tmp_path))
    data = DataFolder(tmp_path)
    plan = Plan(data, guard)
    assert [(door.name, door.port) for door in list_doors(plan)] == [("milter", 18894), ("milter", 0)]
    rows = {row.what: (row.state, row.found) for row in check_ports(ExaminedFiles(guard), data)}
    assert rows == {
        "port of milter": ("ok", "127.0.0.1:18894 is free"),
        "socket of milter": ("ok", f"{tmp_path}/milter is free"),
    }
    bound = bind_ports(plan)
    try:
        assert [each.family.name for each in bound["milter"]] == ["AF_INET", "AF_UNIX"]
        assert (tmp_path / "milter").stat().st_mode & 0o777 == 0o606
        for each in bound["milter"]:
            each.listen()
        states = {row.what: row.state for row in check_ports(ExaminedFiles(guard), data)}
        assert states == {"port of milter": "fail", "socket of milter": "fail"}
    finally:
        release_ports(bound)
