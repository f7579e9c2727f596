"""The first start: from an empty folder to a service that takes mail.

Every file is written whole or not at all, and only if it is absent. A start that was killed in between is therefore
completed by the next one, and a second start changes nothing. The administrator's password is the exception: only its
hash is kept, so the password is shown first and stored afterwards; a start that is interrupted between the two shows a
new one.
"""

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_guard, read_as_written

if TYPE_CHECKING:
    from gatepost.store.users import Users


ADMINISTRATOR = "admin"

GUARD_YML = """\
# guard, Gatepost's core: sources of mail and limits of the analysis.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then restart.

# Number of messages that are processed at once. maxGuardRequestsInProcessing (further messages are refused) and
# guardRequestThrottleThreshold (further messages are delayed) have this value unless they are set.
mainWorkerCount: 20

scanSources:
  # The HTTPS source for abby; `restApi: {}` alone means the same.
  restApi: {host: 127.0.0.1, port: 9785}
  # smtp: {host: 127.0.0.1, port: 10025}

# delivery: {nextHop: "smtp://127.0.0.1:10026"}

# By default the name servers of the system are used.
# dns: {nameservers: ["192.0.2.53:53"], timeout: 2000}

# Results and ledgers are kept in one file of the data folder.
storage: {url: "sqlite:gatepost.db"}
"""
ABBY_YML = """\
# abby, Gatepost's API service: its users, and the cores that analyse their mail.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then restart.

# Only this machine can reach it. 0.0.0.0 opens it to others; then configure your own certificate:
# tls: {{certificate: /path/fullchain.pem, key: /path/privkey.pem}}
listen: {{host: 127.0.0.1, port: 9081}}

serviceProviders:
  core:
    # The cores that messages are distributed to. Cores on several machines need PostgreSQL as storage.
    hosts: ["https://127.0.0.1:{port}"]
{secret}    # Milliseconds that a scan may take, waiting included.
    longRequestTimeout: 3600000

# Users of the Email Scanning API: `Authorization: Bearer TOKEN`. Generate tokens with `openssl rand -hex 32`, and keep
# each in a file that only Gatepost can read.
staticApiTokens:
  - name: first
    token: "{token}"
    permissions: [messages.read]

storage: {{url: "{storage}"}}
"""
# Relative to the file, so that the folder can be moved. The token itself stands in one file of mode 0600 and nowhere
# else: a configuration is copied, sent to colleagues and put under version control.
TOKEN_REFERENCE = "${file:../../token}"  # noqa: S105  no token, but where it is
EXAMPLE = """\
From: Ann Example <ann@example.org>\r
To: Bob Example <bob@example.com>\r
Subject: Minutes of Tuesday\r
Date: Tue, 10 Nov 2026 09:12:00 +0000\r
Message-ID: <minutes-1@example.org>\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=utf-8\r
\r
Hello Bob,\r
\r
the minutes of Tuesday's meeting are on the shared drive as usual.\r
\r
Regards\r
Ann\r
"""


def prepare(data: DataFolder, config: Path | None) -> Path:
    """Complete what is missing in the data folder; returns the folder of the configuration.

    A configuration that the operator keeps elsewhere is never written to.
    """
    if config is None:
        _write_configuration(data)
    ensure_secret(data)
    data.write_once(data.example, EXAMPLE)
    return config or data.path


def ensure_secret(data: DataFolder) -> None:
    """Write the secret that abby authenticates to guard with, unless it is there."""
    data.write_once(data.secret, secrets.token_hex(32))


def _write_configuration(data: DataFolder) -> None:
    data.write_once(data.path / GUARD_FILE, GUARD_YML)
    if (data.path / ABBY_FILE).exists():
        return
    data.write_once(data.token, secrets.token_hex(32))
    guard = load_guard(data.path)
    source = guard.scan_sources.rest_api
    # As the operator wrote them: a reference to a secret stays one.
    secret = read_as_written(data.path / GUARD_FILE, "scanSources", "restApi", "secret")
    storage = read_as_written(data.path / GUARD_FILE, "storage", "url")
    text = ABBY_YML.format(
        port=source.port if source else 9785,
        secret=f"    secret: {json.dumps(secret)}\n" if secret else "",
        token=TOKEN_REFERENCE,
        storage=json.dumps(storage or guard.storage.url)[1:-1],
    )
    data.write_once(data.path / ABBY_FILE, text)


async def create_administrator(store: "Users", password: str) -> None:
    """Create the first user, the administrator."""
    from gatepost.store.audit import SYSTEM
    from gatepost.web.credentials import PasswordHashes

    hashed = await PasswordHashes().hash(password)
    await store.create(ADMINISTRATOR, "administrator", None, hashed, SYSTEM, first_password=True)
