"""The models of a deployment: the shipped one, the operator's own, and those of tenants, blended into one score.

Their log-odds are averaged, each model weighing the same: a model of few messages is unsure by itself, because it was
regularised, so it moves the shipped one a little; one that has seen much of the operator's mail moves it a lot.

Beside the models lie the signatures that an operator marked, and the messages that were reported as wrongly judged,
kept for the next training: one file each, by the hash of its bytes. Reported messages are stored without parsing them.
"""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gatepost.near_duplicates import MarkedSignatures, Signature, index_marked
from gatepost.textmodel.features import Features
from gatepost.textmodel.model import (
    MAX_SHOWN,
    Hits,
    Model,
    ModelError,
    ModelScore,
    load_model,
    load_shipped_model,
    share_probability,
)

OWN = "own.npz"
MARKS = "marked.json"
FOLDER = "models"


class ModelBlend(msgspec.Struct, frozen=True):
    """Models that are asked together."""

    models: tuple[Model, ...]

    def hits(self, seen: Features) -> tuple[Hits, ...]:
        """Return which rows of each model a message has."""
        return tuple(model.hits(seen) for model in self.models)

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
        )

    def reasons(self, hits: tuple[Hits, ...]) -> tuple[str, ...]:
        """Return what weighed most, a few from each model."""
        each = [model.reasons(mine) for model, mine in zip(self.models, hits, strict=True)]
        merged = dict.fromkeys(word for row in range(MAX_SHOWN) for words in each for word in words[row : row + 1])
        return tuple(merged)[:MAX_SHOWN]


class DeployedModels(msgspec.Struct, frozen=True):
    """The models of a deployment: one blend for all tenants, and one for each tenant that has a model of its own.
    `marked` are the signatures of texts that the operator marked."""

    all_tenants: ModelBlend
    tenants: Mapping[str, ModelBlend] = {}
    marked: MarkedSignatures = MarkedSignatures()

    def for_tenant(self, tenant: str | None) -> ModelBlend:
        """Return the models that speak about a tenant's mail."""
        return self.tenants.get(tenant, self.all_tenants) if tenant else self.all_tenants


def load_shipped_models() -> DeployedModels:
    """Return only the model that comes with the package."""
    return DeployedModels(ModelBlend((load_shipped_model(),)))


def load_models(folder: Path) -> DeployedModels:
    """Load the models of a deployment's folder: `own.npz` for all tenants and `UID.npz` for one tenant, where there are
    any."""
    if not folder.is_dir():
        return load_shipped_models()
    base = (load_shipped_model(), *((load_model(folder / OWN),) if (folder / OWN).is_file() else ()))
    files = sorted(path for path in folder.glob("*.npz") if path.name != OWN)
    tenants = {path.stem.lower(): ModelBlend((*base, load_model(path))) for path in files}
    return DeployedModels(ModelBlend(base), tenants, index_marked(load_marks(folder).values()))


def load_marks(folder: Path) -> dict[str, Signature]:
    """Return the signatures that an operator marked, by the hash of the message each is from."""
    try:
        return msgspec.json.decode((folder / MARKS).read_bytes(), type=dict[str, Signature])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError):
        raise ModelError(f"{MARKS} cannot be read") from None


def save_mark(folder: Path, changes: Mapping[str, Signature]) -> None:
    """Add signatures, or take those away that are empty."""
    kept = {name: each for name, each in {**load_marks(folder), **changes}.items() if each}
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{MARKS}.new"
    fresh.write_bytes(msgspec.json.encode(kept))
    fresh.replace(folder / MARKS)


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
