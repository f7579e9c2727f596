"""A handler that does nothing: reads the upload over TLS and answers a few bytes. The bare limit of the HTTP server."""

import datetime as dt
import sys
import tempfile
from pathlib import Path

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def answer(request: Request) -> Response:
    async for _ in request.stream():
        pass
    return Response(b'{"decision":"deliver"}', media_type="application/json")


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of the same kind as the service's own, so that TLS costs the same."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *encoding))
    return certificate_file, key_file


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificate_file, key_file = certificate(Path(folder))
        app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
        uvicorn.run(
            app,
            host="127.0.0.1",
            port=int(sys.argv[1]),
            log_level="error",
            loop="uvloop",
            http="httptools",
            ssl_certfile=certificate_file,
            ssl_keyfile=key_file,
            access_log=False,
        )


if __name__ == "__main__":
    main()
