"""Every bound of an SMTP session, in one place, and how long the next hop may take.

RFC 5321 section 4.5.3.1 says how much a server must take, section 4.5.3.2 how long each side should wait. A client
waits ten minutes for the last reply; analysis and next hop must both fit into that, so the next hop gets part of it.
"""

import msgspec

from gatepost.api.scanning import MAX_BODY


class SmtpLimits(msgspec.Struct, frozen=True):
    """Bytes, counts and seconds."""

    command_line: int = 2_048
    path: int = 512
    message: int = MAX_BODY
    recipients: int = 1_000
    # Commands in one session; those in a row that bring no mail forward; those that were wrong.
    commands: int = 20_000
    idle_commands: int = 100
    errors: int = 10
    hops: int = 100
    # A command line must be whole within `command_wait`, and something of the message must come within `data_wait`.
    command_wait: float = 300.0
    data_wait: float = 180.0
    # A message may take `data_grace` seconds, more at this many bytes for each further one, and `data_most` at most.
    data_grace: float = 300.0
    data_rate: int = 1_024
    data_most: float = 3_600.0
    # A client that speaks before the greeting is no mail server (RFC 5321 section 4.3.1); known hosts do not wait.
    greeting_pause: float = 0.2
    handshake: float = 30.0
    per_address: int = 50
    # Bytes of all messages that are on their way in.
    spooled: int = 2 << 30
    stop: float = 45.0


class NextHopTimeouts(msgspec.Struct, frozen=True):
    """Seconds that the next hop may take for each step (RFC 5321 section 4.5.3.2, scaled)."""

    connect: float = 10.0
    greeting: float = 60.0
    command: float = 60.0
    block: float = 60.0
    final: float = 300.0

    @classmethod
    def from_setting(cls, seconds: float) -> "NextHopTimeouts":
        """Return all times from that for a reply to a command; the last reply may take five times as long."""
        return cls(min(seconds, 10.0), seconds, seconds, seconds, seconds * 5)
