"""What tests share: the data folder beside the checkout, unpacked once, and a ban on the outside world."""

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("conformance")` is the unpacked suite; without it the test is reported as not run."""

    def unpacked(name: str) -> Path:
        archive = DATA / f"{name}.tar.zst"
        if not archive.exists():
            pytest.skip(f"not run: suite {name} not present")
        return _unpack(archive)

    return unpacked


def _unpack(archive: Path) -> Path:
    """Unpack outside the checkout, into a folder named by what the archive is, so that later runs find it again."""
    stamp = f"{archive.name}:{archive.stat().st_size}:{archive.stat().st_mtime_ns}:{os.getuid()}"
    place = Path(tempfile.gettempdir()) / f"gatepost-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"
    if not place.exists():
        fresh = Path(tempfile.mkdtemp(dir=place.parent))
        with (
            archive.open("rb") as packed,
            zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tree,
        ):
            tree.extractall(fresh, filter="data")
        try:
            fresh.rename(place)
        except OSError:  # another run was quicker
            shutil.rmtree(fresh)
    (inside,) = [entry for entry in place.iterdir() if entry.is_dir()]
    return inside
