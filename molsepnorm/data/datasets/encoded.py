"""Molecules of a table: SMILES are standardised, read by worker processes, and encoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.store import GraphStore, Rejected
from molsepnorm.devices import usable_cores
from molsepnorm.errors import DataError, InvalidMolecule, ModelError
from molsepnorm.files.digests import KEY, json_digest, short_digest
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import cache_folder, write_json
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.workers import results_of

_TASK = 256  # SMILES of a task


def encoded_rows(
    smiles: Sequence[str],
    config: DataConfig,
    encoding: EncodingSpec,
    location: Callable[[int], str],
) -> tuple[GraphStore, Sequence[str]]:
    """Return the store of the molecules of a table, and the standard form of every SMILES. It is a
    `DataError` with the `location` of a row if that cannot be read and `on_invalid` is fail."""
    standard = cached_standard(smiles, config.standardize)
    graphs = graphs_of(standard, config.featurizer)
    return encoded(graphs, smiles, config, encoding, location), standard


def encoded(
    graphs: Iterable[MolGraph | InvalidMolecule],
    smiles: Sequence[str],
    config: DataConfig,
    encoding: EncodingSpec,
    location: Callable[[int], str],
) -> GraphStore:
    """Return the store of the molecules among these graphs; errors are as in `encoded_rows`."""
    rejected: list[Rejected] = []

    def molecules() -> Iterator[tuple[int, MolGraph]]:
        for row, (text, graph) in enumerate(zip(smiles, graphs, strict=True)):
            if isinstance(graph, MolGraph):
                yield row, graph
            else:
                rejected.append(Rejected(row, text, str(graph)))

    store = GraphStore.encode(molecules(), rejected, encoding, config.featurizer)
    if rejected and config.on_invalid == "fail":
        raise DataError(
            f"{location(rejected[0].row)}: {rejected[0].reason}. Fix the row, or leave such rows "
            "out and have them listed with data.on_invalid: skip (--on-invalid skip)"
        )
    return store


def graphs_of(smiles: Sequence[str], featurizer: str) -> Iterator[MolGraph | InvalidMolecule]:
    """Yield a graph or an error for each SMILES, computed by worker processes if there are many."""
    tasks = (smiles[start : start + _TASK] for start in range(0, len(smiles), _TASK))
    results = results_of(featurize.get(featurizer).many, tasks, usable_cores())
    return chain.from_iterable(results)


def cached_standard(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return the standard form of each SMILES, or an empty text that holds the reason if there is
    none, from the cache if it was computed before. At the level `none` it is `smiles` itself."""
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION
    from molsepnorm.molecules.featurize.smiles import Unwritten

    key = short_digest(json.dumps(_with_reasons(smiles)))
    path = cache_folder() / f"{key}-{level}-rdkit{RDKIT_VERSION}.standard"
    if path.exists():
        with suppress(ModelError, LookupError, TypeError):  # a damaged file is made anew
            content = read_json(path)
            if json_digest(content["smiles"]) == content[KEY]:
                each = content["smiles"]
                return [text if isinstance(text, str) else Unwritten(*text) for text in each]
    forms = standardized(smiles, level)
    written = _with_reasons(forms)
    write_json(path, {"smiles": written, KEY: json_digest(written)})
    return forms


def _with_reasons(smiles: Sequence[str]) -> list[str | list[str]]:
    """Return SMILES for JSON, where an empty text that holds a reason becomes a list of it.

    >>> from molsepnorm.molecules.featurize.smiles import Unwritten
    >>> _with_reasons(["CCO", "", Unwritten("5,000 atoms")])
    ['CCO', '', ['5,000 atoms']]
    """
    return [[text.reason] if hasattr(text, "reason") else text for text in smiles]
