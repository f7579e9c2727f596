"""What can go wrong for a caller: the service said no, or nobody answered."""


class ClientError(Exception):
    """Everything that the client raises."""


class ApiError(ClientError):
    """The service answered with an error: its HTTP status, its machine-readable code, and its words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message or code} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message


class UnreachableError(ClientError):
    """No answer, after every attempt."""


class UnexpectedReplyError(ClientError):
    """An answer that is not Gatepost's: a proxy's page, another service, a newer version."""


class BrokenStreamError(ClientError):
    """A stream ended before its end: what came so far is not the whole list."""
