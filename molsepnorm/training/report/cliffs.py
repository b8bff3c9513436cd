"""Activity cliffs of a report: similar molecules with very different labels.

Source: Stumpfe and Bajorath, J. Med. Chem. 2012, 55, 2932.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molsepnorm.molecules.featurize.fingerprints import fingerprints_of, similar_pairs
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.tasks.metrics import significant
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.scoring import drawn

SIMILAR, ALIKE = 0.7, 0.85  # Tanimoto similarity of a cliff, and of a pair that may be an error
_MOST = 5000  # test molecules that are compared, a random sample of more
_SHOWN = 10


def activity_cliffs(contents: Contents) -> dict[str, Any]:
    """Return a row for each regression target with cliffs, and the pairs that look like a wrong
    label; empty without cliffs, or if the model reads feature columns, which change labels.

    A cliff is a pair of a test molecule and another molecule of the run whose labels differ by more
    than the standard deviation of all labels. A label looks wrong if the molecules are nearly
    identical and one prediction is as far from its label; the largest errors come first.
    """
    splits = [split for split in ("test", "val", "train") if split in contents.tables]
    targets = [target for target in contents.targets if target.kind == "regression"]
    smiles = [text for split in splits for text in contents.smiles(split)]
    if splits[:1] != ["test"] or not (targets and smiles) or contents.model.inputs.columns:
        return {}
    tests = len(contents.smiles("test"))
    rows = np.concatenate([drawn(np.arange(tests), _MOST), np.arange(tests, len(smiles))])
    bits = _fingerprints(contents, [smiles[row] for row in rows])
    one, other, similarity = similar_pairs(bits, min(tests, _MOST), SIMILAR)
    one, other = rows[one], rows[other]
    table, pairs = [], []
    for target in targets:
        parts = [part for split in splits if (part := contents.predicted(split, target))]
        labels = np.concatenate([part.labels for part in parts])
        errors = np.abs(np.concatenate([part.values[:, 0] for part in parts]) - labels)
        if not np.isfinite(labels).any():
            continue
        least = float(np.nanstd(labels))
        steep = np.flatnonzero(np.abs(labels[one] - labels[other]) > least)
        on_cliff = np.isin(np.arange(tests), np.concatenate([one[steep], other[steep]]))
        cells = [f"{len(steep):,}"]
        for which in (on_cliff, ~on_cliff):
            own = errors[:tests][which & np.isfinite(errors[:tests])]
            mean = significant(float(own.mean()), 3) if len(own) else "—"
            cells += [f"{len(own):,}", mean]
        if len(steep):
            table.append([target.learned_name, significant(least, 3), *cells])
        texts = [(part, row) for part in parts for row in range(len(part.labels))]
        for pair in steep[similarity[steep] >= ALIKE]:
            ends = sorted((int(one[pair]), int(other[pair])), key=lambda row: -errors[row])
            if errors[ends[0]] > least:
                own = [(smiles[row], *texts[row]) for row in ends]
                cards = [(text, part.truth(at), part.prediction(at)) for text, part, at in own]
                name = target.learned_name if len(targets) > 1 else ""
                pairs.append((errors[ends[0]] / least, name, float(similarity[pair]), cards))
    pairs.sort(key=lambda pair: -pair[0])
    return {"table": table, "pairs": [pair[1:] for pair in pairs[:_SHOWN]]} if table else {}


def _fingerprints(contents: Contents, smiles: Sequence[str]) -> np.ndarray:  # uint8 (n, 256)
    """Return fingerprints, those of training molecules from the model folder."""
    known: dict[str, np.ndarray] = {}
    if contents.model.structures:
        trained = contents.model.training_molecules()
        known = dict(zip(trained.smiles, trained.fingerprints, strict=True))
    others = [text for text in dict.fromkeys(smiles) if text not in known]
    forms = standardized(others, contents.model.standardize)
    known |= zip(others, fingerprints_of(forms)[0], strict=True)
    return np.stack([known[text] for text in smiles])
