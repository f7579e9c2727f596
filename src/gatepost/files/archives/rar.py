"""RAR archives, versions 4 and 5: names and encryption from the headers, content that was only stored.

The method of packing is RAR's own, and no library that unpacks it comes as a wheel: libarchive does it where it is
installed, else what is packed is said to be unread. Formats: technote.txt of RAR 5 and of RAR 4.

Passwords of the mail are tried. An archive of version 5 has a check value for its password: PBKDF2 with HMAC-SHA256,
32 rounds past those of the key. One of version 4 has none; its key takes a quarter of a million rounds of SHA-1, and
whether it fits is seen by a checksum. What fits is written out as an archive without encryption, which is then read as
any other: libarchive decrypts nothing.
"""

import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import pbkdf2_hmac, sha1, sha256
from itertools import zip_longest

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.archives import libarchive
from gatepost.files.archives.appended import find_tail
from gatepost.files.archives.passwords import PasswordAttempts
from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, TooManyError, UnpackBudget, UnreadReason

RAR4 = b"Rar!\x1a\x07\x00"
RAR5 = b"Rar!\x1a\x07\x01\x00"
SFX_SIZE = 1 << 20  # how far into a file WinRAR looks for its mark
MAX_BLOCKS = 20_000

_MAIN4, _FILE4, _END4 = 0x73, 0x74, 0x7B
_STORED4 = 0x30
_MAIN5, _FILE5, _SERVICE5, _CRYPT5, _END5 = range(1, 6)


class RarEntry(msgspec.Struct, frozen=True):
    """One file: where its data lies, how long it is packed and unpacked, and whether it can be read as it
    stands. `crypt` is how it is encrypted, and `header` where its header lies."""

    name: str
    start: int
    packed: int
    size: int
    stored: bool
    encrypted: bool
    folder: bool = False
    split: bool = False
    crypt: bytes = b""
    crc: int = 0
    header: tuple[int, int] = (0, 0)


def read_members(content: bytes, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every file; where the headers are encrypted and no password fits, one member without a name."""
    entries, unread, end = _read_entries(content, budget.max_files)
    if unread == "encrypted" or any(entry.encrypted for entry in entries):
        attempts = PasswordAttempts(passwords, budget)
        plain, closed = _open_archive(content, entries, attempts)
        if plain and attempts.password:
            for member in read_members(plain, budget):
                yield msgspec.structs.replace(member, password=attempts.password)
            yield from (Member((entry.name,), b"", "encrypted") for entry in closed)
            yield from find_tail(content, end, budget)
            return
    files = [entry for entry in entries if not entry.folder]
    packed = any(not (entry.stored or entry.encrypted or entry.split) for entry in files)
    if packed and libarchive.is_usable(budget):
        unpacked = libarchive.read_members(content, "rar", budget, [entry.name for entry in files])
        for member, entry in zip_longest(unpacked, files):
            short = entry and member and not member.unread and not entry.split and len(member.content) < entry.size
            yield msgspec.structs.replace(member, unread="damaged") if short else member
    else:
        yield from (_read_stored(content, entry, budget) for entry in files)
    for entry in entries:
        if entry.folder and entry.packed:  # a folder has no content; programs differ on what this one is
            yield Member((entry.name,), b"", "unsupported")
    is_said = unread == "damaged" and any(entry.start + entry.packed > len(content) for entry in files)
    if unread and not is_said:
        yield Member(("",), b"", unread)
    yield from find_tail(content, end, budget)


MAX_ROUNDS = 1 << 19
_ROUNDS_OF_ATTEMPT = 1_000  # of PBKDF2 in the half millisecond that an attempt counts for
_COST4 = 14
_ROUNDS4, _PART4 = 1 << 18, 1 << 14
MAX_ENCRYPTED = 32 << 20


def _open_archive(content: bytes, entries: list[RarEntry], attempts: PasswordAttempts) -> tuple[bytes, list[RarEntry]]:
    """Return an archive without its encryption, b"" where no password fits, and the files that stay closed. Of an
    archive that encrypts its headers these are opened first, and its files by the same password."""
    start = content.find(b"Rar!\x1a\x07", 0, SFX_SIZE)
    if start < 0 or len(content) > MAX_ENCRYPTED:
        attempts.give_up()
        return b"", entries
    newer = content.startswith(RAR5, start)
    plain = content
    if not any(entry.encrypted for entry in entries):
        plain = (_open_headers5 if newer else _open_headers4)(content, start, attempts)
        entries = _read_entries(plain, len(plain))[0] if plain else []
    return (_open_files5 if newer else _open_files4)(plain, entries, attempts) if entries else (b"", [])


class _Crypt5(msgspec.Struct, frozen=True):
    """A record of RAR 5 that says how something is encrypted; `check` is empty where it has no check value."""

    rounds: int
    salt: bytes
    iv: bytes = b""
    check: bytes = b""

    @property
    def cost(self) -> int:
        return 1 + self.rounds // _ROUNDS_OF_ATTEMPT

    def fit(self, password: str) -> bool | None:
        """Return True for the password of the check value, whose 32 bytes are folded to eight, None for another."""
        found = bytearray(8)
        for place, byte in enumerate(self.derive(password, self.rounds + 32)):
            found[place & 7] ^= byte
        return bytes(found) == self.check[:8] or None

    def decrypt(self, password: str, data: bytes) -> bytes:
        return _decrypt(algorithms.AES(self.derive(password, self.rounds)), self.iv, data)

    def derive(self, password: str, rounds: int) -> bytes:
        """Return what so many rounds make of a password."""
        return pbkdf2_hmac("sha256", password.encode("utf-8", "replace"), self.salt, rounds)


def _decrypt(cipher: algorithms.AES, iv: bytes, data: bytes) -> bytes:
    return Cipher(cipher, modes.CBC(iv)).decryptor().update(data[: len(data) // 16 * 16])


def _read_crypt5(source: ByteSource, *, has_iv: bool) -> _Crypt5 | None:
    """Return a record of encryption; None where it is of another version, has no check value or asks for too much."""
    try:
        version, flags, power = _read_vint(source), _read_vint(source), source.number(1)
        salt, iv = source.take(16), source.take(16) if has_iv else b""
        check = source.take(12) if flags & 1 else b""
    except BrokenError:
        return None
    if version or 1 << power > MAX_ROUNDS or sha256(check[:8]).digest()[:4] != check[8:]:
        return None
    return _Crypt5(1 << power, salt, iv, check)


def _open_headers5(content: bytes, start: int, attempts: PasswordAttempts) -> bytes:
    """Return an archive of version 5 with plain headers: each is encrypted by itself behind an IV of its own."""
    source = ByteSource(content, start + len(RAR5) + 4)
    try:
        size = _read_vint(source)
        place = source.place + size
        source.skip(2)  # kind and flags
        crypt = _read_crypt5(source, has_iv=False)
    except BrokenError:
        return b""
    if crypt is None:
        attempts.give_up()
    if crypt is None or attempts.unlock(crypt.fit, crypt.cost) is None:
        return b""
    key = algorithms.AES(crypt.derive(attempts.password, crypt.rounds))
    out = [RAR5]
    blocks = StepLimit(MAX_BLOCKS)
    try:
        while place + 32 <= len(content):
            blocks.step()
            iv = content[place : place + 16]
            head = ByteSource(_decrypt(key, iv, content[place + 16 : place + 32]), 4)
            size = _read_vint(head) + head.place
            end = place + 16 + -(-size // 16) * 16
            if size > 1 << 21 or end > len(content):
                break
            header = _decrypt(key, iv, content[place + 16 : end])[:size]
            inner = ByteSource(header, head.place)
            kind, flags = _read_vint(inner), _read_vint(inner)
            _extra = _read_vint(inner) if flags & 1 else 0
            data = _read_vint(inner) if flags & 2 else 0
            out += [header, content[end : end + data]]
            place = end + data
            if kind == _END5:
                break
    except (BrokenError, TooManyError):
        pass
    return b"".join(out)


def _open_files5(content: bytes, entries: list[RarEntry], attempts: PasswordAttempts) -> tuple[bytes, list[RarEntry]]:
    """Return a version 5 archive without encrypted files, and those that no password opens."""
    closed: list[RarEntry] = []
    out = [RAR5, _write_block5(_MAIN5, 0, b"\0")]
    for entry in entries:
        crypt = _read_crypt5(ByteSource(entry.crypt), has_iv=True) if entry.encrypted else None
        data = content[entry.start : entry.start + entry.packed]
        if entry.encrypted:
            if crypt is None:
                attempts.give_up()
            if crypt is None or attempts.unlock(crypt.fit, crypt.cost) is None:
                closed.append(entry)
                continue
            data = crypt.decrypt(attempts.password, data)
            data = data[: entry.size] if entry.stored else data[: _measure_packed5(data)]
        header = ByteSource(content, entry.header[0])
        kind, size, attributes = _read_vint(header), _read_vint(header), _read_vint(header)
        header.skip((4 if kind & 2 else 0) + (4 if kind & 4 else 0))
        method, system = _read_vint(header), _read_vint(header)
        name = entry.name.encode("utf-8", "replace")
        numbers = (len(data), kind & ~6, size, attributes, method, system, len(name))
        out += [_write_block5(_FILE5, 2, b"".join(map(_write_vint, numbers)) + name), data]
    return b"".join([*out, _write_block5(_END5, 0, b"\0")]), closed


def _measure_packed5(data: bytes) -> int:
    """Return how many bytes the packed blocks of a file have; what follows is the padding of the cipher. A block begins
    with flags, a checksum and its size; bit 6 of the flags marks the last one."""
    place = 0
    while place + 3 <= len(data):
        flags = data[place]
        width = (flags >> 3 & 3) + 1
        place += 2 + width + int.from_bytes(data[place + 2 : place + 2 + width], "little")
        if flags & 0x40:
            break
    return place


def _write_vint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _write_block5(kind: int, flags: int, body: bytes) -> bytes:
    rest = _write_vint(kind) + _write_vint(flags) + body
    rest = _write_vint(len(rest)) + rest
    return zlib.crc32(rest).to_bytes(4, "little") + rest


def _derive_key4(password: str, salt: bytes) -> tuple[bytes, bytes]:
    """Return key and IV of version 4: SHA-1 over password, salt and a counter, 2^18 times; the last byte of the digest
    after each sixteenth of them is one of the IV. The input is built in blocks, since a loop would take a second."""
    unit = password.encode("utf-16-le", "replace") + salt + bytes(3)
    size, counter = len(unit), len(unit) - 3
    buffer = bytearray(unit * _PART4)
    buffer[counter::size] = bytes(range(256)) * (_PART4 // 256)
    digest, iv = sha1(), bytearray()  # noqa: S324  the format's own
    for part in range(_ROUNDS4 // _PART4):
        middle = b"".join(bytes([(part * (_PART4 >> 8) + value) & 255]) * 256 for value in range(_PART4 // 256))
        buffer[counter + 1 :: size] = middle
        buffer[counter + 2 :: size] = bytes([part >> 2]) * _PART4
        first = digest.copy()
        first.update(bytes(buffer[:size]))
        iv.append(first.digest()[19])
        digest.update(buffer)
    words = digest.digest()[:16]
    return b"".join(words[place : place + 4][::-1] for place in range(0, 16, 4)), bytes(iv)


def _open_headers4(content: bytes, start: int, attempts: PasswordAttempts) -> bytes:
    """Return an archive of version 4 with plain headers: each is encrypted by itself behind a salt of its own."""
    place = start + len(RAR4)
    main = ByteSource(content, place + 3)
    out = [RAR4]
    try:
        main.skip(2)
        size = main.number(2)
    except BrokenError:
        return b""
    out.append(content[place : place + 3] + b"\0\0" + content[place + 5 : place + size])
    place += size
    keys: dict[bytes, tuple[bytes, bytes]] = {}

    def open_header(password: str) -> tuple[bytes, int] | None:
        salt = content[place : place + 8]
        key, iv = keys[salt] if salt in keys and password == attempts.password else _derive_key4(password, salt)
        head = ByteSource(_decrypt(algorithms.AES(key), iv, content[place + 8 : place + 24]), 5)
        length = head.number(2)
        end = place + 8 + -(-length // 16) * 16
        header = _decrypt(algorithms.AES(key), iv, content[place + 8 : end])[:length]
        if len(header) < 7 or zlib.crc32(header[2:]) & 0xFFFF != int.from_bytes(header[:2], "little"):
            return None
        keys[salt] = (key, iv)
        return header, end

    blocks = StepLimit(MAX_FILES4)
    try:
        while place + 24 <= len(content):
            blocks.step()
            found = attempts.unlock(open_header, _COST4)
            if found is None:
                break
            header, end = found
            source = ByteSource(header, 2)
            kind, flags = source.number(1), source.number(2)
            source.skip(2)
            data = source.number(4) if flags & 0x8000 or kind == _FILE4 else 0
            out += [header, content[end : end + data]]
            place = end + data
            if kind == _END4:
                break
    except (BrokenError, TooManyError):
        pass
    return b"".join(out) if len(out) > 2 else b""


MAX_FILES4 = 40


def _open_files4(content: bytes, entries: list[RarEntry], attempts: PasswordAttempts) -> tuple[bytes, list[RarEntry]]:
    """Return an archive of version 4 whose files are not encrypted, and those that no password opens."""
    closed: list[RarEntry] = entries[MAX_FILES4:]
    out = [RAR4 + _write_block4(_MAIN4, 0, bytes(6))]
    for entry in entries[:MAX_FILES4]:
        header = content[entry.header[0] : entry.start]
        packed = content[entry.start : entry.start + entry.packed]
        if entry.encrypted:
            if len(entry.crypt) != 8:
                attempts.give_up()
            found = attempts.unlock(partial(_open_file4, entry, header, packed), _COST4) if entry.crypt else None
        else:
            found = header + packed
        if found:
            out.append(found)
        else:
            closed.append(entry)
    return b"".join([*out, _write_block4(_END4, 0x4000, b"")]), closed


def _open_file4(entry: RarEntry, header: bytes, packed: bytes, password: str) -> bytes | None:
    """Return header and content of a file that a password opens; None where the checksum says that it does not."""
    key, iv = _derive_key4(password, entry.crypt)
    data = _decrypt(algorithms.AES(key), iv, packed)
    data = data[: entry.size] if entry.stored else data
    flags = int.from_bytes(header[3:5], "little") & ~0x0404
    body = len(data).to_bytes(4, "little") + header[11 : len(header) - len(entry.crypt)]
    made = _write_block4(_FILE4, flags, body) + data
    if entry.stored:
        return made if zlib.crc32(data) == entry.crc else None
    if libarchive.is_installed() and entry.size <= MAX_ENCRYPTED:
        whole = RAR4 + _write_block4(_MAIN4, 0, bytes(6)) + made + _write_block4(_END4, 0x4000, b"")
        members = libarchive.read_members(whole, "rar", UnpackBudget(), [entry.name])
        if any(zlib.crc32(member.content) == entry.crc and member.content for member in members):
            return made
    return None


def _write_block4(kind: int, flags: int, body: bytes) -> bytes:
    rest = bytes([kind]) + flags.to_bytes(2, "little") + (7 + len(body)).to_bytes(2, "little") + body
    return (zlib.crc32(rest) & 0xFFFF).to_bytes(2, "little") + rest


def _read_entries(content: bytes, limit: int) -> tuple[list[RarEntry], UnreadReason | None, int]:
    """Return the files as far as the headers can be read, why no further, and where the archive ends if it says so."""
    start = content.find(b"Rar!\x1a\x07", 0, SFX_SIZE)
    newer = content.startswith(RAR5, start)
    found: list[RarEntry] = []
    unread: UnreadReason | None = None
    end = 0
    walk = _read_rar5(content, start + len(RAR5)) if newer else _read_rar4(content, start + len(RAR4))
    try:
        for entry in walk:
            if entry is None:
                unread = "encrypted"
                break
            if isinstance(entry, int):
                end = entry
                break
            found.append(entry)
            if len(found) > limit:
                break
    except TooManyError:
        unread = "count"
    except BrokenError:
        unread = "damaged"
    return found, unread, end


def _read_rar4(content: bytes, start: int) -> Iterator[RarEntry | int | None]:
    """Yield the blocks of RAR 4; None where the rest is encrypted, and where the end is behind the last one."""
    place = start
    blocks = StepLimit(MAX_BLOCKS)
    while place + 7 <= len(content):
        blocks.step()
        source = ByteSource(content, place + 2)
        kind, flags, size = source.number(1), source.number(2), source.number(2)
        if size < 7:
            raise BrokenError("a block without a size")
        data = source.number(4) if flags & 0x8000 or kind == _FILE4 else 0
        if kind == _END4:
            yield place + size
            return
        if kind == _MAIN4 and flags & 0x80:
            yield None
            return
        if kind == _FILE4:
            entry = _read_file4(source, flags, place + size, data)
            entry = msgspec.structs.replace(entry, header=(place, place + size))
            data = entry.packed
            yield entry
        place += size + data
    if place > len(content):
        raise BrokenError("data that ends nowhere")


def _read_file4(source: ByteSource, flags: int, start: int, packed: int) -> RarEntry:
    size = source.number(4)
    source.skip(1)  # system
    crc = source.number(4)
    source.skip(5)  # time, version
    method, name_size, _attributes = source.number(1), source.number(2), source.number(4)
    if flags & 0x100:
        packed |= source.number(4) << 32
        size |= source.number(4) << 32
    name = source.take(name_size)
    return RarEntry(
        name=_decode_name4(name, bool(flags & 0x200)),
        crypt=source.take(8) if flags & 0x404 == 0x404 else b"",
        crc=crc,
        start=start,
        packed=packed,
        size=size,
        stored=method == _STORED4,
        encrypted=bool(flags & 4),
        folder=flags & 0xE0 == 0xE0,
        split=bool(flags & 3),
    )


def _decode_name4(raw: bytes, is_unicode: bool) -> str:
    plain, _, packed = raw.partition(b"\0")
    if not is_unicode:
        return raw.decode("cp437").rstrip("\0")
    if not packed:
        return plain.decode("utf-8", "replace")
    return _unpack_name(plain, packed)


def _unpack_name(plain: bytes, packed: bytes) -> str:
    """Decode a Unicode name of RAR 4: for each character, two bits say how it differs from the plain name."""
    source = ByteSource(packed, 1)
    high = packed[0] << 8
    out: list[int] = []
    flags = bits = 0
    try:
        while source.left and len(out) < 1000:
            if not bits:
                flags, bits = source.number(1), 8
            bits -= 2
            form = flags >> bits & 3
            if form == 0:
                out.append(source.number(1))
            elif form == 1:
                out.append(source.number(1) | high)
            elif form == 2:
                out.append(source.number(2))
            else:
                out += _copy_run(source, plain, len(out), high)
    except BrokenError:
        pass
    return b"".join(unit.to_bytes(2, "little") for unit in out).decode("utf-16-le", "replace")


def _copy_run(source: ByteSource, plain: bytes, place: int, high: int) -> list[int]:
    """Return a run of the plain name, perhaps shifted."""
    length = source.number(1)
    shift = source.number(1) if length & 0x80 else None
    run = plain[place : place + (length & 0x7F) + 2]
    return list(run) if shift is None else [((byte + shift) & 0xFF) | high for byte in run]


def _read_rar5(content: bytes, start: int) -> Iterator[RarEntry | int | None]:
    """Yield the blocks of RAR 5; None where the rest is encrypted, and where the end is behind the last one."""
    place = start
    blocks = StepLimit(MAX_BLOCKS)
    while place < len(content):
        blocks.step()
        source = ByteSource(content, place + 4)
        size = _read_vint(source)
        end = source.place + size
        if not size or end > len(content):
            raise BrokenError("a block that ends nowhere")
        kind, flags = _read_vint(source), _read_vint(source)
        extra = _read_vint(source) if flags & 1 else 0
        data = _read_vint(source) if flags & 2 else 0
        if kind == _CRYPT5:
            yield None
            return
        if kind == _END5:
            yield end
            return
        if kind == _FILE5:
            yield _read_file5(source, flags, content[max(source.place, end - extra) : end], end, data)
        place = end + data
    if place > len(content):
        raise BrokenError("data that ends nowhere")


def _read_file5(source: ByteSource, flags: int, extra: bytes, start: int, packed: int) -> RarEntry:
    begin = source.place
    kind, size, _attributes = _read_vint(source), _read_vint(source), _read_vint(source)
    source.skip((4 if kind & 2 else 0) + (4 if kind & 4 else 0))
    method, _system = _read_vint(source), _read_vint(source)
    name = source.take(min(_read_vint(source), 65_536)).decode("utf-8", "replace")
    records = _read_extra(extra)
    return RarEntry(
        crypt=records.get(1, b""),
        header=(begin, start),
        name=name,
        start=start,
        packed=packed,
        size=size,
        stored=method >> 7 & 7 == 0,
        encrypted=1 in records,
        folder=bool(kind & 1),
        split=bool(flags & 0x18),
    )


def _read_extra(extra: bytes) -> dict[int, bytes]:
    """Return the records that follow a header, by their kinds."""
    source = ByteSource(extra)
    records: dict[int, bytes] = {}
    try:
        while source.left:
            size = _read_vint(source)
            end = source.place + size
            kind = _read_vint(source)
            records.setdefault(kind, b"")
            records[kind] = source.take(end - source.place)
    except BrokenError:
        pass
    return records


def _read_vint(source: ByteSource) -> int:
    """Return a number of seven bits a byte, low ones first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = source.number(1)
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value
    raise BrokenError("a number beyond reason")


def _read_stored(content: bytes, entry: RarEntry, budget: UnpackBudget) -> Member:
    """Return an entry as it stands in the archive, if that is its content."""
    names = (entry.name,)
    if entry.encrypted:
        return Member(names, b"", "encrypted")
    if not entry.stored:
        return Member(names, b"", "unsupported")
    limit = min(budget.allowance(entry.packed), entry.packed)
    data = content[entry.start : entry.start + limit]
    budget.pay(len(data), len(data))
    short: UnreadReason | None = "size" if limit < entry.packed else "damaged" if len(data) < entry.packed else None
    return Member(names, data, "damaged" if entry.split else short)
