"""The text model: a dictionary for words, another for pairs, a row of weights for each; the rest is addition.

The score of a message is the bias, plus the weights of its words and pairs divided by the root of how many there are
(so that a long mail does not outweigh a short one by its length), plus the weights of its marks. Three columns of
weights stand beside each other: whether the mail is unwanted at all, and how much it speaks for phishing, or for
fraud, rather than for plain spam. A pair is known by one number that is made of those of its two words.

Good words that were pasted around a lure must not drown it: a long text is also read in windows of some 40 words, and
where the words of one of them speak louder than the whole, less an allowance for having chosen it, that one counts. To
read as wanted, every part of a text has to: there is no allowance then.

The probability is that score put through the sigmoid that was fitted on collections which the model had not seen
(Platt, 1999), for a mailbox where half of the mail is unwanted.

A second reader, `letters` (`textmodel.gloss`), has learnt from letters and notices in many languages alone. It is asked
about texts that are surely not English, and about mail whose sender DMARC proves. Its log-odds stand beside those of
the model, not among them.

A deployment may have several: the shipped one, the operator's own, and those of tenants. Their log-odds are averaged,
each model weighing the same: a model of few messages is unsure by itself, because it was regularised, so it moves the
shipped one a little; one that has seen much of the operator's mail moves it a lot.

Beside the models lie the messages that were reported as wrongly judged, kept for the next training: one file each, by
the hash of its bytes. Reported messages are stored without parsing them.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib.resources import files
from io import BytesIO
from itertools import islice, repeat
from operator import add, mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zipfile import BadZipFile

import msgspec

from gatepost.process.kept_results import load_kept
from gatepost.speedups import native
from gatepost.textmodel import gloss
from gatepost.textmodel.features import MARK, SHAPES, Features, make_features, normalise_word
from gatepost.textmodel.gloss import Letters, PackedLetters, names_assurance
from gatepost.textmodel.words import BESIDE, CONCEPT, MAX_FOUND, NEAR, MessageWords, load_index

# numpy is imported where it is used: a loader that has native code and the shipped model does without, and saves a
# tenth of its start.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.int32]
    Floats: TypeAlias = NDArray[np.float32]
Sums: TypeAlias = tuple[float, float, float]

FORMAT = 2
MARK_SCALE = 1.0
MAX_SHOWN = 6
# A message has a mark of each shape once, except for paths, lengths of queries and safety of its links.
MOST_SHAPES = 24
# Longer texts are also read in windows of about so many words. The loudest of many is no surprise: of n normal values
# the greatest is about √(2 ln n) deviations above their mean. Windows deviate by more than is allowed for here: the
# whole of it would let honest prose around a lure excuse it.
WINDOW = 40
DEVIATION = 0.15
_MAX_LOGIT = 30.0
_LEAST = 1e-9
NOWHERE = -1
ROW_SIZE = 4
# The part of a file that is the second reader.
LETTERS = "letters"


class ModelError(ValueError):
    """A file that is no model; the text says why."""


class ModelScore(msgspec.Struct, frozen=True):
    """What the model thinks: `logit` is the log-odds that a mail is unwanted; the kinds share that probability. `worst`
    are the log-odds of the part of the text that reads worst, or of the whole."""

    logit: float
    spam: float
    phishing: float
    fraud: float
    worst: float = 0.0

    @property
    def unwanted(self) -> float:
        return sigmoid(self.logit)


class Hits(msgspec.Struct, frozen=True):
    """The rows of the weights that one message has, words and pairs (`text`) and `marks`, each as 32-bit numbers, with
    the sums of their weights; of a long text also the number of rows of each window, and the sum of their first
    column."""

    text: bytes
    marks: bytes
    sums: Sums = (0.0, 0.0, 0.0)
    mark_sums: Sums = (0.0, 0.0, 0.0)
    windows: tuple[tuple[int, float], ...] = ()

    @property
    def count(self) -> int:
        """How many words and pairs are known."""
        return len(self.text) // ROW_SIZE


class RowTable:
    """Words and pairs by their rows: the Python twin of `RowTable` in `_speedups.c`."""

    def __init__(self, words: tuple[str, ...], pairs: "Numbers", weights: "Floats") -> None:
        import numpy as np

        self._words = {word: row for row, word in enumerate(words)}
        self._pairs = {key: row for row, key in enumerate(pairs.tolist(), len(words))}
        self._base = len(words) + 1
        self._weights = np.asarray(weights)

    def find(
        self, text: list[str], rest: list[str], marks: list[str], normalise: Callable[[str], str], window: int
    ) -> tuple[bytes, bytes, Sums, Sums, tuple[tuple[int, float], ...]]:
        """Return the rows of text and marks, each once, their sums, and number and sum of the rows of each window."""
        sequence, others = find_rows(self._words, text, normalise), find_rows(self._words, rest, normalise)
        pairs = list(map(self._pairs.get, make_pair_keys(sequence, self._base), repeat(NOWHERE)))
        noted = _unite_rows([self._words.get(mark, NOWHERE) for mark in marks])
        windows = [_unite_rows(sequence[a:b], pairs[a : b - 1]) for a, b in _cut_windows(len(sequence), window)]
        whole = _unite_rows(sequence, pairs, others)
        return (
            whole.tobytes(),
            noted.tobytes(),
            self._sum(whole),
            self._sum(noted),
            tuple((len(rows), self._sum(rows)[0]) for rows in windows),
        )

    def read(
        self,
        words: MessageWords,
        marks: list[str],
        normalise: Callable[[str], str],
        _index: object,
        window: int,
        _most: int,
        _near: int,
        _beside: int,
    ) -> tuple[bytes, bytes, Sums, Sums, tuple[tuple[int, float], ...]]:
        """Return the same of all words of a message, with the concepts of its subject and body."""
        seen = make_features(words, marks)
        return self.find(seen.text, [*seen.rest, *seen.concepts], marks, normalise, window)

    def heaviest(self, text: bytes, marks: bytes, text_scale: float, mark_scale: float, most: int) -> list[int]:
        """Return the rows that weigh most for unwanted mail, heaviest first; of equal ones the text, then the lower."""
        import numpy as np

        in_text, noted = np.sort(np.frombuffer(text, np.int32)), np.sort(np.frombuffer(marks, np.int32))
        rows = np.concatenate((in_text, noted))
        scales = np.repeat(np.array((text_scale, mark_scale), np.float32), (len(in_text), len(noted)))
        weights = self._weights[rows, 0] * scales
        order = np.argsort(-weights, kind="stable")[:most]
        return [int(rows[place]) for place in order if weights[place] > 0]

    def _sum(self, rows: "Numbers") -> Sums:
        first, second, third = self._weights[rows].sum(axis=0, dtype="float64").tolist()
        return first, second, third


def find_rows(known: Mapping[str, int], words: list[str], normalise: Callable[[str], str]) -> list[int]:
    """Return the row of each word, or of what it may stand for; -1 where there is none."""
    found = list(map(known.get, words, repeat(NOWHERE)))
    place = -1
    for _ in range(found.count(NOWHERE)):
        place = found.index(NOWHERE, place + 1)
        word = words[place]
        if not (word.isalpha() and word.isascii()) and (form := normalise(word)):
            found[place] = known.get(form, NOWHERE)
    return found


def make_pair_keys(sequence: list[int], base: int) -> list[int]:
    """Return the keys of all neighbours. `base` is one more than there are words, so that -1 finds nothing."""
    return list(map(add, map(mul, sequence, repeat(base)), islice(sequence, 1, None)))


class Model(msgspec.Struct, frozen=True, dict=True):
    """A linear model. `words` are words and marks in the order of their rows, `pairs` the sorted keys of the rows that
    follow; `weights` and `bias` have a column each for unwanted, phishing and fraud; `slope` and `offset` calibrate.
    `letters` is the second reader, where there is one."""

    words: tuple[str, ...]
    pairs: "Numbers"
    weights: "Floats"
    bias: "Floats"
    slope: float = 1.0
    offset: float = 0.0
    about: dict[str, Any] = {}
    letters: Letters | None = None

    @cached_property
    def _table(self) -> RowTable:
        table: RowTable = (native.RowTable if native else RowTable)(self.words, self.pairs, self.weights)
        return table

    @cached_property
    def _biases(self) -> list[float]:
        biases: list[float] = self.bias.tolist()
        return biases

    @property
    def base(self) -> int:
        """What the row of a pair's first word is multiplied with to make the key of the pair."""
        return len(self.words) + 1

    def hits(self, seen: Features) -> Hits:
        """Return which rows a message has, each once."""
        rest = [*seen.rest, *seen.concepts]
        return Hits(*self._table.find(seen.text, rest, seen.marks, normalise_word, WINDOW))

    def read(self, words: MessageWords, marks: list[str]) -> Hits:
        """Return the same of words as they lie in memory, with the concepts that they name."""
        concepts = load_index().index
        return Hits(*self._table.read(words, marks, normalise_word, concepts, WINDOW, MAX_FOUND, NEAR, BESIDE))

    def score(self, seen: Features) -> ModelScore:
        """Return what the model thinks of a message."""
        return self.weigh(self.hits(seen))

    def weigh(self, hits: Hits) -> ModelScore:
        """Return what the model thinks of these rows."""
        root = math.sqrt(hits.count or 1)
        biases, sums, mark_sums = self._biases, hits.sums, hits.mark_sums
        mark = biases[0] + MARK_SCALE * mark_sums[0]
        whole = worst = mark + sums[0] / root
        for rows, total in hits.windows:
            worst = max(worst, mark + total / math.sqrt(rows or 1))
        raw = worst
        if len(hits.windows) > 1:
            raw = max(whole, worst - DEVIATION * math.sqrt(2 * math.log(len(hits.windows))))
        return share_probability(
            self._calibrate(raw),
            biases[1] + MARK_SCALE * mark_sums[1] + sums[1] / root,
            biases[2] + MARK_SCALE * mark_sums[2] + sums[2] / root,
            self._calibrate(worst),
        )

    def _calibrate(self, raw: float) -> float:
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, self.slope * raw + self.offset))

    def reasons(self, hits: Hits) -> tuple[str, ...]:
        """Return the words and marks that weighed most for unwanted mail, heaviest first, without mere shapes."""
        scale = 1 / math.sqrt(hits.count or 1)
        rows = self._table.heaviest(hits.text, hits.marks, scale, MARK_SCALE, MAX_SHOWN + MOST_SHAPES)
        telling = [row for row in rows if row >= len(self.words) or not self.words[row].startswith(SHAPES)]
        return tuple(map(self.name, telling[:MAX_SHOWN]))

    def name(self, row: int) -> str:
        """Return a row as a person reads it."""
        if row < len(self.words):
            return self.words[row].removeprefix(MARK).removeprefix(CONCEPT).replace("_", " ")
        first, second = divmod(int(self.pairs[row - len(self.words)]), self.base)
        return f"{self.words[first]} {self.words[second]}"

    def to_bytes(self) -> bytes:
        """Return the model as a file."""
        import numpy as np

        packed = BytesIO()
        about = json.dumps({"format": FORMAT, "slope": self.slope, "offset": self.offset, **self.about}, sort_keys=True)
        parts: dict[str, Any] = {
            "words": np.frombuffer("\n".join(self.words).encode(), np.uint8),
            "pairs": self.pairs,
            "weights": np.asarray(self.weights, np.float16),
            "bias": self.bias,
            "about": np.frombuffer(about.encode(), np.uint8),
        }
        if self.letters:
            kept = msgspec.msgpack.encode(self.letters.pack())
            parts[LETTERS] = np.frombuffer(kept, np.uint8)
        np.savez_compressed(packed, **parts)
        return packed.getvalue()


def _unite_rows(*rows: list[int]) -> "Numbers":
    """Return each known row once."""
    import numpy as np

    found: set[int] = set().union(*rows)
    found.discard(NOWHERE)
    return np.fromiter(found, np.int32, len(found))


def _cut_windows(length: int, window: int) -> list[tuple[int, int]]:
    """Return where the windows of a text begin and end: none for one that is hardly longer than a window."""
    count = round(length / window)
    if length < window * 3 // 2:
        return []
    return [(length * part // count, length * (part + 1) // count) for part in range(count)]


def sigmoid(logit: float) -> float:
    """Return the probability of these log-odds."""
    return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, logit))))


def share_probability(logit: float, phishing: float, fraud: float, worst: float) -> ModelScore:
    """Return the probability that a mail is unwanted, shared among the kinds by their odds against plain spam."""
    odds = (1.0, math.exp(min(_MAX_LOGIT, phishing)), math.exp(min(_MAX_LOGIT, fraud)))
    whole = sigmoid(logit) / sum(odds)
    return ModelScore(logit, whole, whole * odds[1], whole * odds[2], worst)


def lower_score(score: ModelScore, by: float) -> ModelScore:
    """Return the score with so much less log-odds, shared among the kinds as before."""
    if not by:
        return score
    phishing, fraud = (math.log(max(each, _LEAST) / max(score.spam, _LEAST)) for each in (score.phishing, score.fraud))
    return share_probability(score.logit - by, phishing, fraud, score.worst - by)


def silence_assurances(model: Model) -> Model:
    """Return a model in which assurances, alone or near another concept, never speak for a mail."""
    weights = model.weights.copy()
    for row, word in enumerate(model.words):
        if names_assurance(word):
            weights[row, 0] = max(0.0, weights[row, 0])
    return msgspec.structs.replace(model, weights=weights)


def parse_model(content: bytes) -> Model:
    """Return a model from a file's bytes. Nothing in it is run."""
    import numpy as np

    try:
        with np.load(BytesIO(content), allow_pickle=False) as packed:
            parts = dict(packed)
        kept = parts.get(LETTERS)
        letters = msgspec.msgpack.decode(kept.tobytes(), type=PackedLetters).open() if kept is not None else None
        return _join_parts(parts, letters)
    except ModelError:
        raise
    except (ValueError, KeyError, OSError, EOFError, BadZipFile, zlib.error, msgspec.DecodeError) as fault:
        raise ModelError(f"it is not a model ({type(fault).__name__})") from None


def _join_parts(parts: "Mapping[str, NDArray[Any]]", letters: Letters | None = None) -> Model:
    """Return the model of a file's arrays."""
    about = json.loads(parts["about"].tobytes())
    words = tuple(parts["words"].tobytes().decode().split("\n"))
    pairs, weights, bias = parts["pairs"], parts["weights"].astype("float32"), parts["bias"]
    if about.pop("format", None) != FORMAT:
        raise ModelError("it is a model of another version")
    if weights.shape != (len(words) + len(pairs), 3) or bias.shape != (3,):
        raise ModelError("its parts do not fit together")
    slope, offset = about.pop("slope"), about.pop("offset")
    return silence_assurances(Model(words, pairs, weights, bias, slope, offset, about, letters))


def load_model(path: Path) -> Model:
    """Return a model from a file."""
    try:
        return parse_model(path.read_bytes())
    except OSError as fault:
        raise ModelError(fault.strerror or "it cannot be read") from None


@cache
def load_shipped_model() -> Model:
    """Return the model of the package, for native code kept as it lies in memory."""
    content = (files("gatepost.textmodel") / "shipped.npz").read_bytes()
    if not native:
        return parse_model(content)
    made_of = [content, Path(__file__).read_bytes(), Path(gloss.__file__).read_bytes()]
    return load_kept(__file__, "kept-model", made_of, KeptModel, lambda: keep_model(content)).open()


class KeptModel(msgspec.Struct, frozen=True):
    """A model whose numbers are bytes, as this machine has them in memory."""

    words: str
    pairs: bytes
    weights: bytes
    bias: bytes
    slope: float
    offset: float
    about: dict[str, Any]
    letters: PackedLetters | None = None

    def open(self) -> Model:
        """Return the model over these bytes, without numpy."""
        words = tuple(self.words.split("\n"))
        pairs: Any = memoryview(self.pairs).cast("q")
        weights: Any = memoryview(self.weights).cast("f", (len(words) + len(pairs), 3))
        bias: Any = memoryview(self.bias).cast("f")
        letters = self.letters.open() if self.letters else None
        return Model(words, pairs, weights, bias, self.slope, self.offset, self.about, letters)


def keep_model(content: bytes) -> KeptModel:
    """Return the model of a file's bytes as it is kept."""
    import numpy as np

    model = parse_model(content)
    pairs, weights = np.asarray(model.pairs, np.int64).tobytes(), np.asarray(model.weights, np.float32).tobytes()
    bias = np.asarray(model.bias, np.float32).tobytes()
    words, letters = "\n".join(model.words), model.letters.pack() if model.letters else None
    return KeptModel(words, pairs, weights, bias, model.slope, model.offset, model.about, letters)


OWN = "own.npz"


class ModelBlend(msgspec.Struct, frozen=True):
    """Models that are asked together."""

    models: tuple[Model, ...]

    def hits(self, seen: Features) -> tuple[Hits, ...]:
        """Return which rows of each model a message has."""
        return tuple(model.hits(seen) for model in self.models)

    def read(self, words: MessageWords, marks: list[str]) -> tuple[Hits, ...]:
        """Return the same of words as they lie in memory."""
        return tuple([model.read(words, marks) for model in self.models])

    def weigh(self, hits: tuple[Hits, ...]) -> ModelScore:
        """Return the average of what the models think."""
        scores = [model.weigh(each) for model, each in zip(self.models, hits, strict=True)]
        if len(scores) == 1:
            return scores[0]
        count = len(scores)
        return share_probability(
            sum(score.logit for score in scores) / count,
            sum(math.log(score.phishing / score.spam) for score in scores) / count,
            sum(math.log(score.fraud / score.spam) for score in scores) / count,
            sum(score.worst for score in scores) / count,
        )

    def ask_letters(self, words: MessageWords) -> float:
        """Return the average of what second readers think of a text; 0 where there is none."""
        readers = [model.letters for model in self.models if model.letters]
        return sum(letters.ask(words) for letters in readers) / len(readers) if readers else 0.0

    def reasons(self, hits: tuple[Hits, ...]) -> tuple[str, ...]:
        """Return what weighed most, a few from each model."""
        each = [model.reasons(mine) for model, mine in zip(self.models, hits, strict=True)]
        merged = dict.fromkeys(word for row in range(MAX_SHOWN) for words in each for word in words[row : row + 1])
        return tuple(merged)[:MAX_SHOWN]


class DeployedModels(msgspec.Struct, frozen=True):
    """The models of a deployment: one blend for all tenants, and one for each tenant that has a model of its own."""

    all_tenants: ModelBlend
    tenants: Mapping[str, ModelBlend] = {}

    def for_tenant(self, tenant: str | None) -> ModelBlend:
        """Return the models that speak about a tenant's mail."""
        return self.tenants.get(tenant, self.all_tenants) if tenant else self.all_tenants


def load_shipped_models() -> DeployedModels:
    """Return only the model that comes with the package."""
    return DeployedModels(ModelBlend((load_shipped_model(),)))


def load_models(folder: Path) -> DeployedModels:
    """Load the models of a deployment's folder: `own.npz` for all tenants and `UID.npz` for one."""
    if not folder.is_dir():
        return load_shipped_models()
    base = (load_shipped_model(), *((load_model(folder / OWN),) if (folder / OWN).is_file() else ()))
    files = sorted(path for path in folder.glob("*.npz") if path.name != OWN)
    tenants = {path.stem.lower(): ModelBlend((*base, load_model(path))) for path in files}
    return DeployedModels(ModelBlend(base), tenants)


FEEDBACK_FOLDER = "feedback"


def save_feedback(data: Path, raw: bytes, wanted: bool) -> str:
    """Keep one message under the data folder; it replaces what was said of it before. Returns the file's name."""
    name = f"{hashlib.sha256(raw).hexdigest()}.eml"
    place, other = (data / FEEDBACK_FOLDER / side for side in (("ham", "spam") if wanted else ("spam", "ham")))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = place / f".{name}"
    fresh.write_bytes(raw)
    fresh.replace(place / name)
    (other / name).unlink(missing_ok=True)
    return name


def take_feedback_back(data: Path, sha256: str, wanted: bool | None) -> None:
    """Have what was said of a message as it was before: wanted, unwanted, or nothing (None)."""
    sides = {side: data / FEEDBACK_FOLDER / side / f"{sha256}.eml" for side in ("ham", "spam")}
    found = next((path for path in sides.values() if path.is_file()), None)
    if found is None:
        return
    if wanted is None:
        found.unlink(missing_ok=True)
    elif (place := sides["ham" if wanted else "spam"]) != found:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        found.replace(place)
