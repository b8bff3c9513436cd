"""SMILES of a data set, standardised and read as graphs by worker processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from molsepnorm.devices import usable_cores
from molsepnorm.errors import InvalidMolecule, ModelError
from molsepnorm.files.digests import KEY, json_digest, short_digest
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import cache_folder, write_json
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.workers import results_of

_TASK = 256  # SMILES of a task


def graphs_of(smiles: Sequence[str], featurizer: str) -> Iterator[MolGraph | InvalidMolecule]:
    """Yield a graph or an error for each SMILES, computed by worker processes if there are many."""
    tasks = (smiles[start : start + _TASK] for start in range(0, len(smiles), _TASK))
    results = results_of(featurize.get(featurizer).many, tasks, usable_cores())
    return chain.from_iterable(results)


def cached_standard(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return `standardized` SMILES, from the cache if they were computed before."""
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    key = short_digest(json.dumps(smiles))
    path = cache_folder() / f"{key}-{level}-rdkit{RDKIT_VERSION}.standard"
    if path.exists():
        with suppress(ModelError, LookupError, TypeError):  # a damaged file is replaced
            content = read_json(path)
            if json_digest(forms := content["smiles"]) == content[KEY]:
                invalid = [row for row, text in enumerate(forms) if not text]
                again = standardized([smiles[row] for row in invalid], level)  # with the reasons
                for row, text in zip(invalid, again, strict=True):
                    forms[row] = text
                return forms
    forms = standardized(smiles, level)
    write_json(path, {"smiles": forms, KEY: json_digest(forms)})
    return forms
