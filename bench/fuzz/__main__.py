"""`make fuzz`: give changed inputs to every reader, and see that none raises, hangs, grows or answers differently.

    python -m bench.fuzz [--target NAME …] [--executions N] [--seed S] [--plain] [--json]

Without `--executions`, a target gets 200,000 executions, a cheap one a million. Each target runs in a process of its
own, one after the other. With atheris installed (`make fuzz` installs it where it has a wheel) coverage guides the
changes, and the inputs that it kept stay in build/fuzz/corpus for later runs; `--plain` changes seeds and kept inputs
without it, at twice the speed. An input that failed is made shorter and saved in a temporary folder, with the command
that repeats it. The exit status is 1 if a target failed.
"""

import argparse
import base64
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bench.fuzz.checks import find_failure, minimise
from bench.fuzz.target import Target
from bench.fuzz.targets import TARGETS
from bench.fuzz.worker import HEAD, INPUT_ROOM
from gatepost.cli.printing import ProgressBar

PARSER_EXECUTIONS, CHEAP_EXECUTIONS = 200_000, 1_000_000
ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "build" / "fuzz" / "corpus"
MAX_KEPT = 500


def main() -> None:
    options = _parse_options()
    if options.input:
        _repeat(options.target[0], Path(options.input))
        return
    known = {each.name: each for each in TARGETS}
    chosen = [known[name] for name in options.target or known]
    results = []
    with (
        ProgressBar("fuzzing") as progress,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-m", "bench.fuzz.worker", options.engine],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as worker,
    ):  # fmt: skip
        for target in chosen:
            result = _run(target, options, worker, errors, progress)
            results.append(result)
            progress.hide()
            print(json.dumps(result) if options.json else _describe(result), flush=True)
        worker.communicate()
    failed = [result["target"] for result in results if result["failures"]]
    if not options.json:
        done = sum(result["executions"] for result in results)
        print(f"{done:,} executions of {len(results)} targets, seed {options.seed}, {options.engine}: "
              + (f"failures in {', '.join(failed)}" if failed else "no failure"))  # fmt: skip
    sys.exit(1 if failed else 0)


def _parse_options() -> argparse.Namespace:
    names = [each.name for each in TARGETS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="+", default=[], metavar="NAME", help=", ".join(names))
    parser.add_argument("--executions", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--plain", action="store_true", help="do without coverage")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each target")
    parser.add_argument("--input", metavar="FILE", help="execute one target on this file, and show what happens")
    options = parser.parse_args()
    if unknown := set(options.target) - set(names):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    if options.input and len(options.target) != 1:
        parser.error("--input needs one --target")
    has_atheris = importlib.util.find_spec("atheris") is not None
    if not has_atheris and not options.plain and not options.input:
        print("atheris is not installed: coverage does not guide the changes", file=sys.stderr)
    options.engine = "guided" if has_atheris and not options.plain else "plain"
    return options


def _run(
    target: Target,
    options: argparse.Namespace,
    worker: "subprocess.Popen[str]",
    errors: IO[bytes],
    progress: ProgressBar,
) -> dict[str, Any]:
    executions = options.executions or (CHEAP_EXECUTIONS if target.cheap else PARSER_EXECUTIONS)
    corpus = CORPUS / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    last: dict[str, Any] = {"runs": 0, "failures": 0}
    status = 0
    with tempfile.NamedTemporaryFile(prefix="gatepost-fuzz-") as current:
        current.truncate(INPUT_ROOM)
        order = {"target": target.name, "executions": executions, "seed": options.seed}
        order |= {"corpus": str(corpus), "input": current.name}
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(json.dumps(order) + "\n")
        worker.stdin.flush()
        for line in worker.stdout:
            told = json.loads(line)
            if "status" in told:
                status = told["status"]
                break
            last = told
            progress.update(last["runs"], executions, target.name)
        found = last.get("found", [])
        if "found" not in last:
            errors.seek(0)
            detail = f"the process ended with {status}: {errors.read()[-500:].decode('utf-8', 'replace')}"
            raw = Path(current.name).read_bytes()
            data = raw[HEAD.size : HEAD.size + HEAD.unpack_from(raw)[0]]
            found = [{"reason": "died", "detail": detail, "data": base64.b64encode(data).decode()}]
    _trim(corpus)
    return {
        "target": target.name,
        "engine": options.engine,
        "seed": options.seed,
        "executions": last["runs"],
        "micros": round(last.get("cpu", 0.0) / max(1, last["runs"]) * 1e6),
        "slowest_ms": round(last.get("slowest", 0.0) * 1e3, 1),
        "grown_mib": round(last.get("grown", 0) / (1 << 20), 1),
        "corpus": len(list(corpus.iterdir())),
        "failures": [_save(target, each) for each in found],
    }


def _trim(corpus: Path) -> None:
    """Keep the shortest of the inputs that a guided run has kept."""
    for path in sorted(corpus.iterdir(), key=lambda path: path.stat().st_size)[MAX_KEPT:]:
        path.unlink()


def _save(target: Target, found: dict[str, str]) -> dict[str, str]:
    """Save an input that failed, as short as it can be made, and say how to repeat it."""
    data = base64.b64decode(found["data"])
    if found["reason"] == "raised":
        last = found["detail"].splitlines()[-1].partition(":")[0]
        data = minimise(data, lambda each: _fails_so(target, each, last))
    with tempfile.NamedTemporaryFile(prefix=f"gatepost-fuzz-{target.name}-", suffix=".bin", delete=False) as file:
        file.write(data)
    repeat = f'make fuzz ARGS="--target {target.name} --input {file.name}"'
    return {"reason": found["reason"], "detail": found["detail"], "input": file.name, "repeat": repeat}


def _fails_so(target: Target, data: bytes, last: str) -> bool:
    failure = find_failure(target.run, data, twice=False)
    return failure is not None and failure.detail.splitlines()[-1].startswith(last)


def _repeat(name: str, path: Path) -> None:
    target = next(each for each in TARGETS if each.name == name)
    failure = find_failure(target.run, path.read_bytes())
    print(failure.detail if failure else "no failure")
    sys.exit(1 if failure else 0)


def _describe(result: dict[str, Any]) -> str:
    return "\n".join(_describe_lines(result))


def _describe_lines(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{result['target']:24} {result['executions']:>9,} executions {result['micros']:>7,} µs each, slowest "
        f"{result['slowest_ms']:>7,.1f} ms, grew {result['grown_mib']:>5.1f} MiB, corpus {result['corpus']:>3}"
        + (f", FAILURES {len(result['failures'])}" if result["failures"] else "")
    )
    for each in result["failures"]:
        yield f"  {each['reason']}: {each['detail'].strip()}"
        yield f"  repeat with: {each['repeat']}"


if __name__ == "__main__":
    main()
