"""The built library, which reads hostile mail, has what the compiler can give it; read from the file itself.

The names and numbers of ELF are those of its specification (System V ABI, chapters 4 and 5) and of `elf.h`.
"""

import platform
import shutil
import struct
from pathlib import Path

import msgspec
import pytest
from tools.build_speedups import build, find_accepted, list_hardening

LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
EXECUTABLE = 1
STRING_TABLE, STRING_TABLE_SIZE, FLAGS, FLAGS_1 = 5, 10, 30, 0x6FFFFFFB
BIND_NOW, NOW = 8, 1
# What a function begins with that may be jumped to, or whose return address is signed.
LANDINGS = {"x86_64": (b"\xf3\x0f\x1e\xfa",), "aarch64": (b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5")}

pytestmark = pytest.mark.process
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="not run: there is no C compiler")


class Segment(msgspec.Struct, frozen=True):
    kind: int
    flags: int
    offset: int
    address: int
    size: int


class Library:
    """A shared library of 64 bits, as far as its hardening goes."""

    def __init__(self, file: Path) -> None:
        self.raw = raw = file.read_bytes()
        assert raw[:6] == b"\x7fELF\x02\x01", "a little-endian file of 64 bits"
        (start,) = struct.unpack_from("<Q", raw, 32)
        size, number = struct.unpack_from("<HH", raw, 54)
        self.segments = [
            Segment(kind, flags, offset, address, length)
            for kind, flags, offset, address, _, length, _, _ in (
                struct.unpack_from("<IIQQQQQQ", raw, start + index * size) for index in range(number)
            )
        ]
        (dynamic,) = [each for each in self.segments if each.kind == DYNAMIC]
        pairs = (struct.unpack_from("<QQ", raw, dynamic.offset + at) for at in range(0, dynamic.size, 16))
        self.dynamic = dict(pairs)

    def content(self, segment: Segment) -> bytes:
        return self.raw[segment.offset : segment.offset + segment.size]

    def names(self) -> set[bytes]:
        """The names that it defines or needs."""
        address, size = self.dynamic[STRING_TABLE], self.dynamic[STRING_TABLE_SIZE]
        (at,) = [each for each in self.segments if each.kind == LOAD and 0 <= address - each.address < each.size]
        start = at.offset + address - at.address
        return set(self.raw[start : start + size].split(b"\0"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(build(tmp_path_factory.mktemp("built")))


@needs_compiler
def test_tables_are_read_only_and_the_stack_is_no_code(library: Library) -> None:
    kinds = {each.kind: each for each in library.segments}
    assert RELRO in kinds
    assert not kinds[STACK].flags & EXECUTABLE
    assert library.dynamic.get(FLAGS, 0) & BIND_NOW or library.dynamic.get(FLAGS_1, 0) & NOW
    assert not [each for each in library.segments if each.kind == LOAD and each.flags & 3 == 3], "written and executed"


@needs_compiler
def test_stacks_and_copies_are_checked(library: Library) -> None:
    names = library.names()
    assert b"__stack_chk_fail" in names
    assert [name for name in names if name.endswith(b"_chk")], "fortified functions of the C library"


@needs_compiler
def test_jumps_land_where_they_may(library: Library) -> None:
    machine = platform.machine()
    if machine not in LANDINGS:
        pytest.skip(f"not run: nothing is known of {machine}")
    compiler = shutil.which("cc") or ""
    if len(find_accepted(compiler, list_hardening())) < len(list_hardening()):
        pytest.skip("not run: the compiler is too old")
    code = b"".join(library.content(each) for each in library.segments if each.kind == LOAD and each.flags & EXECUTABLE)
    assert sum(code.count(landing) for landing in LANDINGS[machine]) > 20


@needs_compiler
@pytest.mark.variant
def test_a_compiler_that_refuses_an_option_builds_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old-cc"
    old.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-fcf-protection*|*-mbranch-protection*|*stack-clash*) echo "what is that?" >&2; exit 1;; esac\n'
        f'exec {shutil.which("cc")} "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("CC", str(old))
    built = Library(build(tmp_path))
    assert RELRO in {each.kind for each in built.segments}
    assert b"__stack_chk_fail" in built.names()
    assert not {"-fstack-clash-protection", *list_hardening("x86_64")[-1:]} & set(
        find_accepted(str(old), list_hardening())
    )
