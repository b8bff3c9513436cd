"""`explain`: Shapley values of atoms and fragments, from predictions for parts of molecules.

The n players are the atoms of a molecule, further inputs, and the atoms of further molecules. The
value of a coalition (a set of players) is the model's prediction without the other players.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from molsepnorm.analysis.explanations.explanation import (
    Contributions,
    Explanation,
    FragmentContribution,
    unit_of,
)
from molsepnorm.analysis.explanations.masked import (
    MAX_ATOMS,
    Maskable,
    OtherInput,
    TokenAttention,
    explained_scale,
    masked_predictions,
    with_atoms,
)
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.model import Inputs, PropertyModel
from molsepnorm.molecules.featurize.atom_order import Traced, traced
from molsepnorm.molecules.featurize.descriptors import (
    Environments,
    morgan_environments,
    pair_environments,
)
from molsepnorm.molecules.featurize.smiles import Unwritten
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.molecules.fragments import SCHEMES, fragments
from molsepnorm.predict.encode import Cells, Group, Prepare, Row
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.tables import TableRows
from molsepnorm.tasks.inputs import cell_text
from molsepnorm.workers import results_of

PAIRS = 8  # of random orders, by default
DESCRIPTORS = "all descriptors"
"""Name of the contribution of RDKit's descriptors and the featuriser's molecule-level features."""
Form: TypeAlias = Traced | Unwritten
_TASK = 8  # molecules that are explained together


@dataclass(frozen=True, eq=False)
class Draws:
    r"""Random orders in which players are added, and the distinct coalitions that occur.

    .. math:: \phi_i = \frac1R \sum_{r=1}^R v(P_{ri} \cup \{i\}) - v(P_{ri})

    with the players :math:`P_{ri}` that precede player i in order r. Orders come in pairs, an order
    and its reverse, which lowers the variance. The differences of one order add up to
    v(all) - v(none), so the contributions do so exactly, for any number of orders. Players of a
    group, such as the atoms of a solvent, are added one after the other. Their contributions add up
    to that of the group as one player, and do not change those of others (Owen's value).

    Source: Castro, Gómez and Tejada, Computers & Operations Research 2009, 36, 1726; pairs of
    orders: Mitchell et al., "Sampling Permutations for Shapley Value Estimation", JMLR 2022, 23;
    groups: Owen, "Values of Games with a Priori Unions", 1977.
    """

    orders: np.ndarray
    """int64 [R, n]: the players in the order in which they are added; R is even."""
    coalitions: np.ndarray
    """bool [K, n]: the distinct coalitions; the first is empty, the last has all players."""
    steps: np.ndarray
    """int64 [R, n + 1]: the coalition after 0, 1, …, n players of each order."""

    def contributions(self, values: np.ndarray) -> np.ndarray:  # (K, O) -> (R / 2, n, O)
        """Return each player's contribution in every pair of orders; their mean is φ.

        Args:
            values: float64 (K, O), the values of the coalitions.
        """
        added = np.diff(values[self.steps], axis=1)  # (R, n, O), in the order of addition
        of_player = np.empty_like(added)
        np.put_along_axis(of_player, self.orders[:, :, None], added, axis=1)
        return of_player.reshape(len(added) // 2, 2, *added.shape[1:]).mean(axis=1)


def draw(groups: Sequence[int], pairs: int, seed: int = 0) -> Draws:
    """Draw R / 2 pairs of random orders of n players, who are in groups of these sizes."""
    rng = np.random.default_rng(seed)
    of_groups = rng.permuted(np.tile(np.arange(len(groups)), (pairs, 1)), axis=1)
    group = np.repeat(np.arange(len(groups)), groups)  # of each player
    players, within = len(group), rng.random((pairs, len(group)))
    half = np.lexsort((within, of_groups.argsort(axis=1)[:, group]), axis=1)
    orders = np.stack([half, half[:, ::-1]], axis=1).reshape(2 * pairs, players)
    place = orders.argsort(axis=1)  # (R, n)
    after = place[:, None, :] < np.arange(players + 1)[:, None]  # (R, n + 1, n)
    packed = np.packbits(after.reshape(-1, players), axis=1)
    _, first, steps = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return Draws(orders, after.reshape(-1, players)[first], steps.reshape(2 * pairs, players + 1))


def explain(
    model: PropertyModel | Predictor,
    smiles: Iterable[str],
    columns: Cells | None = None,
    pairs: int = PAIRS,
) -> list[Explanation]:
    """Explain the prediction for each SMILES, in their order.

    The contribution of an atom is its Shapley value, estimated from random orders of removal; see
    `Draws`, and `masked_predictions` for what removal means. The contributions of a molecule add up
    to its prediction by all networks and forests, minus the prediction without any atom and input.
    Atoms that a symmetry of the molecule exchanges have equal contributions.

    Args:
        model: a trained model, or a predictor, whose device and processes are used.
        columns: the cells of the model's feature columns, as in `Predictor.predict`.
        pairs: number of pairs of random orders. Twice as many take twice the time and divide the
            squared error by two.

    Raises:
        ConfigError: `pairs` is below 2, or as in `Predictor.predict`.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model)
    return [*_explained(predictor, predictor.rows(smiles, columns), pairs)]


def _explained(predictor: Predictor, rows: Iterator[Row], pairs: int) -> Iterator[Explanation]:
    predictor.model.require_targets()
    if pairs < 2:
        raise ConfigError(f"pairs must be 2 or more, for a standard error; got {pairs}")
    work = _Explain(predictor, pairs)
    tasks = iter(lambda: list(islice(rows, _TASK)), [])
    processes = predictor.processes if predictor.device.type == "cpu" else 1
    for done in results_of(work, tasks, processes):
        yield from done


def explain_rows(
    predictor: Predictor, table: TableRows, pairs: int = PAIRS, most: int | None = None
) -> list[Explanation]:
    """Explain the predictions for a table of at most `most` rows."""
    table.check(predictor.model.inputs.names)
    rows = list(table)
    if most is not None and len(rows) > most:
        raise ConfigError(
            f"a picture shows at most {most} molecules, and {table.source} has {len(rows):,}: "
            "write a page (.html) or JSON"
        )
    explanations = []
    for row, explanation in zip(rows, _explained(predictor, iter(rows), pairs), strict=True):
        table.kept(row, explanation.error)
        explanations.append(explanation)
    return explanations


class _Explain:
    def __init__(self, predictor: Predictor, pairs: int) -> None:
        self._model, self._device = predictor.model, predictor.device
        self._precision, self._pairs = predictor.precision, pairs
        # structures are standardised here, since the atoms of the standard form are explained
        self._prepare = Prepare(replace(self._model, standardize="none"), self._device)
        self._attention = TokenAttention(self._model.network)
        self._counts, self._inputs = _inputs_of(self._model)

    def __call__(self, rows: Sequence[Row]) -> list[Explanation]:
        smiles = [row[0] for row in rows]
        structures = standardized(smiles, self._model.standardize)
        forms = [_traced(text) for text in structures]
        texts = [form.smiles if isinstance(form, Traced) else form for form in forms]
        prepared = self._prepare([(text, *row[1:]) for text, row in zip(texts, rows, strict=True)])
        explanations = [*map(Explanation, smiles, structures, prepared.errors)]
        for group in prepared.groups:
            self._explain(group, rows, forms, explanations)
        return explanations

    def _explain(
        self, group: Group, given: Sequence[Row], forms: Sequence[Form], found: list[Explanation]
    ) -> None:
        rows, encoded, extra = group
        molecules, draws = [], []
        for index, row in enumerate(rows):
            text, atoms = forms[row].smiles, len(forms[row].places)
            if atoms != encoded.sizes[index]:
                raise ConfigError(
                    f"featuriser '{self._model.featurizer}' returned {encoded.sizes[index]} atoms "
                    f"for the {atoms} atoms of {text}: only featurisers with a node for each atom "
                    "of the SMILES can be explained"
                )
            counted = {name: find(text) for name, find in self._counts.items()}
            cells = dict(zip(self._model.inputs.names, given[row][1:], strict=False))
            others = tuple(
                with_atoms(each, self._model.molecules, cell_text(cells.get(each.name)))
                for each in self._inputs
            )
            draws.append(draw([1] * atoms + [each.players for each in others], self._pairs))
            molecules.append(Maskable(index, draws[index].coalitions, counted, others))
        model, device = self._model, self._device
        inputs = model.completed(Inputs.of(encoded, extra, device), self._precision)
        extra = inputs.extra
        predicted = masked_predictions(model, encoded, extra, molecules, device, self._precision)
        batch = model.graphs(inputs).cut(np.arange(len(rows)))
        attention = self._attention(batch).cpu().numpy()
        for index, row in enumerate(rows):
            if not np.isfinite(predicted[index]).all():
                found[row] = replace(found[row], error=_NOT_FINITE)
                continue
            form, size = forms[row], int(encoded.sizes[index])
            values, chosen = explained_scale(model, predicted[index]), predicted[index][-1]
            samples = draws[index].contributions(values)  # (R / 2, n, O)
            whole, rest = np.split(samples, [size], axis=1)
            further: dict[str, list[Explanation]] = {}
            for each in molecules[index].inputs:
                players, rest = np.split(rest, [each.players], axis=1)
                whole = np.hstack([whole, players.sum(axis=1, keepdims=True)])
                for text, smiles, its in each.components:
                    own, players = np.split(players, [len(its.places) + 1], axis=1)
                    parts = self._explained(its, own, chosen, None)
                    component = Explanation(text, smiles, None, *parts)
                    further.setdefault(each.name, []).append(component)
            of_atoms = _of_atoms(_mean_of_equals(form) @ attention[index, 1 : size + 1], form)
            parts = self._explained(form, whole, chosen, values)
            about = found[row].smiles, found[row].structure, None
            found[row] = Explanation(*about, *parts, of_atoms, further)

    def _explained(
        self, form: Traced, samples: np.ndarray, predicted: np.ndarray, values: np.ndarray | None
    ) -> tuple[dict[str, Contributions], dict[str, list[FragmentContribution]]]:
        """Return the targets and fragments of an explanation of a prediction (O,) from the
        contributions of players in every pair of orders, (R / 2, n, O): the atoms, then the other
        inputs. `values` (K, O) are those of the coalitions; a further molecule has none."""
        task, atoms = self._model.task, len(form.places)
        of_atoms = _mean_of_equals(form) @ samples[:, :atoms]
        of_inputs = samples[:, atoms:].mean(axis=0)
        means, errors = of_atoms.mean(axis=0), of_atoms.std(axis=0, ddof=1) / len(samples) ** 0.5
        names = [DESCRIPTORS] if values is None else [each.name for each in self._inputs]
        ends = np.outer([0, 1], samples.mean(axis=0).sum(axis=0)) if values is None else values
        targets = {}
        for target, columns in zip(task.targets, task.columns(), strict=True):
            chosen = int(predicted[columns].argmax())
            column = columns.start + chosen
            is_class = target.kind != "regression" and values is not None
            targets[target.name] = Contributions(
                unit=unit_of(target, chosen),
                value=float(ends[-1, column]),
                probability=float(predicted[column]) if is_class else None,
                base=float(ends[0, column]),
                atoms=_of_atoms(means[:, column], form),
                errors=_of_atoms(errors[:, column], form),
                inputs=dict(zip(names, of_inputs[:, column].tolist(), strict=True)),
            )
        return targets, {scheme: _fragments(form, scheme, targets) for scheme in SCHEMES}


_NOT_FINITE = (
    "a prediction for a part of the molecule is not a finite number: the model's weights are "
    "damaged, or the molecule is too unlike the training molecules"
)


def _traced(text: str) -> Form:
    try:
        form = traced(text)
    except InvalidMolecule as error:
        return Unwritten(str(error))
    atoms = len(form.places)
    if atoms > MAX_ATOMS:
        return Unwritten(f"{atoms} atoms; molecules of at most {MAX_ATOMS} atoms are explained")
    return form


def _inputs_of(
    model: PropertyModel,
) -> tuple[dict[str, Callable[[str], Environments]], tuple[OtherInput, ...]]:
    """Return functions for the environments of fingerprints, and the other `Maskable.inputs`."""
    reads = model.inputs
    described = model.encoding.molecule_features + len(reads.descriptors)
    inputs, end = [], described
    for name, width in zip((*reads.names, *reads.predicted), reads.column_widths, strict=True):
        inputs.append(OtherInput(name, np.arange(end, end + width)))
        end += width
    if described:
        inputs.append(OtherInput(DESCRIPTORS, np.arange(described)))
    counts = (
        ("counts", reads.morgan, morgan_environments),
        ("pairs", reads.pairs, pair_environments),
    )
    return {name: find for name, width, find in counts if width}, tuple(inputs)


def _fragments(
    form: Traced, scheme: str, targets: Mapping[str, Contributions]
) -> list[FragmentContribution]:
    parts = []
    for part in fragments(form.smiles, scheme):
        places = form.places[[*part.atoms]]
        sums = {name: float(of.atoms[places].sum()) for name, of in targets.items()}
        parts.append(FragmentContribution(part.smiles, tuple(places.tolist()), sums))
    return parts


def _mean_of_equals(form: Traced) -> np.ndarray:  # float64 (N, N)
    """Return the matrix that averages numbers of atoms over symmetric atoms."""
    same = form.ranks[:, None] == form.ranks
    return same / same.sum(axis=1)


def _of_atoms(values: np.ndarray, form: Traced) -> np.ndarray:  # (N,) -> (size,)
    """Return values of atoms in the order of the given SMILES; 0 for hydrogens not read."""
    ordered = np.zeros(form.size)
    ordered[form.places] = values
    return ordered
