"""YARA rules of the operator, compiled once and tried on every file.

All `.yar` and `.yara` files of one folder count; each is a name space of its own, so that two authors may use the same
name. Rules are compiled before a worker is sealed, since that takes executable memory. No time limit is set on a scan:
it would take a thread. The account of the message is looked at between two files, and guard ends a worker that does
not return: a rule whose pattern begins everywhere takes a second for a megabyte that is made for it.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yara_x

from gatepost.files.values import File, Trait
from gatepost.process.cpu_account import FILES, NO_ACCOUNT, CpuAccount

ENDINGS = frozenset({".yar", ".yara"})
MAX_MATCHES = 50
MAX_FAULTS = 20


class YaraRulesError(ValueError):
    """Some rules are faulty; `faults` has a sentence for each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class YaraRules:
    """Compiled YARA rules of a folder."""

    def __init__(self, compiled: yara_x.Rules) -> None:
        self._scanner = yara_x.Scanner(compiled)
        self._scanner.max_matches_per_pattern(1)

    def match(self, content: bytes) -> tuple[str, ...]:
        """Return the rules that match, as `file: Rule`."""
        found = self._scanner.scan(content).matching_rules
        return tuple(f"{rule.namespace}: {rule.identifier}" for rule in tuple(found)[:MAX_MATCHES])


def compile_rules(folder: Path) -> YaraRules:
    """Return the compiled rules of a folder; raise `YaraRulesError` with every fault."""
    compiler = yara_x.Compiler()
    compiler.enable_includes(False)
    faults: list[str] = []
    try:
        sources = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
    except OSError as fault:
        raise YaraRulesError([f"cannot be read: {fault.strerror}"]) from None
    if not sources:
        faults.append("holds no file that ends in .yar or .yara")
    for source in sources:
        faults += _add_source(compiler, source)
    if faults:
        raise YaraRulesError(faults[:MAX_FAULTS])
    return YaraRules(compiler.build())


def find_rule_faults(folder: Path) -> tuple[str, ...]:
    """Return what is wrong with the rules of a folder, one sentence each."""
    try:
        compile_rules(folder)
    except YaraRulesError as fault:
        return fault.faults
    return ()


def mark_matches(files: tuple[File, ...], rules: YaraRules, cpu: CpuAccount = NO_ACCOUNT) -> tuple[File, ...]:
    """Return the files with a trait for each matching rule; the same bytes are scanned once."""
    known: dict[str, tuple[Trait, ...]] = {}
    seen: list[File] = []
    for file in files:
        traits = known.get(file.sha256)
        if traits is None:
            matching = cpu.attempt(FILES, (), rules.match, file.content)
            traits = known[file.sha256] = tuple(Trait("yara", rule) for rule in matching)
        seen.append(msgspec.structs.replace(file, traits=(*file.traits, *traits)) if traits else file)
    return tuple(seen)


def _add_source(compiler: yara_x.Compiler, source: Path) -> list[str]:
    """Compile one file's rules into the set; return a sentence for each of its faults."""
    known = len(compiler.errors())
    try:
        text = source.read_text("utf-8")
        compiler.new_namespace(source.name)
        compiler.add_source(text, origin=source.name)
    except OSError as fault:
        return [f"has a file that cannot be read, {source.name}: {fault.strerror}"]
    except UnicodeDecodeError:
        return [f"has a file that is not UTF-8, {source.name}"]
    except yara_x.CompileError:
        errors = compiler.errors()[known:]
        return [f"has a faulty rule in {source.name}, line {error['line']}: {error['title']}" for error in errors]
    return []
