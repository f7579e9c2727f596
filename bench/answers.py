"""How long the service takes to answer for hostile mail of at most 1 MB, one message at a time, over HTTPS.

    python -m bench.answers

The mail is what reviewers sent and what grew in their place: a host of 60,000 labels, broken quoted-printable around
scripts, attached pages that hang in every way that `tests/pages` knows, and the giants of `bench.nasty` cut to 1 MB.
An answer takes at most 2.5 s on two cores with nothing beside it, and no worker is lost: that is the aim.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.pages.test_runner import HANGING, SLOW

from bench import load
from bench.nasty import GIANTS, HEAD
from bench.ports import free_ports
from bench.processes import await_output

MOST_SECONDS, MOST_BYTES = 2.5, 1_000_000
ENVELOPE: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["bob@example.com"]}
PAGE = HEAD + b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee the page.\r\n"
ATTACHED = (
    b'--b\r\nContent-Type: text/html; name="a.html"\r\nContent-Disposition: attachment; filename="a.html"\r\n\r\n'
)


def list_mail() -> Iterator[tuple[str, bytes]]:
    """Yield the messages with their names."""
    yield "60,000 labels", HEAD + b"\r\nhttp://" + b"www." * 60_000 + b"example/"
    for kilobytes in (120, 240, 480, 960):
        line = b"<script>a=1</script>=ZZ text =\r\n"
        head = HEAD + b"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
        yield f"scripts in broken quoted-printable, {kilobytes} KB", head + line * (kilobytes * 1024 // len(line))
    for name, code in {**SLOW, **HANGING}.items():
        yield f"page: {name}", PAGE + ATTACHED + f"<script>{code}</script>".encode() + b"\r\n--b--\r\n"
    pages = [f"<script>{code}</script>".encode() for code in HANGING.values()]
    yield "all hanging pages in one mail", PAGE + b"\r\n".join(ATTACHED + page for page in pages) + b"\r\n--b--\r\n"
    for name, make in GIANTS.items():
        yield name, make()[:MOST_BYTES]


def main() -> None:
    """Print the messages that took longest, and what was lost."""
    base = free_ports(1)[0]
    with tempfile.TemporaryDirectory() as place:
        data, output = Path(place) / "data", Path(place) / "output"
        command = [sys.executable, "-m", "gatepost", "serve", "--data", str(data), "--port-base", str(base)]
        with output.open("wb") as sink:
            service = subprocess.Popen(command, stdout=sink, stderr=sink)
        try:
            await_output(service, output, "curl")
            token = (data / "token").read_text().strip()
            url = f"https://127.0.0.1:{base + 81}"
            connection = load.Connection(url)
            rows = []
            for name, raw in list_mail():
                begun = time.perf_counter()
                answer = connection.exchange(load.upload(raw, ENVELOPE, token)).partition(b"\n")[2]
                verdict = json.loads(answer).get("verdict", answer[:80].decode())
                rows.append((time.perf_counter() - begun, len(raw), verdict, name))
            lost = re.findall(r"worker (?:lost|killed|ended|crashed)[^\n]*", output.read_text())
        finally:
            service.terminate()
            service.wait()
    for seconds, size, verdict, name in sorted(rows, reverse=True)[:15]:
        print(f"{seconds:6.2f} s  {size / 1000:6.0f} KB  {verdict:<12} {name}")
    print(f"{len(rows)} messages; {sum(row[0] > MOST_SECONDS for row in rows)} took over {MOST_SECONDS} s; {lost=}")


if __name__ == "__main__":
    main()
