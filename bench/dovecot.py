"""A Dovecot in a folder of its own that checks passwords for a mail server, and does nothing else."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "eight-ducks"

# Every user has the same password.
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols =
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain
passdb {{
  driver = static
  args = password={{PLAIN}}{password}
}}
service auth {{
  unix_listener {folder}/auth {{
    mode = 0666
  }}
}}
"""


def dovecot_missing() -> str | None:
    """Why Dovecot cannot be run here; None where it can."""
    if not shutil.which("dovecot"):
        return "Dovecot is not installed"
    return None if os.geteuid() == 0 else "Dovecot needs root"


@contextlib.contextmanager
def password_service(folder: Path) -> Iterator[Path]:
    """Yield the Unix socket at which a mail server asks for passwords."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dovecot.conf").write_text(_CONFIG.format(folder=folder, password=PASSWORD))
    with subprocess.Popen(["dovecot", "-F", "-c", str(folder / "dovecot.conf")], start_new_session=True) as process:
        try:
            _await_answer(folder / "auth", process)
            yield folder / "auth"
        finally:
            process.terminate()
            process.wait(180)


def _await_answer(place: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if process.poll() is not None:
            raise ChildProcessError(f"Dovecot ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(place))
            if connection.recv(100).startswith(b"VERSION"):
                return
        time.sleep(0.05)
    raise TimeoutError((place.parent / "log").read_text())
