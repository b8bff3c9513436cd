"""`suggest`: choose the molecules to make or measure next.

The value of a candidate is the expected improvement of one number, the probability that numbers are
between thresholds and classes are the wanted ones, or the product of both. Errors are taken as
normal, with the calibrated standard deviation of each prediction, and as independent between
targets.

Source: Jones, Schonlau and Welch, J. Global Optim. 1998, 13, 455 (expected improvement); Gardner et
al., "Bayesian optimization with inequality constraints", ICML 2014 (the product); Carbonell and
Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998 (a batch that is diverse).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import ndtr

from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.model import PropertyModel
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import morgan_matrix, tanimoto
from molsepnorm.molecules.featurize.standardize import molecule_key, standardized
from molsepnorm.predict.output import open_table
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.tables import ERROR, TableRows, cells
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.calibration import ClassSets
from molsepnorm.tasks.inputs import cell_text
from molsepnorm.tasks.transforms import Transform

_ADDED = ("acquisition", "batch_similarity", "reason")
_POOL = 4000  # candidates that are kept for the choice, by each of two rankings
_SIGNS = {"max": 1, "min": -1}

Texts: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Goal:
    """What the value of a target should be; numbers are on the scale that is learned."""

    target: int  # index of the target
    low: float = -inf  # thresholds
    high: float = inf
    sign: int = 0  # 1 if the number should be as large as possible, -1 if as small as possible
    best: float | None = None  # what to improve on; None for the best label of training molecules
    label: int | None = None  # index of the wanted class; None for a number

    def holds(self, labels: np.ndarray, bounds: np.ndarray) -> np.ndarray:  # bool (n,)
        """Return whether the measured labels of molecules, (n, T) with their bounds (n, T), are
        known to fulfil the goal. Any number can be improved on."""
        own, signs = labels[:, self.target], bounds[:, self.target]
        if self.label is not None:
            return np.asarray(own == self.label)
        above = (own >= self.low) & ((signs >= 0) | (self.low == -inf))
        below = (own <= self.high) & ((signs <= 0) | (self.high == inf))
        return np.asarray(above & below & (signs * self.sign >= 0))

    def formula(self, target: Target) -> str:
        name = target.learned_name
        if self.label is not None:
            return f"P({target.name} is {target.class_names[self.label]})"
        if self.sign:
            return f"E(improvement on {name} {'>' if self.sign > 0 else '<'} {self.best:.4g})"
        low = f"{self.low:.4g} < " if self.low > -inf else ""
        return f"P({low}{name}{f' < {self.high:.4g}' if self.high < inf else ''})"


def parse_goals(
    task: Task, goals: Texts, minimum: Texts, maximum: Texts, over: float | None = None
) -> tuple[Goal, ...]:
    """Return the goals of a choice; wrong ones are a `ConfigError`.

    Args:
        goals: by name max or min of one number at most, or a class.
        minimum, maximum: thresholds by name.
            Names are those of targets or of learned values, such as ic50_nM_pic50.
        over: the number to improve on; by default the best label of the training molecules.
    """
    made: dict[int, Goal] = {}
    given = [(name, text, 0) for name, text in goals.items()]
    given += [(name, text, 1) for name, text in minimum.items()]
    given += [(name, text, -1) for name, text in maximum.items()]
    for name, text, end in given:
        index, target, transform = _find(task, name)
        turn, goal = transform.sign if transform else 1, made.get(index, Goal(index))
        if target.kind != "regression":
            classes = {name: number for number, name in enumerate(target.class_names)}
            if target.kind == "binary":
                classes = {"min": 0, "max": 1, **classes}
            if end:
                raise ConfigError(
                    f"'{name}' has classes, and a threshold needs a number: give the wanted class, "
                    f"such as --goal {name}={target.class_names[-1]}"
                )
            if text not in classes:
                raise ConfigError(
                    f"the goal of '{name}' is one of its classes, such as --goal "
                    f"{name}={target.class_names[-1]}; got {text}. {did_you_mean(text, classes)}"
                )
            goal = Goal(index, label=classes[text])
        elif end:
            value = _learned(name, transform, text)
            goal = replace(goal, low=value) if end * turn > 0 else replace(goal, high=value)
        elif text in _SIGNS:
            best = None if over is None else _learned(name, transform, over)
            goal = Goal(index, sign=_SIGNS[text] * turn, best=best)
        else:
            more = "A threshold is a --minimum or --maximum"
            raise ConfigError(f"the goal of '{name}' is max or min; got '{text}'. {more}")
        if goal.low >= goal.high or (goal.sign and (goal.low > -inf or goal.high < inf)):
            raise ConfigError(
                f"'{name}' cannot have both: a goal and a threshold (--over is what to improve "
                "on), or a minimum that is not below the maximum"
            )
        made[index] = goal
    improved = [task.names[goal.target] for goal in made.values() if goal.sign]
    if len(improved) > 1 or (over is not None and not improved) or not made:
        raise ConfigError(
            "say what to look for: --goal NAME=max or min for one number, with --over what to "
            "improve on; thresholds for others, such as --minimum NAME=VALUE; --goal NAME=CLASS. "
            f"Targets: {', '.join(task.names)}"
        )
    return tuple(made.values())


def _find(task: Task, name: str) -> tuple[int, Target, Transform | None]:
    """Return a target and its index, and the transform if this is the name in the table."""
    for index, target in enumerate(task.targets):
        if name in (target.name, target.learned_name):
            return index, target, target.transformation if name == target.name else None
    known = {name for target in task.targets for name in (target.name, target.learned_name)}
    raise ConfigError(f"there is no target '{name}'. {did_you_mean(name, known)}")


def _learned(name: str, transform: Transform | None, text: float | str) -> float:
    value = np.array([np.nan])
    with suppress(ValueError), np.errstate(all="ignore"):
        value[0] = float(text)
        value = value if transform is None else transform.forward(value)
    if not np.isfinite(value[0]):
        above = "" if transform is None else " above 0"
        raise ConfigError(f"the value for '{name}' must be a number{above}; got {text}")
    return float(value[0])


def expected_improvement(gain: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Return the mean of max(0, x) for normal x with the mean `gain` and the standard deviation
    `sd` (n,): gain Φ(gain / sd) + sd φ(gain / sd)."""
    z = gain / sd
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.maximum(gain * ndtr(z) + sd * density, 0.0)


@dataclass(frozen=True)
class Acquisition:
    """The value of candidates. Its text is the formula, E(improvement on y > 7.2) × P(-4 < z)."""

    model: PropertyModel
    goals: tuple[Goal, ...]

    @staticmethod
    def of(model: PropertyModel, goals: Sequence[Goal]) -> Acquisition:
        """Take the number to improve on from the training molecules that fulfil all goals.

        If none fulfils the others, the value is the probability that a candidate does (Gelbart,
        Snoek and Adams, "Bayesian optimization with unknown constraints", UAI 2014).
        """
        known = model.training_molecules().filled()
        labels, bounds = known.labels, known.bounds
        for i, target in enumerate(model.task.targets):
            if (transform := target.transformation) is not None:
                labels[:, i] = transform.forward(labels[:, i])
                bounds[:, i] *= transform.sign
        good = np.logical_and.reduce([goal.holds(labels, bounds) for goal in goals])
        completed = []
        for goal in goals:
            if goal.sign and goal.best is None and good.any():
                best = goal.sign * np.max(goal.sign * labels[good, goal.target])
                goal = replace(goal, best=float(best))
            if not goal.sign or goal.best is not None:
                completed.append(goal)
        if not completed:
            raise ConfigError("no training molecule has a label to improve on: give one by --over")
        return Acquisition(model, tuple(completed))

    @property
    def name(self) -> str:
        return "expected improvement" if any(g.sign for g in self.goals) else "probability"

    def __str__(self) -> str:
        targets = self.model.task.targets
        return " × ".join(goal.formula(targets[goal.target]) for goal in self.goals)

    def __call__(self, table: pd.DataFrame) -> np.ndarray:  # float64 (n,)
        """Return the values from the columns of `Predictor.predicted` with a level."""
        total = np.ones(len(table))
        for goal in self.goals:
            target = self.model.task.targets[goal.target]
            calibration = self.model.calibration[goal.target]
            values = table[target.output_columns].to_numpy(np.float64)
            if isinstance(calibration, ClassSets):
                total *= calibration.probabilities(values)[:, goal.label]
                continue
            mean, sd = values[:, 0], table[f"{target.learned_name}_std"].to_numpy(np.float64)
            if goal.sign:
                total *= expected_improvement(goal.sign * (mean - goal.best), sd)
            else:
                low, high = (goal.low - mean) / sd, (goal.high - mean) / sd
                is_far = low > 0  # the difference of two numbers near 1 would not be exact
                total *= np.where(is_far, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return total


def choose(
    value: np.ndarray,
    known: np.ndarray,
    smiles: Sequence[str],
    count: int,
    exploit: float,
    name: str = "value",
    sd: np.ndarray | None = None,
) -> pd.DataFrame:
    """Choose candidates one by one, each with the largest
    exploit × value / largest value + (1 − exploit) × (1 − similarity),
    where the Tanimoto similarity is that to the nearest training molecule or chosen candidate.

    Args:
        value: (n,), 0 or more.
        known: (n,), similarity to the nearest training molecule.
        smiles: n SMILES, standardised as for the model.
        exploit: 1 ranks by the value alone, 0 by the dissimilarity alone.
        name, sd: name of the value, and standard deviations (n,), for the reasons.

    Returns:
        A table in the order of choice: `row`, `batch_similarity` to the nearest candidate that was
        chosen before (NaN for the first), and `reason`. If all values are 0, a `DataError`.
    """
    largest = value.max(initial=0.0)
    if len(value) and exploit and not largest > 0:
        raise DataError(
            f"the {name} of every candidate is 0: no prediction comes near the goal. Choose an "
            "easier goal (--over, --minimum, --maximum), or other candidates"
        )
    chosen: list[tuple[int, float, str]] = []
    prints, batch = morgan_matrix(smiles), np.full(len(value), np.nan)
    left = np.ones(len(value), dtype=bool)
    score = value / (largest or 1.0)
    for _ in range(min(count, len(value))):
        worth = exploit * score + (1 - exploit) * (1 - np.fmax(known, batch))
        row, best = (int(np.where(left, each, -inf).argmax()) for each in (worth, score))
        reason = f"highest {name}{' of the rest' if chosen else ''}"
        if score[row] < score[best]:
            unlike = "batch so far" if batch[best] > known[best] else "training molecules"
            uncertain = sd is not None and sd[row] > sd[best]
            reason = f"{'uncertain and ' if uncertain else ''}unlike the {unlike}"
        chosen.append((row, float(batch[row]), reason))
        left[row] = False
        batch = np.fmax(batch, tanimoto(prints[row], prints)[0])
    return pd.DataFrame(chosen, columns=["row", "batch_similarity", "reason"])


class Suggested(NamedTuple):
    """What `suggest` did."""

    ranked_by: str  # the formula of the value
    rows: int  # candidates in the table
    chosen: int
    measured: int  # candidates with a training label for every goal, which are left out
    failed: int  # rows that cannot be predicted
    rejected: Path  # the file with these rows


def suggest(
    predictor: Predictor,
    table: TableRows,
    output: Path,
    *,
    goals: Sequence[Goal],
    count: int = 96,
    exploit: float = 0.7,
) -> Suggested:
    """Choose candidates of a table, and write them in the order of choice.

    The output has the column `rank`, all columns of the table, those of `Predictor.columns`,
    `acquisition` (the value), `batch_similarity` and `reason`, see `choose`. Each molecule is
    chosen once. Rows that cannot be predicted are in another file, batch-rejected.csv for
    batch.csv, with the reason in the column `error`.

    Memory does not grow with the table: only the 4,000 candidates with the largest values and the
    4,000 that are least similar to the training molecules can be chosen.

    Args:
        predictor: with a level and the domain.
        goals, count, exploit: see `parse_goals` and `choose`.

    Raises:
        ConfigError: the predictor has no level or no domain, a column is missing or has the name of
            a column that is added, or there is no label to improve on.
        DataError: no candidate comes near the goals, or a row failed (see `TableRows`).
        StorageError: a file cannot be written.
    """
    model, level = predictor.model, predictor.model.standardize
    if predictor.level is None or not predictor.domain or not 0 <= exploit <= 1 or count < 1:
        raise ConfigError(
            "suggest needs Predictor(…, level=0.9, domain=True), exploit from 0 to 1 and a count"
        )
    value, known = Acquisition.of(model, goals), model.training_molecules().filled()
    labels = known.labels[:, [goal.target for goal in goals]]
    measured = known.some(np.flatnonzero(np.isfinite(labels).all(axis=1)))
    columns = predictor.columns
    table.check(model.inputs.names, ["rank", *columns, *_ADDED, ERROR])
    place, header = table.smiles_place, table.header
    rejected = output.with_name(f"{output.name.split('.')[0]}-rejected{''.join(output.suffixes)}")
    pool, left_out = pd.DataFrame(), 0
    with open_table(rejected, [*header, ERROR], place) as reject:
        for rows, part in predictor.predicted(iter(table)):
            kept = [table.kept(*each) for each in zip(rows, part[ERROR], strict=True)]
            for row in np.flatnonzero(part[ERROR].notna()):
                reject([*kept[row], part[ERROR][row]])
            inputs = [row[:-2] for row in rows]
            part = part.assign(acquisition=value(part), cells=kept, inputs=inputs)
            part = part[part[ERROR].isna()]
            new = _keyed(part, model, measured)
            left_out += len(part) - len(new)
            pool = pd.concat([pool, new], ignore_index=True).drop_duplicates("key")
            best = pool["acquisition"].nlargest(_POOL).index
            pool = pool.loc[best.union(pool["similarity"].nsmallest(_POOL).index)]
    arrays = {name: column.to_numpy() for name, column in pool.items()}
    smiles = standardized([row[0] for row in pool["inputs"]], level)
    improved = [model.task.targets[goal.target] for goal in value.goals if goal.sign]
    sd = arrays[f"{improved[0].learned_name}_std"] if improved else None
    values = arrays["acquisition"], arrays["similarity"]
    choices = choose(*values, smiles, count, exploit, value.name, sd)
    taken = pool.iloc[choices["row"].astype(int)].reset_index(drop=True).join(choices)
    numbers = {name for name, dtype in columns.items() if dtype.kind == "f"}
    names = ["rank", *header, *columns, *_ADDED]
    with open_table(output, names, place + 1, {"rank", *numbers, *_ADDED[:2]}) as write:
        texts = cells(taken[[*columns, *_ADDED]], model.task.digits)
        for rank, (own, added) in enumerate(zip(taken["cells"], texts, strict=True), start=1):
            write([str(rank), *own, *added])
    return Suggested(str(value), table.rows, len(taken), left_out, table.failed, rejected)


def _keyed(part: pd.DataFrame, model: PropertyModel, measured: TrainingMolecules) -> pd.DataFrame:
    """Return the rows that are no measured molecules, or no measured rows if the model reads
    further molecules, with a text that is the same for all rows of a molecule and its feature
    columns."""
    inputs, level = part["inputs"], model.standardize
    keys = [molecule_key(str(row[0]), level) for row in inputs]
    columns = {
        name: [cell_text(row[place]) for row in inputs]
        for place, name in enumerate(model.inputs.names, start=1)
    }
    for name in measured.further:
        assert model.molecules is not None
        columns[name] = model.molecules.keys(name, columns[name])
    rows = zip(part["nearest_smiles"], *map(columns.get, measured.further), strict=True)
    new = [
        similarity < 1 or row not in measured.rows or key != molecule_key(row[0], level)
        for key, similarity, row in zip(keys, part["similarity"], rows, strict=True)
    ]
    texts = [*map(repr, zip(keys, *columns.values(), strict=True))]
    return part.assign(key=texts)[np.array(new, dtype=bool)]
