"""Build the Debian package: `python -m tools.debian WHEEL OUTPUT_FOLDER`.

The package has an environment of its own below /usr/lib/gatepost, with the libraries of the lock file
`requirements/run.txt`, on the Python of the machine that builds it. So it is for the release of Debian (or Ubuntu) that
it was built on, and for one architecture; the field Depends says which Python that is. The environment is one as
`python3 -m venv` makes it, with a path that does not change: nothing in it names the folder that it was built in.

`dpkg-deb` writes the package from a folder. No helper of Debian is needed, and the maintainer scripts stand as they run
in `contrib/debian`. The same sources, lock file and Python make the same package (SOURCE_DATE_EPOCH is the time of all
files). `find_faults` looks at a package as lintian would, for what matters here.
"""

import argparse
import gzip
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from gatepost import __version__
from gatepost.cli.help import render_completion
from gatepost.service.commands import ABBY_YML, API_PORT, GUARD_YML, PORT_BASE, REST_PORT, SMTP_PORT
from tools.man_pages import render_man_pages

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "contrib" / "debian"
UNITS = ROOT / "contrib" / "systemd"
PYTHON = Path("/usr/bin/python3")
HOME = "usr/lib/gatepost"
# What a package is built with and does not run with.
_BUILD_ONLY = ("hatchling", "editables")
# Folders beside the libraries that no program reads: wheels of cel-expr-python for Python 3.12 and later have one.
UNUSED = ("bazel-project",)
_CONFFILES = (
    "/etc/gatepost/gatepost.env",
    "/etc/gatepost/guard/core/guard.yml",
    "/etc/gatepost/abby/abby/abby.yml",
)
_PRIVATE = {"etc/gatepost/gatepost.env": 0o600}
_PROGRAM = """#!/usr/lib/gatepost/bin/python3 -I
import sys

from {module} import main

sys.exit(main())
"""
_FIELDS = ("Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Depends", "Section", "Description")
_PLACES = ("etc/gatepost", "lib/systemd/system", "usr/bin", "usr/lib/gatepost", "usr/sbin", "usr/share")


class PackageError(Exception):
    """Why there is no package, as a sentence that says what to do."""


def build_package(wheel: Path, output: Path, *, level: int = 6, python: Path = PYTHON) -> Path:
    """Build the package of a wheel into a folder, and return its path. `level` is that of xz. Raises `PackageError`."""
    if not shutil.which("dpkg-deb"):
        raise PackageError("dpkg-deb is not here: build the Debian package on Debian or Ubuntu.")
    if not python.exists():
        raise PackageError(f"{python} is not here: apt-get install python3.")
    output.mkdir(parents=True, exist_ok=True)
    stage = output / "debian.work"
    shutil.rmtree(stage, ignore_errors=True)
    try:
        _make_environment(stage / HOME, wheel, python)
        return pack(stage, output, level=level, python=python)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def pack(stage: Path, output: Path, *, version: str = __version__, level: int = 6, python: Path = PYTHON) -> Path:
    """Pack a folder that has the environment, with everything beside it; return the path of the package. Raises
    `PackageError`."""
    _write_programs(stage / HOME)
    _add_files(stage)
    _set_modes(stage)
    named, architecture = debian_version(version), _ask("dpkg", "--print-architecture")
    _write_control(stage, named, architecture, python)
    package = output / f"gatepost_{named}_{architecture}.deb"
    _run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", stage, package)
    if faults := find_faults(package):
        raise PackageError("The package is not in order: " + "; ".join(faults))
    return package


def debian_version(version: str) -> str:
    """Return a version as Debian orders it: what comes before a release has a tilde."""
    return re.sub(r"\.?(a|b|rc|dev)(\d+)", r"~\1\2", version) + "-1"


def _make_environment(home: Path, wheel: Path, python: Path) -> None:
    """Make the environment, with the locked libraries and the wheel in it."""
    major = _ask(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    (home / "bin").mkdir(parents=True)
    (home / "lib" / f"python{major}" / "site-packages").mkdir(parents=True)
    (home / "bin" / "python3").symlink_to(python)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n", "utf-8")
    uv = Path(sys.executable).parent / "uv"
    here = ("--python", home / "bin" / "python3")
    install = (uv, "pip", "install", "-q", "--link-mode", "copy", *here)
    _run(*install, "--require-hashes", "-r", ROOT / "requirements" / "run.txt")
    _run(*install, "--no-deps", wheel)
    _run(uv, "pip", "uninstall", "-q", *here, *_BUILD_ONLY)
    clean_environment(home)
    # Modules are checked by nothing but dpkg: what was compiled stays valid whatever time the files have.
    compiled = ("-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash")
    _run(python, *compiled, "-s", home.parents[2], "-p", "/", home / "lib")


def clean_environment(home: Path) -> None:
    """Remove programs and notes that name the folder of the build, and what nothing reads when the service runs."""
    for file in (home / "bin").iterdir():
        if file.name != "python3":
            file.unlink()
    for file in [*home.rglob("direct_url.json"), *home.rglob("REQUESTED"), *home.rglob(".lock")]:
        file.unlink()
    for folder in [*home.rglob("__pycache__"), *home.glob("lib/*/site-packages/*/tests")]:
        shutil.rmtree(folder, ignore_errors=True)
    for name in UNUSED:
        for folder in home.glob(f"lib/*/site-packages/{name}"):
            shutil.rmtree(folder)
    gone = ("../../../bin/", *(f"{name}/" for name in UNUSED))
    for file in home.rglob("RECORD"):
        kept = [line for line in file.read_text("utf-8").splitlines() if not line.startswith(gone)]
        file.write_text("\n".join(kept) + "\n", "utf-8")


def _write_programs(home: Path) -> None:
    for name, module in (("gatepost", "gatepost.cli"), ("gatepost-admin", "gatepost.cli.administration")):
        _write(home / "bin" / name, _PROGRAM.format(module=module))


def _add_files(stage: Path) -> None:
    """Add everything beside the environment: programs, units, configuration, pages."""
    for folder, name in (("usr/bin", "gatepost"), ("usr/sbin", "gatepost-admin")):
        (stage / folder).mkdir(parents=True, exist_ok=True)
        (stage / folder / name).symlink_to(f"../lib/gatepost/bin/{name}")
    for unit in sorted(UNITS.glob("*.service")):
        text = unit.read_text("utf-8").replace("/opt/gatepost/.venv/bin/gatepost", "/usr/bin/gatepost")
        _write(stage / "lib/systemd/system" / unit.name, text)
    for unit in sorted(UNITS.glob("*.socket")):
        _write(stage / "usr/share/doc/gatepost/examples" / unit.name, unit.read_text("utf-8"))
    _write(stage / "etc/gatepost/gatepost.env", (UNITS / "gatepost.env").read_text("utf-8"))
    _write(
        stage / "etc/gatepost/guard/core/guard.yml",
        GUARD_YML.format(rest=PORT_BASE + REST_PORT, smtp=PORT_BASE + SMTP_PORT),
    )
    _write(
        stage / "etc/gatepost/abby/abby/abby.yml",
        ABBY_YML.format(
            listen=PORT_BASE + API_PORT,
            port=PORT_BASE + REST_PORT,
            secret="",
            token="${file:/var/lib/gatepost/token}",  # noqa: S106  no token, but where it is
            storage="sqlite:gatepost.db",
        ),
    )
    for name, text in render_man_pages().items():
        _write_packed(stage / "usr/share/man/man1" / f"{name}.gz", text)
    _write(stage / "usr/share/bash-completion/completions/gatepost", render_completion("bash"))
    _write(stage / "usr/share/doc/gatepost/copyright", (SCRIPTS / "copyright").read_text("utf-8"))
    _write_packed(stage / "usr/share/doc/gatepost/changelog.gz", (ROOT / "CHANGELOG.md").read_text("utf-8"))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def _write_packed(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _set_modes(stage: Path) -> None:
    """Everything can be read by all and written by root alone, whatever the umask of the build was."""
    for path in stage.rglob("*"):
        if path.is_symlink():
            continue
        is_program = path.is_dir() or path.parent == stage / HOME / "bin"
        path.chmod(_PRIVATE.get(path.relative_to(stage).as_posix(), 0o755 if is_program else 0o644))


def _write_control(stage: Path, version: str, architecture: str, python: Path) -> None:
    major, minor = map(int, _ask(python, "-c", "import sys; print('%d %d' % sys.version_info[:2])").split())
    size = sum(path.lstat().st_size for path in stage.rglob("*") if path.is_file()) // 1024
    values = {
        "VERSION": version,
        "ARCHITECTURE": architecture,
        "SIZE": str(size),
        "LIBC": platform.libc_ver()[1] or "2.36",
        "PYTHON": f"{major}.{minor}",
        "NEXT_PYTHON": f"{major}.{minor + 1}",
    }
    control = (SCRIPTS / "control").read_text("utf-8")
    for name, value in values.items():
        control = control.replace(f"@{name}@", value)
    files = sorted(path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(stage)}\n"
        for path in files
        if "/" + path.relative_to(stage).as_posix() not in _CONFFILES
    ]
    folder = stage / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(control, "utf-8")
    (folder / "conffiles").write_text("".join(f"{name}\n" for name in _CONFFILES), "utf-8")
    (folder / "md5sums").write_text("".join(sums), "utf-8")
    for name in ("templates", "postinst", "prerm", "postrm"):
        shutil.copyfile(SCRIPTS / name, folder / name)
        (folder / name).chmod(0o644 if name == "templates" else 0o755)
    for path in (folder / "control", folder / "conffiles", folder / "md5sums"):
        path.chmod(0o644)


def find_faults(package: Path) -> list[str]:
    """Return what is wrong with a package, as sentences; none where it is in order."""
    control = _read_archive(package, "--ctrl-tarfile")
    files = _read_archive(package, "--fsys-tarfile")
    found = [*_check_control(control), *_check_files(files)]
    conffiles = control.extractfile("./conffiles")
    named = conffiles.read().decode().split() if conffiles else []
    inside = {f"/{member.name.removeprefix('./')}" for member in files.getmembers()}
    found += [f"{name} is a conffile and not there" for name in named if name not in inside]
    kept = {name for name in inside if name.startswith("/etc/") and f".{name}" in files.getnames()}
    kept = {name for name in kept if files.getmember(f".{name}").isfile()}
    found += [f"{name} is configuration and no conffile" for name in sorted(kept - set(named))]
    return found


def _check_control(control: tarfile.TarFile) -> Iterator[str]:
    member = control.extractfile("./control")
    text = member.read().decode() if member else ""
    yield from (f"the field {name} is missing" for name in _FIELDS if not re.search(rf"(?m)^{name}: \S", text))
    if "@" in re.sub(r"(?m)^Maintainer:.*$", "", text):
        yield "a field was not filled in"
    for name in ("./postinst", "./prerm", "./postrm"):
        script = control.extractfile(name)
        content = script.read() if script else b""
        checked = subprocess.run(["sh", "-n"], input=content, capture_output=True, check=False)
        if checked.returncode or b"\nset -e\n" not in content:
            yield f"{name[2:]} is no script that ends at the first fault"
        if not control.getmember(name).mode & stat.S_IXUSR:
            yield f"{name[2:]} cannot be executed"


def _check_files(files: tarfile.TarFile) -> Iterator[str]:
    names = {member.name for member in files.getmembers()}
    for member in files.getmembers():
        path = member.name.removeprefix(".").removeprefix("/")
        if path and not any(path.startswith(place) or place.startswith(path.rstrip("/")) for place in _PLACES):
            yield f"{path} is not where a package may have files"
        if (member.uid, member.gid) != (0, 0):
            yield f"{path} does not belong to root"
        if member.mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID) and not member.issym():
            yield f"{path} has mode {member.mode:o}"
        if member.issym() and not member.linkname.startswith("/"):
            target = "./" + os.path.normpath(os.path.join(os.path.dirname(path), member.linkname))  # noqa: PTH118, PTH120
            if target not in names:
                yield f"{path} leads to {member.linkname}, which is not there"
    for program in ("gatepost", "gatepost-serve"):
        if f"./usr/share/man/man1/{program}.1.gz" not in names:
            yield f"{program} has no manual page"


def _read_archive(package: Path, what: str) -> tarfile.TarFile:
    read = subprocess.run(["dpkg-deb", what, str(package)], capture_output=True, check=True)
    return tarfile.open(fileobj=BytesIO(read.stdout))


def _ask(*command: object) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout.strip()


def _run(*command: object) -> None:
    try:
        subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as fault:
        raise PackageError(f"{' '.join(map(str, command[:3]))} failed: {fault.stderr.strip()}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--level", type=int, default=6, help="of xz: 0 is fast, 9 is small")
    options = parser.parse_args()
    try:
        package = build_package(options.wheel.absolute(), options.output.absolute(), level=options.level)
    except PackageError as fault:
        sys.exit(str(fault))
    print(f"{package}: {package.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
