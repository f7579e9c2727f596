"""An OpenID provider in a process of its own: discovery, keys, authorization code flow with PKCE, logout tokens.

`python -m tests.web.openid_provider HOST` prints its issuer and serves until its standard input is closed. It does what
the standards say, signs with joserfc, and refuses a code that was used, another redirect URI, a wrong verifier and a
wrong client. POST /control sets the claims of the user who signs in next, and what it shall do wrong.
"""

import base64
import hashlib
import json
import secrets
import sys
import threading
import time
import warnings
from collections import Counter
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

CLIENT, SECRET = "gatepost-tests", "a secret: of/the client"  # as in `bench/visiting.py`


@cache
def make_keys() -> dict[str, RSAKey | ECKey | OKPKey]:
    """The keys of the provider. They are made where one runs: each worker of a parallel run imports this."""
    return {
        "RS256": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig", "alg": "RS256"}),
        "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
        "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "okp"}),
    }


@cache
def make_strange_key() -> RSAKey:
    """A key of somebody else, with the name of one of the provider's."""
    return RSAKey.generate_key(2048, {"kid": "rsa"})


class State:
    """What the provider knows, and what it was told to do."""

    issuer = ""
    claims: ClassVar[dict[str, Any]] = {}
    wrong = ""
    algorithm = "RS256"
    codes: ClassVar[dict[str, dict[str, str]]] = {}
    requests: ClassVar[Counter[str]] = Counter()


def sign(claims: dict[str, Any], algorithm: str = "", typ: str = "JWT") -> str:
    """A token as the provider signs it, or as somebody else would who wants to be believed."""
    name = algorithm or State.algorithm
    payload = json.dumps(claims).encode()
    if State.wrong == "alg none":
        return f"{_encode(json.dumps({'alg': 'none', 'typ': typ}).encode())}.{_encode(payload)}."
    if State.wrong == "hmac with the public key":
        pem = make_keys()["RS256"].as_pem(private=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shared = OctKey.import_key(pem) if not pem.startswith(b"-") else OctKey.import_key(_encode(pem))
        return jws.serialize_compact({"alg": "HS256", "kid": "rsa", "typ": typ}, payload, shared, ["HS256"])
    key: Any = make_strange_key() if State.wrong == "key of a stranger" else make_keys()[name]
    kid = "unheard-of" if State.wrong == "unknown key" else key.kid
    token = jws.serialize_compact({"alg": name, "kid": kid, "typ": typ}, payload, key, [name])
    if State.wrong == "changed claims":
        head, _, signature = token.split(".")
        changed = json.dumps({**claims, "sub": "somebody else"}).encode()
        return f"{head}.{_encode(changed)}.{signature}"
    return token


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def id_token(nonce: str) -> str:
    """The id token of the user who signs in; a claim that was set to nothing is not in it."""
    now = int(time.time())
    claims = {"iss": State.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, "auth_time": now}
    claims |= State.claims
    claims = {name: value for name, value in claims.items() if value is not None}
    return sign(claims, typ="at+jwt" if State.wrong == "access token" else "JWT")


class Handler(BaseHTTPRequestHandler):
    """The endpoints."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        State.requests[path] += 1
        if path == "/.well-known/openid-configuration":
            self._answer(200, self._discovery())
        elif path == "/keys":
            listed = [key.as_dict(private=False) for key in make_keys().values()]
            self._answer(200, {"keys": [{"kty": "oct", "k": "eA"}, {"kty": "RSA"}, 7, *listed]})
        elif path == "/authorize":
            self._authorize(query)
        elif path == "/control":
            self._answer(200, dict(State.requests))
        else:
            self._answer(404, {})

    def _discovery(self) -> dict[str, Any]:
        base = State.issuer
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/keys",
            "end_session_endpoint": f"{base}/leave",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _authorize(self, query: dict[str, str]) -> None:
        if query["client_id"] != CLIENT or query["code_challenge_method"] != "S256" or "openid" not in query["scope"]:
            self._answer(400, {"error": "invalid_request"})
            return
        code = secrets.token_urlsafe(16)
        State.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": State.issuer}
        if State.wrong == "access denied":
            answer = {"error": "access_denied", "state": query["state"], "iss": State.issuer}
        elif State.wrong == "answer of another issuer":
            answer["iss"] = "https://evil.example"
        elif State.wrong == "answer without issuer":
            del answer["iss"]
        self.send_response(303)
        self.send_header("Location", f"{query['redirect_uri']}?{urlencode(answer)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        State.requests[self.path] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/control":
            told = json.loads(body)
            State.claims, State.wrong = told.get("claims", State.claims), told.get("wrong", "")
            State.algorithm = told.get("algorithm", "RS256")
            self._answer(200, {"logout_token": _logout_token(told["logout"])} if "logout" in told else {})
        elif self.path == "/token":
            self._exchange(dict(parse_qsl(body.decode())))
        else:
            self._answer(404, {})

    def _exchange(self, form: dict[str, str]) -> None:
        asked = State.codes.pop(form.get("code", ""), None)
        challenge = _encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        pair = f"{CLIENT}:{_quote(SECRET)}"
        if self.headers.get("Authorization") != f"Basic {base64.b64encode(pair.encode()).decode()}":
            self._answer(401, {"error": "invalid_client"})
        elif (
            not asked
            or form.get("grant_type") != "authorization_code"
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            self._answer(400, {"error": "invalid_grant"})
        elif State.wrong == "redirect":
            self.send_response(307)
            self.send_header("Location", f"{State.issuer}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif State.wrong == "huge answer":
            self._answer(200, {"id_token": "x" * (1 << 20)})
        elif State.wrong == "no JSON":
            self._send(200, b"<html>")
        elif State.wrong == "no id token":
            self._answer(200, {"access_token": "x"})
        else:
            self._answer(200, {"access_token": "x", "token_type": "Bearer", "id_token": id_token(asked["nonce"])})

    def _answer(self, status: int, found: dict[str, Any]) -> None:
        self._send(status, json.dumps(found).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _logout_token(more: dict[str, Any]) -> str:
    now = int(time.time())
    events: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    claims = {
        "iss": State.issuer,
        "aud": CLIENT,
        "iat": now,
        "exp": now + 120,
        "jti": secrets.token_hex(8),
        "events": events,
        **more,
    }
    return sign({name: value for name, value in claims.items() if value is not None}, typ="logout+jwt")


def _quote(text: str) -> str:
    return urlencode({"": text}).removeprefix("=").replace("+", "%20")


def main() -> None:
    """Serve until standard input ends."""
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    State.issuer = f"http://{host}:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{State.issuer}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
