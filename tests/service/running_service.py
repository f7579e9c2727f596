"""`gatepost` as a person runs it: a process of its own, its output in a file, clients that trust its certificate."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
from bench.processes import await_output
from tests.command_line import run_command


class RunningCommand:
    """One running command; `program` are the words for Python that are the command `gatepost`."""

    def __init__(
        self, output: Path, *words: object, program: Sequence[str] = ("-m", "gatepost"), **environment: str
    ) -> None:
        self.output = output
        command, whole = [sys.executable, *program, *map(str, words)], {**os.environ, **environment}
        with output.open("wb") as sink:
            self.popen = subprocess.Popen(command, stdout=sink, stderr=sink, env=whole, cwd=output.parent)

    @property
    def text(self) -> str:
        return self.output.read_text("utf-8", "replace")

    def until(self, words: str = '"service listening"') -> str:
        """Wait for words in the output; returns all of it."""
        return await_output(self.popen, self.output, words, 180)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(90)


class RunningService(RunningCommand):
    """A `gatepost serve` that listens, with its data folder and the port of its API."""

    patience = 60.0

    def __init__(self, data: Path, port: int, program: Sequence[str] = ("-m", "gatepost"), **environment: str) -> None:
        super().__init__(data.parent / "output", "serve", "--data", data, program=program, **environment)
        self.data, self.port = data, port
        self.welcome = self.until()

    def client(self) -> httpx.Client:
        return connect(self.data, self.port, self.patience)

    def run(self, *words: object, code: int = 0) -> str:
        """Run a command on the data folder of the service; returns what it printed."""
        ended, out, err = run_command(*words, "--data", self.data)
        assert ended == code, out + err
        return out


def connect(data: Path, port: int, seconds: float = 60.0) -> httpx.Client:
    """A client that trusts the certificate in a data folder."""
    trusted = ssl.create_default_context(cafile=str(data / "tls/certificate.pem"))
    return httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False, timeout=seconds)
