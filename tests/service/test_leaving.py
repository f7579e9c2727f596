"""Work for a client that has left ends, and a service that is told to stop waits for none: with real processes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest
from bench.ports import free_ports
from bench.scanning import configure
from tests.command_line import run_command
from tests.service.running_service import RunningCommand, connect
from tests.service.test_serve import Start, start

from gatepost.web.request import GLOBAL

__all__ = ["start"]
PASSWORD = "six words for a small test"
# Blank lines are no entries: the reader passes them over for half a minute, and says nothing meanwhile.
CONTENT = b"\n" * (16 << 20)


class Visitor:
    """An administrator at a browser."""

    def __init__(self, data: Path, port: int) -> None:
        self.client = connect(data, port, 120)
        self.client.post("/sign-in", data={"name": "ann", "password": PASSWORD})
        self.answers: list[httpx.Response] = []
        self.csrf = self.client.get("/account").text.partition('name="csrf" value="')[2].partition('"')[0]

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Send a file; leave at the end."""

        def send() -> None:
            with suppress(httpx.HTTPError):
                form, file = {"csrf": self.csrf, "what": "try"}, {"file": ("x.txt", CONTENT)}
                self.answers.append(self.client.post(f"/lists/{GLOBAL}/blocked-urls/import", data=form, files=file))

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            self.client.close()
            thread.join()


def find_readers(service: RunningCommand) -> list[psutil.Process]:
    """The sealed processes that read files."""
    children = psutil.Process(service.popen.pid).children()
    return [each for each in children if "gatepost.feeds.sealed_reading" in each.cmdline()]


def await_reader(service: RunningCommand, visitor: Visitor) -> psutil.Process:
    """Wait until a reader has all of the file: then it computes."""
    while True:
        assert not visitor.answers, visitor.answers[0].text
        for reader in find_readers(service):
            with suppress(psutil.NoSuchProcess):
                if reader.cpu_times().user > 2.0:
                    return reader
        assert service.popen.poll() is None
        time.sleep(0.05)


@pytest.mark.variant
def test_reading_ends_with_its_client_and_with_the_service(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    port, core = free_ports(2)
    configure(data, port, core, "127.0.0.1:9", "workerProcesses: 1\n")
    service = start("serve", "--data", data)
    service.until("https://")
    run_command("user", "create", "ann", "--role", "administrator", "--final", "--data", data, stdin=PASSWORD.encode())
    visitor = Visitor(data, port)
    with visitor.importing():
        left = await_reader(service, visitor)
    left.wait(60)
    visitor = Visitor(data, port)
    with visitor.importing():
        stopped = await_reader(service, visitor)
        assert service.stop() == 0
        assert not stopped.is_running()
