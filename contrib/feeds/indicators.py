#!/usr/bin/env python3
"""Copy indicators of a MISP server or a TAXII 2.1 collection into a list of Gatepost, through the List API.

    indicators.py misp https://misp.example --list blocked-urls
    indicators.py taxii https://taxii.example/api/collections/91a7b528/ --list blocked-ips

The keys are read from the environment: GATEPOST_API_KEY, MISP_KEY, TAXII_USER and TAXII_PASSWORD. Every entry expires
after some days unless the source still has it at the next run, so that what a source drops leaves the list by itself.
Run it from a timer. It needs gatepost, pymisp and taxii2-client (`requirements.txt` beside it).
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from gatepost.client import ApiError, Client, NewListEntry

CALL = 500
# Which kinds of indicators each list takes. A host is no sender: a site that was broken into may send honest mail.
KINDS = {
    "blocked-urls": ("url", "host"),
    "blocked-ips": ("address",),
    "blocked-senders": ("email",),
    "blocked-files": ("sha256",),
}
MISP_TYPES = {
    "url": ("url",),
    "host": ("domain", "hostname"),
    "address": ("ip-src", "ip-dst"),
    "email": ("email", "email-src", "email-reply-to"),
    "sha256": ("sha256",),
}
STIX_PATHS = {
    "url": "url:value",
    "host": "domain-name:value",
    "address": "ipv[46]-addr:value",
    "email": "email-addr:value",
    "sha256": "file:hashes.'SHA-256'",
}


def read_misp(url: str, kinds: tuple[str, ...], days: int, ca: str | None) -> Iterator[tuple[str, str]]:
    """Yield value and comment of every attribute that is marked for detection and was changed in these days."""
    from pymisp import PyMISP

    server = PyMISP(url, os.environ["MISP_KEY"], ssl=ca or True)
    types = [name for kind in kinds for name in MISP_TYPES[kind]]
    page = 1
    while found := server.search(
        "attributes", type_attribute=types, to_ids=True, timestamp=f"{days}d", limit=1_000, page=page
    )["Attribute"]:
        for each in found:
            yield each["value"], each.get("comment", "")
        page += 1


def read_taxii(url: str, kinds: tuple[str, ...], days: int, ca: str | None) -> Iterator[tuple[str, str]]:
    """Yield value and name of every indicator that compares one value and was added in these days.

    STIX patterns (section 9 of the standard) can say much more than a list can hold, and such a one is passed over: a
    part of it by itself may be innocent.
    """
    from taxii2client.v21 import Collection, as_pages

    user, password = os.environ.get("TAXII_USER"), os.environ.get("TAXII_PASSWORD")
    collection = Collection(url, user=user, password=password, verify=ca or True)
    paths = "|".join(STIX_PATHS[kind] for kind in kinds)
    pattern = re.compile(rf"\s*\[\s*(?:{paths})\s*=\s*'([^'\\]+)'\s*\]\s*")
    after = datetime.now(UTC) - timedelta(days=days)
    for page in as_pages(collection.get_objects, per_request=1_000, added_after=after, type="indicator"):
        for each in page.get("objects", ()):
            compared = pattern.fullmatch(each.get("pattern", "")) if is_valid(each) else None
            if compared:
                yield compared[1], each.get("name", "")


def is_valid(indicator: dict[str, Any]) -> bool:
    """Whether an object is an indicator in STIX that neither was revoked nor has ended."""
    if indicator.get("type") != "indicator" or indicator.get("pattern_type", "stix") != "stix":
        return False
    until = indicator.get("valid_until")
    return not indicator.get("revoked") and (not until or until > datetime.now(UTC).isoformat())


def main() -> int:
    """Copy what a source says, and print how many entries there are now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=("misp", "taxii"))
    parser.add_argument("url", help="address of the MISP server, or of the TAXII collection")
    parser.add_argument("--list", default="blocked-urls", choices=KINDS, help="list to fill (blocked-urls)")
    parser.add_argument("--tenant", help="uid of the tenant whose list it is; the deployment's without it")
    parser.add_argument("--days", type=int, default=30, help="age of indicators that are read, in days (30)")
    parser.add_argument("--keep", type=int, default=7, help="days after which an entry expires (7)")
    parser.add_argument("--gatepost", default="https://127.0.0.1:9081", help="address of Gatepost")
    parser.add_argument("--gatepost-ca", help="PEM file to verify Gatepost's certificate with")
    parser.add_argument("--ca", help="PEM file to verify the source's certificate with")
    given = parser.parse_args()
    read = read_misp if given.source == "misp" else read_taxii
    expires = f"{datetime.now(UTC) + timedelta(days=given.keep):%Y-%m-%dT%H:%M:%SZ}"
    found = dict(read(given.url, KINDS[given.list], given.days, given.ca))
    entries = (NewListEntry(value, f"{given.source}: {comment}"[:1_000], expires) for value, comment in found.items())
    added = refused = 0
    with Client(given.gatepost, "", api_key=os.environ["GATEPOST_API_KEY"], ca=given.gatepost_ca) as gatepost:
        while batch := list(islice(entries, CALL)):
            try:
                added += gatepost.add_entries(given.list, batch, tenant=given.tenant).modified_entries
            except ApiError as fault:
                if fault.code != "invalid_entry":
                    raise
                # A call is atomic, so the entries of one that was refused go one by one.
                for entry in batch:
                    try:
                        added += gatepost.add_entries(given.list, [entry], tenant=given.tenant).modified_entries
                    except ApiError as single:
                        refused += 1
                        print(f"{entry.entry[:100]} was not taken: {single.message}", file=sys.stderr)
    print(f"{added} entries of {given.list} were added or renewed, {refused} were refused.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
