"""Every way to fail: a closed set of codes, each with its status and what it means.

Inside the services a failure is a value, `Failure`, that travels up to the one place that makes a response of it.
`v1` may gain codes; none ever changes its meaning or its status.
"""

import msgspec


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of every answer that is not a success."""

    error: str
    message: str | None = None


class ErrorCode(msgspec.Struct, frozen=True):
    """One code. `retry_after` is the `Retry-After` in seconds that goes with it, 0 for none."""

    code: str
    status: int
    meaning: str
    retry_after: int = 0


class Failure(msgspec.Struct, frozen=True):
    """One request that failed: the code, and the sentence that helps a person and names what is at fault."""

    error: ErrorCode
    message: str
    headers: tuple[tuple[str, str], ...] = ()


MALFORMED_REQUEST = ErrorCode(
    "malformed_request",
    400,
    "The request cannot be parsed as what it claims to be (HTTP, multipart, JSON, UTF-8), or JSON repeats a key.",
)
MISSING_PART = ErrorCode("missing_part", 400, "The part `parameters` or `email` is absent.")
DUPLICATE_PART = ErrorCode("duplicate_part", 400, "The part `parameters` or `email` is there twice.")
WRONG_PART_TYPE = ErrorCode(
    "wrong_part_type", 400, "The part `parameters` does not have `application/json` as its own content type."
)
INVALID_PARAMETERS = ErrorCode(
    "invalid_parameters", 400, "A field of `parameters` fails validation; the message names each one."
)
INVALID_REQUEST = ErrorCode("invalid_request", 400, "A field of the body fails validation; the message names each one.")
EMPTY_EMAIL = ErrorCode("empty_email", 400, "The part `email` has no bytes.")
TOO_MANY_ENTRIES = ErrorCode("too_many_entries", 400, "More than 500 entries in one call.")
INVALID_ENTRY = ErrorCode(
    "invalid_entry", 400, "The list refuses an entry, or the entry has expired already; the message gives its index."
)
UNAUTHORIZED = ErrorCode("unauthorized", 401, "No, malformed, unknown, expired or revoked credential.")
FORBIDDEN = ErrorCode("forbidden", 403, "The credential is valid and may not do this.")
NOT_FOUND = ErrorCode("not_found", 404, "There is nothing at this path.")
LIST_NOT_FOUND = ErrorCode("list_not_found", 404, "There is no list of this name in this scope.")
TENANT_NOT_FOUND = ErrorCode("tenant_not_found", 404, "There is no tenant with this uid.")
MESSAGE_NOT_FOUND = ErrorCode("message_not_found", 404, "No analysis with this ggrid is on record.")
METHOD_NOT_ALLOWED = ErrorCode(
    "method_not_allowed", 405, "The path exists, and takes other methods; `Allow` names them."
)
LIST_FULL = ErrorCode(
    "list_full",
    409,
    "The call would take the list past `maxSize`, or the lists of the scope that"
    " travel to the workers past their bytes; nothing of it was applied.",
)
PAYLOAD_TOO_LARGE = ErrorCode("payload_too_large", 413, "The request body is over the limit, announced or streamed.")
UNSUPPORTED_MEDIA_TYPE = ErrorCode(
    "unsupported_media_type", 415, "The body's content type or content encoding is not one that is taken here."
)
MESSAGE_NOT_SHOWN = ErrorCode(
    "message_not_shown", 409, "The message is held, and could not be read into text; the message says why."
)
RATE_LIMITED = ErrorCode(
    "rate_limited",
    429,
    "Too many calls of this tenant, key or token are running: streams, dry runs, trials of policies, searches, views of"
    " messages or bulk actions.",
    retry_after=5,
)
INTERNAL_ERROR = ErrorCode(
    "internal_error", 500, "A fault of ours; the message carries a reference that is in the log."
)
SCANNING_DISABLED = ErrorCode("scanning_disabled", 503, "No core has `restApi` under `scanSources`.", retry_after=300)
CORE_UNAVAILABLE = ErrorCode("core_unavailable", 503, "No core answers.", retry_after=5)
OVERLOADED = ErrorCode(
    "overloaded",
    503,
    "The messages that wait for a slot hold more than 1 GiB in all, or too many lists are being read or tried at once.",
    retry_after=10,
)
STORAGE_UNAVAILABLE = ErrorCode(
    "storage_unavailable",
    503,
    "The database or the disk cannot be used now; the request can be sent again as it is.",
    retry_after=5,
)
DELIVERY_FAILED = ErrorCode(
    "delivery_failed", 503, "The next hop did not take the message; it is held as before.", retry_after=60
)
ANALYSIS_TIMEOUT = ErrorCode("analysis_timeout", 504, "No slot or no result within `longRequestTimeout`.")

# Every code above, in their order.
ERRORS: tuple[ErrorCode, ...] = tuple(each for each in list(globals().values()) if isinstance(each, ErrorCode))
