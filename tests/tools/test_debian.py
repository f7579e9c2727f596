"""The Debian package is installed, upgraded, removed and purged by dpkg, in a folder of its own.

dpkg runs the maintainer scripts as they are, with DPKG_ROOT (`--force-script-chrootless`), and debconf with a database
of the test. The package of most tests has no libraries, which take minutes to pack; one long test builds it whole.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import debian

from gatepost import describe_build
from gatepost.settings.files import load

pytestmark = [pytest.mark.process, pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not installed")]
DEBCONF = """\
Config: config
Templates: templates

Name: config
Driver: File
Filename: /debconf/config.dat

Name: templates
Driver: File
Mode: 644
Filename: /debconf/templates.dat
"""


def pack(folder: Path, version: str) -> Path:
    """A package without libraries."""
    stage = folder / f"stage-{version}"
    (stage / debian.HOME / "bin").mkdir(parents=True)
    (stage / debian.HOME / "bin" / "python3").symlink_to("/usr/bin/python3")
    return debian.pack(stage, folder, version=version, level=0)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("packages")
    return pack(folder, "0.2.0rc1"), pack(folder, "0.2.0")


class Machine:
    """A folder that dpkg installs into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("info", "updates", "triggers"):
            (root / "var/lib/dpkg" / name).mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        (root / "etc").mkdir()
        (root / "debconf").mkdir()
        (root / "etc/debconf.conf").write_text(DEBCONF)
        self.environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NOWARNINGS": "yes"}

    def run(self, *arguments: object) -> str:
        forced = "--force-script-chrootless,not-root,depends,bad-path,confdef,confold"
        command = ["dpkg", f"--root={self.root}", forced, "--log=/dev/null", *map(str, arguments)]
        if os.geteuid() and shutil.which("fakeroot"):
            command = ["fakeroot", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout + done.stderr

    def answer(self, value: str) -> None:
        """Say beforehand what debconf asks when the package is purged."""
        said = f"gatepost gatepost/purge-data boolean {value}\n"
        environment = {**self.environment, "DPKG_ROOT": str(self.root)}
        subprocess.run(["debconf-set-selections"], input=said, text=True, check=True, env=environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def test_it_is_installed_upgraded_removed_and_purged(machine: Machine, packages: tuple[Path, Path]) -> None:
    older, newer = packages
    machine.run("-i", older)
    data, config = machine.root / "var/lib/gatepost", machine.root / "etc/gatepost"
    token = (data / "token").read_text()
    assert len(token) == 64
    assert (data.stat().st_mode & 0o777, (data / "token").stat().st_mode & 0o777) == (0o700, 0o600)
    assert (config / "abby/abby/abby.yml").stat().st_mode & 0o777 == 0o640
    assert (machine.root / "usr/bin/gatepost").resolve() == machine.root / "usr/lib/gatepost/bin/gatepost"
    changed = config / "guard/core/guard.yml"
    changed.write_text(changed.read_text() + "# a change of the administrator\n")

    machine.run("-i", newer)
    assert "# a change of the administrator" in changed.read_text()
    assert (data / "token").read_text() == token
    (data / "gatepost.db").write_text("held mail")

    machine.run("-r", "gatepost")
    assert not (machine.root / "usr/lib/gatepost").exists()
    assert changed.exists()

    said = machine.run("-P", "gatepost")
    assert "stay in" in said
    assert (data / "gatepost.db").exists()
    assert not config.exists()


def test_purging_deletes_the_data_where_the_answer_is_yes(machine: Machine, packages: tuple[Path, Path]) -> None:
    machine.run("-i", packages[1])
    machine.answer("true")
    machine.run("-P", "gatepost")
    assert not (machine.root / "var/lib/gatepost").exists()


def test_the_configuration_of_the_package_is_taken(
    machine: Machine, packages: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.run("-i", packages[1])
    config = machine.root / "etc/gatepost"
    file = config / "abby/abby/abby.yml"
    assert "${file:/var/lib/gatepost/token}" in file.read_text()
    file.write_text(file.read_text().replace("/var/lib", f"{machine.root}/var/lib"))
    assert load(config).abby.listen.host == "127.0.0.1"


def test_units_of_the_package_run_its_program(machine: Machine, packages: tuple[Path, Path]) -> None:
    machine.run("-i", packages[1])
    units = sorted((machine.root / "lib/systemd/system").iterdir())
    names = ["gatepost-abby.service", "gatepost-guard.service", "gatepost.service", "gatepost@.service"]
    assert [unit.name for unit in units] == names
    for unit in units:
        assert "ExecStart=/usr/bin/gatepost " in unit.read_text()
        assert "/opt/" not in unit.read_text()
    assert machine.run("--verify", "gatepost") == ""


def test_versions_are_in_debians_order() -> None:
    for older, newer in (("0.1.0", "0.2.0rc1"), ("0.2.0rc1", "0.2.0"), ("0.2.0", "0.2.1")):
        compared = [debian.debian_version(older), "lt", debian.debian_version(newer)]
        assert subprocess.run(["dpkg", "--compare-versions", *compared], check=False).returncode == 0


def test_what_nothing_reads_is_left_out(tmp_path: Path) -> None:
    libraries = tmp_path / "lib/python3.13/site-packages"
    for name in ("bazel-project/src/rule.cc", "cel/__init__.py", "cel/tests/test_it.py", "cel-1.dist-info/REQUESTED"):
        (libraries / name).parent.mkdir(parents=True, exist_ok=True)
        (libraries / name).touch()
    record = libraries / "cel-1.dist-info/RECORD"
    record.write_text("../../../bin/cel,,\nbazel-project/src/rule.cc,,\ncel/__init__.py,,\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cel").touch()
    debian.clean_environment(tmp_path)
    left = sorted(path.relative_to(libraries).as_posix() for path in libraries.rglob("*") if path.is_file())
    assert left == ["cel-1.dist-info/RECORD", "cel/__init__.py"]
    assert record.read_text() == "cel/__init__.py,,\n"
    assert not (tmp_path / "bin/cel").exists()


def test_the_container_leaves_out_the_same() -> None:
    recipe = (Path(__file__).parents[2] / "contrib/container/Containerfile").read_text()
    assert all(f"site-packages/{name}" in recipe for name in debian.UNUSED)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda stage: (stage / "etc/gatepost/guard/core/guard.yml").chmod(0o666), "has mode 666"),
        (lambda stage: (stage / "opt").mkdir(), "opt is not where"),
        (lambda stage: (stage / "usr/bin/other").symlink_to("../lib/gatepost/bin/nothing"), "which is not there"),
        (lambda stage: (stage / "DEBIAN/prerm").write_text("#!/bin/sh\nif\n"), "prerm is no script"),
        (lambda stage: (stage / "DEBIAN/conffiles").write_text("/etc/gatepost/gatepost.env\n"), "and no conffile"),
    ],
)
def test_faults_of_a_package_are_found(
    spoil: Callable[[Path], object], said: str, packages: tuple[Path, Path], tmp_path: Path
) -> None:
    stage = tmp_path / "stage"
    subprocess.run(["dpkg-deb", "-R", str(packages[1]), str(stage)], check=True)
    spoil(stage)
    package = tmp_path / "spoilt.deb"
    build = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--nocheck", "--build", str(stage), str(package)]
    subprocess.run(build, check=True, capture_output=True)
    assert any(said in fault for fault in debian.find_faults(package))


@pytest.mark.long
def test_the_whole_package_runs_where_it_is_installed(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment is found through its own path, so the paths are those of the folder that it is unpacked to."""
    # The tests trust no authority of the machine, and libraries are fetched over TLS.
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if bundle := os.environ.get("CURL_CA_BUNDLE"):
        monkeypatch.setenv("SSL_CERT_FILE", bundle)
    build = "from hatchling.build import build_wheel; print(build_wheel('" + str(tmp_path) + "'))"
    root = Path(__file__).parents[2]
    python = root / ".venv/bin/python"
    subprocess.run([str(python), "-c", build], cwd=root, check=True, capture_output=True)
    try:
        package = debian.build_package(next(tmp_path.glob("*.whl")), tmp_path, level=0)
    except debian.PackageError as fault:
        if "Failed to fetch" in str(fault):
            pytest.skip("not run: the libraries cannot be fetched")
        raise
    machine.run("-i", package)
    home = machine.root / debian.HOME
    program = [str(home / "bin/python3"), "-I", "-m", "gatepost"]
    shown = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.split(" (")[0] == f"gatepost {describe_build().split(' (')[0]}"
    mail = subprocess.run([*program, "examples", "phish"], capture_output=True, check=True).stdout
    judged = subprocess.run([*program, "scan", "-"], input=mail, capture_output=True, check=False).stdout
    assert b"phishing" in judged
    named = subprocess.run(["grep", "-rlI", str(tmp_path / "debian.work"), str(home)], capture_output=True, check=False)
    assert named.stdout == b""
    machine.run("-P", "gatepost")
    assert not home.exists()
