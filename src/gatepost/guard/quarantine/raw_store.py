"""The raw bytes of held mail: in a folder, or in an object store that an address names.

A source answers 250 for what lies here, so `put` returns only when the bytes survive a power cut. Object stores promise
that with their answer (S3, Google Cloud Storage, Azure). For a folder it takes work: the file is written under another
name and synced, renamed, and then the folder that has the new name is synced as well, for a name is data of its folder.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from gatepost.ids import canonical
from gatepost.process.hiding import hide
from gatepost.scanning.spool import MessageBody
from gatepost.store.errors import StorageError
from gatepost.store.quarantine import QuarantineRecords

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig


T = TypeVar("T")

SUFFIX = ".eml"
# An object without content, whose date is the time of the object store.
CLOCK = "clock"
CHUNK = 1 << 20
BATCH = 500
OBJECT_SECONDS = 30.0
_OBJECT_SCHEMES = ("s3", "gs", "az")
# How S3, Azure and Google say that there is no such bucket; the exception is that of an object.
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
# Of their own: a disk that does not answer takes those that wait for it, and not those of everybody.
_disk = ThreadPoolExecutor(8, "quarantine")
_RETRIES: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=OBJECT_SECONDS)}


class RawStore(Protocol):
    """Raw messages by ggrid. Every method raises `StorageError` where folder or bucket cannot be used."""

    async def put(self, ggrid: str, raw: MessageBody) -> None:
        """Keep a message; durable when it returns. The same ggrid again has the same bytes."""
        ...

    async def get(self, ggrid: str) -> bytes | None: ...

    async def delete(self, ggrid: str) -> None:
        """Remove a message; one that is not there is no fault."""
        ...

    def older_than(self, seconds: float) -> AsyncIterator[list[str]]:
        """The ggrids of everything that has lain here for so long, in batches. The place dates what it gets by its own
        clock, so it is asked for the time as well: by the clock of a node that is wrong, bytes whose record is on its
        way would be old."""
        ...


class HeldBytes:
    """The bytes of held mail wherever they lie: those of small messages in the database, which come and go with their
    records, the others in a raw store."""

    def __init__(self, records: QuarantineRecords, raw: RawStore) -> None:
        self._records, self._raw = records, raw

    async def put(self, ggrid: str, raw: MessageBody) -> None:
        await self._raw.put(ggrid, raw)

    async def get(self, ggrid: str) -> bytes | None:
        content = await self._records.content(ggrid)
        return content if content is not None else await self._raw.get(ggrid)

    async def delete(self, ggrid: str) -> None:
        await self._raw.delete(ggrid)


def open_raw_store(url: str | None, folder: Path) -> RawStore:
    """Return the store that `quarantine.url` names, or else this folder."""
    path = folder_of(url, folder)
    return RawObjects(str(url)) if path is None else RawFolder(path)


def folder_of(url: str | None, folder: Path) -> Path | None:
    """The folder that `quarantine.url` names, or else this one; None where it names an object store."""
    if url is None:
        return folder
    return None if url.partition(":")[0] in _OBJECT_SCHEMES else _path_of(url)


def _path_of(url: str) -> Path:
    """`file:/a`, `file:///a`, or `file:a` relative to where the process runs."""
    rest = url.partition(":")[2]
    return Path(unquote(urlsplit(url).path if rest.startswith("//") else rest)).absolute()


class RawFolder:
    """A folder of this machine, for its owner alone. Files lie in 256 folders by the random end of their ggrid."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _as_storage_error(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync(folder.parent)

    async def put(self, ggrid: str, raw: MessageBody) -> None:
        await self._run(self._write, self._file_of(ggrid), raw)

    async def get(self, ggrid: str) -> bytes | None:
        return await self._run(_read, self._file_of(ggrid))

    async def delete(self, ggrid: str) -> None:
        await self._run(_unlink, self._file_of(ggrid))

    async def older_than(self, seconds: float) -> AsyncIterator[list[str]]:
        before = await self._run(_read_clock, self._folder) - seconds
        for subfolder in await self._run(_subfolders, self._folder):
            found = await self._run(_find_old, subfolder, before)
            for start in range(0, len(found), BATCH):
                yield found[start : start + BATCH]

    def _file_of(self, ggrid: str) -> Path:
        uid = _check_ggrid(ggrid)
        return self._folder / uid[-2:] / f"{uid}{SUFFIX}"

    def _write(self, path: Path, raw: MessageBody) -> None:
        subfolder = path.parent
        if not subfolder.is_dir():
            subfolder.mkdir(mode=0o700, exist_ok=True)
            _sync(self._folder)
        partial = subfolder / f".{path.name}.{os.urandom(8).hex()}"
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for chunk in raw.chunks(CHUNK):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync(subfolder)

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        """Run in a thread, which ends what it has begun even if the caller is cancelled."""
        with _as_storage_error(self._folder):
            return await asyncio.get_running_loop().run_in_executor(_disk, work, *arguments)


class RawObjects:
    """A bucket, or a part of one: `s3://bucket/prefix`, `gs://…`, `az://container/prefix`.

    Credentials come from the environment, as each provider's own tools read them. A request that fails is repeated a
    few times; a call takes half a minute at most, and a second more for each megabyte, so that the sender of a message
    gets its answer while it still waits for one.
    """

    def __init__(self, url: str, store: "ObjectStore | None" = None) -> None:
        from obstore.store import from_url

        self._url = url.partition("?")[0]
        with self._as_storage_error():
            self._store = store or from_url(url, retry_config=_RETRIES)

    async def put(self, ggrid: str, raw: MessageBody) -> None:
        import obstore

        name, content = _object_name(ggrid), await asyncio.to_thread(raw.read)
        with self._as_storage_error():
            async with asyncio.timeout(OBJECT_SECONDS + len(content) / CHUNK):
                await obstore.put_async(self._store, name, content)

    async def get(self, ggrid: str) -> bytes | None:
        import obstore

        name = _object_name(ggrid)
        try:
            with self._as_storage_error(of_object=True):
                async with asyncio.timeout(OBJECT_SECONDS) as limit:
                    result = await obstore.get_async(self._store, name)
                    limit.reschedule(asyncio.get_running_loop().time() + OBJECT_SECONDS + result.meta["size"] / CHUNK)
                    return bytes(await result.bytes_async())
        except FileNotFoundError:
            return None

    async def delete(self, ggrid: str) -> None:
        import obstore

        name = _object_name(ggrid)
        with contextlib.suppress(FileNotFoundError), self._as_storage_error(of_object=True):
            async with asyncio.timeout(OBJECT_SECONDS):
                await obstore.delete_async(self._store, name)

    async def older_than(self, seconds: float) -> AsyncIterator[list[str]]:
        import obstore

        with self._as_storage_error():
            async with asyncio.timeout(OBJECT_SECONDS):
                await obstore.put_async(self._store, CLOCK, b"")
                clock = await obstore.head_async(self._store, CLOCK)
            before = clock["last_modified"].timestamp() - seconds
            async for batch in obstore.list(self._store, chunk_size=BATCH):
                names = [str(each["path"]) for each in batch if each["last_modified"].timestamp() <= before]
                yield [uid for name in names if (uid := _ggrid_of(name.rpartition("/")[2]))]

    @contextlib.contextmanager
    def _as_storage_error(self, *, of_object: bool = False) -> Iterator[None]:
        """Turn faults into `StorageError`, but for an object that is not there where one is asked for. A bucket that is
        not there is a fault: nothing may be taken for lost because of it."""
        from obstore.exceptions import BaseError

        shown = hide(self._url)
        try:
            yield
        except TimeoutError as fault:
            raise StorageError(f"The quarantine at {shown} did not answer in time.") from fault
        except (BaseError, OSError, ValueError) as fault:
            if of_object and isinstance(fault, FileNotFoundError) and not _NO_BUCKET.search(str(fault)):
                raise
            raise StorageError(f"The quarantine at {shown} cannot be used ({type(fault).__name__}).") from fault


def _check_ggrid(ggrid: str) -> str:
    """Nothing but a ggrid ever becomes a part of a path."""
    uid = canonical(ggrid)
    if uid is None:
        raise ValueError("not a ggrid")
    return uid


def _object_name(ggrid: str) -> str:
    return f"{_check_ggrid(ggrid)}{SUFFIX}"


def _ggrid_of(name: str) -> str | None:
    return canonical(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _read_clock(folder: Path) -> float:
    """The time of the file system, which is that of a server where it is one. A full disk can tell it, too."""
    os.utime(folder)
    return folder.stat().st_mtime


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if len(path.name) == 2 and path.is_dir())


def _find_old(subfolder: Path, before: float) -> list[str]:
    """The ggrids of old files; what a kill left half written goes at once."""
    found = []
    with os.scandir(subfolder) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_mtime > before:
                    continue
            except FileNotFoundError:
                continue
            if entry.name.startswith(".") and f"{SUFFIX}." in entry.name:
                _unlink(Path(entry.path))
            elif uid := _ggrid_of(entry.name):
                found.append(uid)
    return found


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _as_storage_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise StorageError(f"The quarantine in {folder} cannot be used: {reason.lower()}.") from fault
