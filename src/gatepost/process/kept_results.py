"""What is worked out from files of this package, kept for later starts: templates, phrases and tables as they are used,
and regular expressions as the interpreter compiled them.

Python keeps what it compiles in `__pycache__`; these results are kept there by the same rules: only where the folder
can be written, not with `PYTHONDONTWRITEBYTECODE`, and under `PYTHONPYCACHEPREFIX`. Whoever can write there can change
the modules as well, so reading from there adds no trust. A result counts only with the digest of all that it was made
from. What makes one is imported only then.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# The analysis has about 600 expressions; more than so many are those of plug-ins that are gone.
MAX_EXPRESSIONS = 4_000


class KeptResult:
    """The bytes of one result, in a file beside a compiled `module`; `sources` are what it was made from."""

    def __init__(self, module: str, name: str, sources: Iterable[bytes]) -> None:
        self._path = Path(importlib.util.cache_from_source(str(Path(module).with_name(f"{name}.py"))))
        digest = hashlib.sha256(sys.version.encode())
        for source in sources:
            digest.update(hashlib.sha256(source).digest())
        self._digest = digest.digest()

    def load(self) -> bytes | None:
        """Return the result, None where there is none that fits."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        return content[len(self._digest) :] if content.startswith(self._digest) else None

    def save(self, result: bytes) -> None:
        """Keep a result where that is possible; another process sees the whole file or none."""
        if sys.dont_write_bytecode:
            return
        import tempfile

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=self._path.name, delete=False) as file:
                file.write(self._digest + result)
            # Readable by whoever may read the modules: the service runs as another user than the one that installs it.
            Path(file.name).chmod(0o644)
            Path(file.name).replace(self._path)
        except OSError:
            return


def load_kept(module: str, name: str, sources: Iterable[bytes], kind: Any, make: Callable[[], T]) -> T:
    """Return a result of a type that msgpack has: the one that was kept, else made now, and kept."""
    kept = KeptResult(module, name, sources)
    try:
        found: T = msgspec.msgpack.decode(kept.load() or b"", type=kind)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError):
        result = make()
        kept.save(msgspec.msgpack.encode(result))
        return result


def read_toml(file: Traversable, module: str) -> Any:
    """Return what a TOML file of the package says, kept beside `module`: `tomllib` is a hundred times slower."""

    def parse() -> Any:
        import tomllib

        return tomllib.loads(content.decode())

    content = file.read_bytes()
    return load_kept(module, f"kept-{file.name}", [content], Any, parse)


class CompiledExpression(msgspec.Struct, frozen=True, array_like=True):
    """A regular expression as `re` compiled it: the words of its program, the number of its groups, and their names.
    The pattern is bytes in any case, since one may hold half of a surrogate pair."""

    pattern: bytes
    is_text: bool
    given: int
    flags: int
    program: bytes
    groups: int
    names: dict[str, int]


class KeptExpressions:
    """Regular expressions of earlier starts, by pattern and flags. To compile them takes a fifth of a loader's start,
    and `re` has no way to keep them. `compile` stands in for that of `re._compiler` while modules are imported: the
    same steps, but the program is looked up first. The interpreter checks each program before it takes it."""

    def __init__(self, module: str, compiler: Any) -> None:
        self._parse, self._code, self._make = attrgetter("_parser.parse", "_code", "_sre.compile")(compiler)
        self._usual = compiler.compile
        self._kept = KeptResult(module, "kept-expressions", ())
        try:
            known = msgspec.msgpack.decode(self._kept.load() or b"\x90", type=list[CompiledExpression])
        except (msgspec.DecodeError, UnicodeDecodeError):
            known = []
        self._known = {(each.pattern, each.is_text, each.given): each for each in known}
        self._before = len(self._known)

    def compile(self, pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        """Return a pattern as an object; kept ones without parsing them."""
        if type(pattern) not in (str, bytes) or flags & re.DEBUG:
            usual: re.Pattern[Any] = self._usual(pattern, flags)
            return usual
        is_text = isinstance(pattern, str)
        key = (pattern.encode("utf-8", "surrogatepass") if is_text else pattern, is_text, int(flags))
        known = self._known.get(key)
        if known is None:
            parsed = self._parse(pattern, flags)
            program = array("I", self._code(parsed, flags)).tobytes()
            state = parsed.state
            known = CompiledExpression(*key, flags | state.flags, program, state.groups - 1, dict(state.groupdict))
            self._known[key] = known
        names: list[str | None] = [None] * (known.groups + 1)
        for name, number in known.names.items():
            names[number] = name
        words = array("I", known.program).tolist()
        made: re.Pattern[Any] = self._make(pattern, known.flags, words, known.groups, known.names, tuple(names))
        return made

    def save(self) -> None:
        """Keep what is new; the oldest make room."""
        if len(self._known) > self._before:
            self._kept.save(msgspec.msgpack.encode(list(self._known.values())[-MAX_EXPRESSIONS:]))


@contextmanager
def keep_expressions(module: str) -> Iterator[None]:
    """Have regular expressions found among those of the last start, in a file beside `module`, until the block ends. An
    interpreter whose `re` is built otherwise compiles them as ever."""
    try:
        compiler: Any = importlib.import_module("re._compiler")
        kept = KeptExpressions(module, compiler)
    except (ImportError, AttributeError):
        yield
        return
    usual, compiler.compile = compiler.compile, kept.compile
    try:
        yield
    finally:
        compiler.compile = usual
    kept.save()
