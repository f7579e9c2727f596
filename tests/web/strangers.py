"""Browsers in which nobody is signed in yet. Each has an address of its own: whoever guesses from one has to wait."""

import time
from itertools import count
from typing import Any

import httpx

from gatepost.web import credentials

_numbers = count()


def new_address() -> str:
    """An address of this machine that no other browser of the tests has."""
    number = next(_numbers)
    return f"127.77.{number // 250}.{number % 250 + 1}"


def post(site: Any, path: str, fields: dict[str, str], cookie: str = "", address: str = "") -> httpx.Response:
    """Send a form with these cookies, each time from another address if none is given."""
    transport = httpx.HTTPTransport(local_address=address or new_address(), verify=site.no_tls)
    with httpx.Client(transport=transport, timeout=60, trust_env=False) as client:
        return client.post(site.url + path, data=fields, headers={"Accept": "text/html", "Cookie": cookie})


def enter(site: Any, name: str, password: str, cookie: str = "", address: str = "", **more: str) -> httpx.Response:
    return post(site, "/sign-in", {"name": name, "password": password, **more}, cookie, address)


def cookies_of(answer: httpx.Response) -> str:
    return "; ".join(given.partition(";")[0] for given in answer.headers.get_list("set-cookie"))


def code_of(secret: str, later: int = 0) -> str:
    """The code that an app shows now, or so many steps later."""
    return credentials.totp_code(secret, int(time.time()) // credentials.TOTP_SECONDS + later)
