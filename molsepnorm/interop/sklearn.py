"""scikit-learn estimators for molecules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from molsepnorm.data.datasets.labels import whole
from molsepnorm.data.datasets.memory import GRAPH, kind_of, label_table
from molsepnorm.errors import ConfigError, DataError, counted, require_several
from molsepnorm.predict import Predictor
from molsepnorm.tasks.inputs import MISSING, require_same_order
from molsepnorm.tasks.metrics import each_class
from molsepnorm.training.fit import loaded, without_kind
from molsepnorm.training.run import train_on

if TYPE_CHECKING:
    from typing import Self

__all__ = ["GraphormerClassifier", "GraphormerRegressor"]

Molecules: TypeAlias = "Sequence[Any] | np.ndarray | pd.Series | pd.DataFrame"
"""G SMILES, RDKit molecules or `MolGraph`: a list, an array (G,) or (G, 1), a pandas Series, or a
DataFrame of one column and the `feature_columns`."""

_ON_INVALID = {"raise": "fail", "nan": "skip"}  # values of the setting data.on_invalid


@dataclass(kw_only=True, eq=False, repr=False)
class _Graphormer(BaseEstimator):
    start: str | None = None
    epochs: int | None = None
    feature_columns: Sequence[str] = ()
    overrides: Mapping[str, Any] | None = None
    validation_fraction: float = 0.1
    on_invalid: Literal["raise", "nan"] = "raise"
    random_state: int | np.random.RandomState | None = 0
    device: str = "cpu"
    processes: int = 1

    _split_type: ClassVar[str] = "random"

    def fit(
        self,
        X: Molecules,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Molecules | None = None,
        y_val: Any = None,
    ) -> Self:
        """Train on molecules and their labels.

        Args:
            X: G SMILES, RDKit molecules or `MolGraph`.
            y: (G,), or (G, T) for several targets: numbers, or two or more classes. NaN and None
                are missing labels.
            sample_weight: (G,) weights of the molecules in the loss. Molecules of X_val have the
                mean weight of the molecules of X that are read, have a label and a weight above 0.
            X_val, y_val: molecules that choose the shares of the model's parts, and their labels;
                by default drawn from X.
        """
        if self.on_invalid not in _ON_INVALID:
            raise ConfigError(f"on_invalid must be 'raise' or 'nan'; got {self.on_invalid!r}")
        if (X_val is None) != (y_val is None):
            raise ConfigError("X_val and y_val go together: pass both or neither")
        require_same_order(X=X, y=y, sample_weight=sample_weight)
        table = label_table(y)
        molecules, features = self._read(X, table)
        settings = self._learn(table)
        labels = self._encoded(table)
        if sample_weight is not None:
            sample_weight = np.ravel(sample_weight)  # without an index, like the labels
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        splits = None
        if X_val is None:
            settings |= self._split(len(molecules), seed)
        else:
            require_same_order(X_val=X_val, y_val=y_val)
            table = label_table(y_val, list(labels.columns))
            (others, more), count = self._read(X_val, table, "_val"), len(molecules)
            features = {n: np.concatenate([cells, more[n]]) for n, cells in features.items()}
            splits = {"train": range(count), "val": range(count, count + len(others))}
            if sample_weight is not None:
                sample_weight = np.concatenate([sample_weight, np.ones(len(others))])
            molecules += others
            labels = pd.concat([labels, self._encoded(table)], ignore_index=True)
        config, dataset = loaded(
            molecules,
            labels,
            features=features or None,
            weights=sample_weight,
            splits=splits,
            overrides={
                "run.seed": seed,
                "run.device": self.device,
                "data.on_invalid": _ON_INVALID[self.on_invalid],
                **({} if self.start is None else {"finetune.start": self.start}),
                **({} if self.epochs is None else {"run.epochs": self.epochs}),
                **settings,
                **(self.overrides or {}),
            },
        )
        if splits is not None and dataset.weights is not None:
            of_train = dataset.weights[dataset.splits["train"]]
            mean = of_train.sum() / max(np.count_nonzero(of_train), 1)
            dataset.weights[dataset.splits["val"]] = mean
        result = train_on(config, dataset)
        assert result.model is not None
        self.model_ = result.model
        return self

    def _read(
        self, X: Molecules, labels: pd.DataFrame | None = None, suffix: str = ""
    ) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Return the molecules, and the cells of each feature column."""
        names = {declared: without_kind(declared) for declared in self.feature_columns}
        if not names:
            return _listed(X, labels, suffix), {}
        if not isinstance(X, pd.DataFrame) or {*names.values()} - {*X.columns}:
            raise ConfigError(
                f"X{suffix} must be a DataFrame with a column of molecules and the "
                f"feature_columns {', '.join(names.values())}"
            )
        others = X.drop(columns=[*names.values()])
        mixtures = [name for each, name in names.items() if each == f"{name}:molecule"]
        molecules = _listed(others if len(others.columns) else X[mixtures], labels, suffix)
        return molecules, {declared: X[name].to_numpy() for declared, name in names.items()}

    def _learn(self, table: pd.DataFrame) -> dict[str, Any]:
        """Keep what reading the labels needs, and return the settings that describe them."""
        raise NotImplementedError

    def _encoded(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return numbers, or the names of classes; 0 and 1 if there are two."""
        raise NotImplementedError

    def _split(self, molecules: int, seed: int) -> dict[str, Any]:
        """Return the settings of a split without test molecules."""
        if not 0 < self.validation_fraction < 1:
            raise ConfigError(
                f"validation_fraction must be between 0 and 1; got {self.validation_fraction}"
            )
        count = max(1, round(self.validation_fraction * molecules))
        if molecules - count < 2:
            raise DataError(
                f"X has {counted(molecules, 'molecule')}, too few: training needs 2 and validation "
                f"{count}. Pass more, or X_val and y_val"
            )
        return {
            "data.split": [1 - count / molecules, count / molecules, 0.0],
            "data.split_type": self._split_type,
            "data.split_seed": seed,
        }

    def _predicted(self, X: Molecules) -> pd.DataFrame:
        """Return the prediction columns; an invalid molecule has NaN, or raises a `DataError`."""
        check_is_fitted(self, "model_")
        listed, features = self._read(X)
        predictor = Predictor(self.model_, self.device, self.processes)
        if listed and kind_of(listed) == GRAPH:
            tables = self.model_.task.tables(predictor.predict_graphs(listed))
            return pd.concat(map(pd.DataFrame, tables), axis=1)
        columns = {without_kind(name): cells for name, cells in features.items()}
        table = predictor.to_frame(listed, columns or None)
        failed = np.flatnonzero(table["error"].notna())
        if self.on_invalid == "raise" and len(failed):
            raise DataError(
                f"molecule {failed[0]}: {table['error'].iloc[failed[0]]}. Fix or remove it, or set "
                "on_invalid='nan' to have NaN for such molecules"
            )
        return table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.multi_output = True
        tags.no_validation = True
        return tags


_PARAMETERS = """
    Training starts from a pre-trained model that comes with molsepnorm. As in `molsepnorm train`,
    the network is averaged with a random forest if the training molecules are SMILES or RDKit
    molecules; the model then predicts no graphs. The molecules that choose the shares of the parts
    are passed to `fit` (X_val), or drawn from X: rows of the same molecule stay together, and
    classes have equal shares in both parts. No molecules are held out for a test.

    Args:
        start: name or folder of the model to start from, "none" for random weights.
        epochs: number of epochs; None for 15, or 5 for classes. 0 fits a kernel regression and a
            random forest only.
        feature_columns: columns of X that are inputs, such as "temperature:number" or
            "solvent:molecule"; X is then a DataFrame that has one more column, the molecules.
        overrides: settings by their dotted names, as in `molsepnorm.fit`; they take precedence.
        validation_fraction: share of the molecules that choose the shares of the model's parts.
        on_invalid: "raise" for an error about an invalid molecule, "nan" to leave it out in `fit`
            and predict NaN for it.
        random_state: seed of the split, the order of the batches and the new weights.
        device, processes: as in `Predictor`.

    Attributes:
        model_: the trained `PropertyModel`."""


class GraphormerRegressor(RegressorMixin, _Graphormer):
    """Predicts numbers from molecules."""

    def _learn(self, table: pd.DataFrame) -> dict[str, Any]:
        self.n_outputs_ = table.shape[1]
        return {"data.task_type": "regression"}

    def _encoded(self, table: pd.DataFrame) -> pd.DataFrame:
        try:
            return table.astype(np.float64)
        except (TypeError, ValueError):
            raise ConfigError(
                "y has values that are not numbers: GraphormerClassifier is for classes"
            ) from None

    def predict(self, X: Molecules) -> np.ndarray:
        """Return float64 (G,), or (G, T) for T targets; NaN where `on_invalid` is "nan" and a
        molecule is invalid."""
        table = self._predicted(X)
        columns = [target.prediction_column for target in self.model_.task.targets]
        values = table[columns].to_numpy(dtype=np.float64)
        return values[:, 0] if self.n_outputs_ == 1 else values


class GraphormerClassifier(ClassifierMixin, _Graphormer):
    """Predicts classes from molecules.

    `classes_` holds the sorted classes; for several targets it is a list of arrays.
    """

    _split_type = "stratified"
    classes_: np.ndarray | list[np.ndarray]

    def _learn(self, table: pd.DataFrame) -> dict[str, Any]:
        known = [_classes(table[name], name) for name in table]
        self.classes_ = known[0] if len(known) == 1 else known
        self._codes = {
            name: dict(zip(classes.tolist(), _names_of_classes(classes), strict=True))
            for name, classes in zip(table, known, strict=True)
        }
        several = {n: [*codes.values()] for n, codes in self._codes.items() if len(codes) > 2}
        kinds = {name: "multiclass" if name in several else "binary" for name in self._codes}
        return {"data.task_type": kinds, "data.classes": several}

    def _encoded(self, table: pd.DataFrame) -> pd.DataFrame:
        columns = {}
        for name, codes in self._codes.items():
            if new := sorted({*table[name].dropna().tolist()} - codes.keys(), key=str):
                raise DataError(f"target '{name}': the class {new[0]} of y_val is not in y")
            kind = float if len(codes) == 2 else object
            columns[name] = table[name].map(codes).astype(kind)
        return pd.DataFrame(columns)

    def predict_proba(self, X: Molecules) -> np.ndarray | list[np.ndarray]:
        """Return probabilities, float64 (G, K), in a list for several targets; NaN as in
        `predict`."""
        table = self._predicted(X)
        names = [target.output_columns for target in self.model_.task.targets]
        by_target = [each_class(table[each].to_numpy(dtype=np.float64)) for each in names]
        return by_target[0] if len(by_target) == 1 else by_target

    def predict(self, X: Molecules) -> np.ndarray:
        """Return the most probable class, (G,), or (G, T) for T targets. Where `on_invalid` is
        "nan" and a molecule is invalid, it is NaN, in an array of floats or objects."""
        probabilities = self.predict_proba(X)
        if isinstance(probabilities, np.ndarray):
            return _chosen(probabilities, np.asarray(self.classes_))
        return np.stack([*map(_chosen, probabilities, self.classes_)], axis=1)


for _kind in (GraphormerRegressor, GraphormerClassifier):
    _kind.__doc__ = f"{_kind.__doc__}\n{_PARAMETERS}\n"


def _listed(X: Molecules, labels: pd.DataFrame | None = None, suffix: str = "") -> list[Any]:
    """Return a list of SMILES or `MolGraph`, "" for missing ones, with one for each label."""
    from molsepnorm.molecules.featurize.sdf import written

    if isinstance(X, (pd.DataFrame, np.ndarray)):
        if X.ndim > 1 and (X.ndim > 2 or X.shape[1] != 1):
            raise ConfigError(
                f"X{suffix} must hold one molecule for each row, in an array (G,) or (G, 1) or a "
                f"list; got an array {X.shape}"
            )
        X = np.asarray(X).ravel().tolist()
    require_several(X, f"X{suffix}")
    molecules = ["" if pd.isna(each) is True else written(each) for each in X]
    if labels is not None and len(molecules) != len(labels):
        raise ConfigError(
            f"X{suffix} has {len(molecules):,} molecules, and y{suffix} has {len(labels):,} rows"
        )
    return molecules


def _classes(column: pd.Series, name: str) -> np.ndarray:
    classes = np.unique(column[column.notna()].to_numpy())
    if len(classes) < 2:
        raise DataError(
            f"target '{name}' has {counted(len(classes), 'class')}; two or more are needed"
        )
    return classes


def _names_of_classes(classes: np.ndarray) -> list[Any]:
    """Return 0 and 1 for two classes, or the names of more in the model: their texts, or numbers
    from 0 if a text would be read as blank or two of them as equal."""
    if len(classes) == 2:
        return [0.0, 1.0]
    names = pd.Series([str(name).strip() for name in classes.tolist()], dtype=object)
    if names.isin(MISSING).any() or whole(names).nunique() < len(names):
        return [str(number) for number in range(len(names))]
    return names.tolist()


def _chosen(probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
    valid = np.isfinite(probabilities).all(axis=1)
    chosen = classes[np.where(valid[:, None], probabilities, 0.0).argmax(axis=1)]
    if valid.all():
        return chosen
    chosen = chosen.astype(float if chosen.dtype.kind in "biuf" else object)
    chosen[~valid] = np.nan
    return chosen
