"""scikit-learn's estimators: `GraphormerRegressor` and `GraphormerClassifier` on molecules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from molsepnorm.data.datasets.labels import whole
from molsepnorm.data.datasets.memory import GRAPH, kind_of, label_table
from molsepnorm.errors import ConfigError, DataError, counted, require_several
from molsepnorm.model import PropertyModel
from molsepnorm.predict import Predictor
from molsepnorm.tasks.inputs import MISSING, require_same_order
from molsepnorm.training.fit import loaded
from molsepnorm.training.run import train_on

__all__ = ["GraphormerClassifier", "GraphormerRegressor"]

Molecules: TypeAlias = "Sequence[Any] | np.ndarray | pd.Series | pd.DataFrame"
"""G SMILES, RDKit molecules or `MolGraph`: a list, an array (G,) or (G, 1), a pandas Series, or a
DataFrame of one column."""

_MAX_SEED = 2**31 - 1
_ON_INVALID = {"raise": "fail", "nan": "skip"}
"""The setting `data.on_invalid` for each value of `on_invalid`."""


class _Graphormer(BaseEstimator):
    """Parameters and training of both estimators."""

    model_: PropertyModel
    _split_type: ClassVar[str] = "random"

    def __init__(
        self,
        *,
        start: str | None = None,
        epochs: int | None = None,
        overrides: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.1,
        on_invalid: Literal["raise", "nan"] = "raise",
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
        processes: int = 1,
    ) -> None:
        self.start = start
        self.epochs = epochs
        self.overrides = overrides
        self.validation_fraction = validation_fraction
        self.on_invalid = on_invalid
        self.random_state = random_state
        self.device = device
        self.processes = processes

    def _fit(
        self,
        molecules: list[Any],
        labels: pd.DataFrame,
        settings: dict[str, Any],
        sample_weight: Any,
        validation: tuple[list[Any], pd.DataFrame] | None,
    ) -> None:
        """Train on numbers or names of classes; without `validation`, molecules are drawn for
        it."""
        if self.on_invalid not in _ON_INVALID:
            raise ConfigError(f"on_invalid must be 'raise' or 'nan'; got {self.on_invalid!r}")
        if sample_weight is not None:
            sample_weight = np.ravel(sample_weight)  # without an index, as the labels are by now
        if len(molecules) != len(labels):
            raise ConfigError(f"X has {len(molecules):,} molecules, and y has {len(labels):,} rows")
        seed = int(check_random_state(self.random_state).randint(_MAX_SEED))
        splits = None
        if validation is None:
            settings = {**settings, **self._split(len(molecules), seed)}
        else:
            others, table = validation
            both = len(molecules) + len(others)
            splits = {"train": range(len(molecules)), "val": range(len(molecules), both)}
            if sample_weight is not None:
                sample_weight = np.concatenate([sample_weight, np.ones(len(others))])
            molecules = molecules + others
            labels = pd.concat([labels, table], ignore_index=True)
        config, dataset = loaded(
            molecules,
            labels,
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
        if validation is not None and dataset.weights is not None:
            of_train = dataset.weights[dataset.splits["train"]]
            mean = of_train.sum() / max(np.count_nonzero(of_train), 1)
            dataset.weights[dataset.splits["val"]] = mean
        result = train_on(config, dataset)
        assert result.model is not None
        self.model_ = result.model

    def _split(self, molecules: int, seed: int) -> dict[str, Any]:
        """Return the settings that draw the validation molecules and no test molecules."""
        if not 0 < self.validation_fraction < 1:
            raise ConfigError(
                "validation_fraction is the share of the molecules that choose the epoch, between "
                f"0 and 1; got {self.validation_fraction}"
            )
        count = max(1, round(self.validation_fraction * molecules))
        if molecules - count < 2:
            raise DataError(
                f"{molecules} molecules are too few: training needs 2 and validation {count}. Pass "
                "more, or X_val and y_val"
            )
        shares = [1 - count / molecules, count / molecules, 0.0]
        draw = {"data.split_type": self._split_type, "data.split_seed": seed}
        return {"data.split": shares, **draw}

    def _predicted(self, X: Molecules) -> pd.DataFrame:
        """Return the columns of all targets; NaN, or a `DataError`, for an invalid molecule."""
        check_is_fitted(self, "model_")
        listed = _listed(X)
        predictor = Predictor(self.model_, self.device, self.processes)
        if listed and kind_of(listed) == GRAPH:
            tables = self.model_.task.tables(predictor.predict_graphs(listed))
            return pd.concat(map(pd.DataFrame, tables), axis=1)
        table = predictor.to_frame(listed)
        if self.on_invalid == "raise":
            for row, error in enumerate(table["error"]):
                if error is not None:
                    raise DataError(
                        f"molecule {row}: {error}. Fix or remove it, or set on_invalid='nan' to "
                        "have NaN for such molecules"
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
    the network is averaged with a random forest if its training molecules are SMILES or RDKit's
    molecules; it then predicts these, but no graphs. The molecules that choose the epoch and the
    share of the forest are passed to `fit` (X_val), or drawn from X: rows of the same molecule stay
    together, and classes have equal shares in both parts. Nothing is held out for a test, which is
    left to scikit-learn's tools.

    Args:
        start: name or folder of the model to start from, "none" for random weights; None for the
            default.
        epochs: number of epochs; None for the default of the size of the table, 0 for the probe
            without training.
        overrides: settings by their dotted names, as in `molsepnorm.fit`; they take precedence.
        validation_fraction: share of the molecules that choose the epoch.
        on_invalid: "raise" an error for a molecule that cannot be read, or leave it out in `fit`
            and predict NaN for it.
        random_state: seed of the split, the order of the batches and the new weights.
        device: as in `Predictor`.
        processes: processes of `predict`.

    Attributes:
        model_: the trained `PropertyModel`."""


def _documented(kind: type) -> type:
    kind.__doc__ = f"{kind.__doc__}\n{_PARAMETERS}\n"
    return kind


@_documented
class GraphormerRegressor(RegressorMixin, _Graphormer):
    """Predicts numbers from molecules.

    >>> from molsepnorm.interop.sklearn import GraphormerRegressor
    >>> smiles = ["C" * n + end for n in range(1, 9) for end in ("O", "N", "Cl")]
    >>> model = GraphormerRegressor(epochs=0).fit(smiles, [len(text) / 10 for text in smiles])
    >>> model.predict(["CCCCO", "CCN"]).shape
    (2,)
    """

    def fit(
        self,
        X: Molecules,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Molecules | None = None,
        y_val: Any = None,
    ) -> GraphormerRegressor:
        """Train on molecules and their labels, float (G,) or (G, T); NaN is a missing label.

        Args:
            X: see `Molecules`.
            y: the labels.
            sample_weight: (G,) weights of the molecules in the loss. Molecules of X_val have the
                mean weight of the molecules of X that are read, have a label and a weight above 0.
            X_val, y_val: molecules that choose the epoch, and their labels; drawn from X if None.
        """
        require_same_order(X=X, y=y, sample_weight=sample_weight)
        molecules, labels = _listed(X), _numbers(y)
        validation = _validation(X_val, y_val, lambda other: _numbers(other, labels.columns))
        settings = {"data.task_type": "regression"}
        self._fit(molecules, labels, settings, sample_weight, validation)
        self.n_outputs_ = labels.shape[1]
        return self

    def predict(self, X: Molecules) -> np.ndarray:
        """Return float64 (G,), or (G, T) for T targets; NaN where `on_invalid` is "nan" and a
        molecule is invalid."""
        columns = [target.prediction_column for target in self.model_.task.targets]
        found = self._predicted(X)[columns].to_numpy(dtype=np.float64)
        return found[:, 0] if self.n_outputs_ == 1 else found


@_documented
class GraphormerClassifier(ClassifierMixin, _Graphormer):
    """Predicts classes from molecules."""

    _split_type = "stratified"
    classes_: np.ndarray | list[np.ndarray]

    def fit(
        self,
        X: Molecules,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Molecules | None = None,
        y_val: Any = None,
    ) -> GraphormerClassifier:
        """Train on molecules and their classes.

        Args:
            X: see `Molecules`.
            y: (G,) two or more classes, or (G, T) of several targets, in which NaN and None are
                missing labels. `classes_` holds the classes in sorted order, in a list with an
                array for each target if there are several.
            sample_weight, X_val, y_val: as for `GraphormerRegressor.fit`.
        """
        require_same_order(X=X, y=y, sample_weight=sample_weight)
        molecules, table = _listed(X), label_table(y)
        found = [_classes(table[name], name) for name in table]
        words = [_names_of_classes(each) for each in found]
        settings = {
            "data.task_type": {
                name: "binary" if len(each) == 2 else "multiclass"
                for name, each in zip(table, found, strict=True)
            },
            "data.classes": {
                name: each for name, each in zip(table, words, strict=True) if len(each) > 2
            },
        }

        def encode(other: Any) -> pd.DataFrame:
            labels = label_table(other, None if other is y else list(table.columns))
            return pd.DataFrame(
                {
                    name: _encoded(labels[name], name, each, own)
                    for name, each, own in zip(table, found, words, strict=True)
                }
            )

        validation = _validation(X_val, y_val, encode)
        self._fit(molecules, encode(y), settings, sample_weight, validation)
        self.classes_ = found[0] if len(found) == 1 else found
        return self

    def predict_proba(self, X: Molecules) -> np.ndarray | list[np.ndarray]:
        """Return probabilities, float64 (G, K), in a list for several targets; NaN as in
        `predict`."""
        table = self._predicted(X)
        parts = [
            table[target.output_columns].to_numpy(dtype=np.float64)
            for target in self.model_.task.targets
        ]
        found = [
            np.concatenate([1 - each, each], axis=1) if each.shape[1] == 1 else each
            for each in parts
        ]
        return found[0] if len(found) == 1 else found

    def predict(self, X: Molecules) -> np.ndarray:
        """Return the most probable class, (G,), or (G, T) for T targets. Where `on_invalid` is
        "nan" and a molecule is invalid, it is NaN, in an array of floats or objects."""
        probabilities = self.predict_proba(X)
        if isinstance(probabilities, np.ndarray):
            return _chosen(probabilities, np.asarray(self.classes_))
        pairs = zip(probabilities, self.classes_, strict=True)
        return np.stack([_chosen(each, classes) for each, classes in pairs], axis=1)


def _listed(X: Molecules) -> list[Any]:
    """Return molecules as a list of SMILES or `MolGraph`, with "" for missing ones; a `ConfigError`
    for another shape."""
    from molsepnorm.molecules.featurize.sdf import written

    if isinstance(X, (pd.DataFrame, np.ndarray)):
        if X.ndim > 1 and (X.ndim > 2 or X.shape[1] != 1):
            raise ConfigError(
                "X must hold one molecule for each row, such as a list of SMILES or an array (G,) "
                f"or (G, 1); got an array {X.shape}"
            )
        X = np.asarray(X).ravel().tolist()
    require_several(X, "X")
    return ["" if pd.isna(each) is True else written(each) for each in X]


def _numbers(y: Any, targets: Sequence[str] | None = None) -> pd.DataFrame:
    table = label_table(y, None if targets is None else list(targets))
    try:
        return table.astype(np.float64)
    except (TypeError, ValueError):
        raise ConfigError(
            "y has values that are not numbers: GraphormerClassifier is for classes"
        ) from None


def _validation(
    X_val: Molecules | None, y_val: Any, labels: Callable[[Any], pd.DataFrame]
) -> tuple[list[Any], pd.DataFrame] | None:
    if (X_val is None) != (y_val is None):
        raise ConfigError("X_val and y_val go together: pass both or neither")
    if X_val is None:
        return None
    require_same_order(X_val=X_val, y_val=y_val)
    molecules, table = _listed(X_val), labels(y_val)
    if len(molecules) != len(table):
        raise ConfigError(
            f"X_val has {len(molecules):,} molecules, and y_val has {len(table):,} rows"
        )
    return molecules, table


def _classes(column: pd.Series, name: str) -> np.ndarray:
    found = np.unique(column[column.notna()].to_numpy())
    if len(found) < 2:
        raise DataError(
            f"target '{name}' has {counted(len(found), 'class')}; two or more are needed"
        )
    return found


def _names_of_classes(classes: np.ndarray) -> list[str]:
    """Return the names of the classes in the model: their texts, or numbers from 0 on if a text
    would be read as blank or two of them as equal."""
    names = pd.Series([str(each).strip() for each in classes.tolist()], dtype=object)
    if names.isin(MISSING).any() or whole(names).nunique() < len(names):
        return [str(number) for number in range(len(names))]
    return names.tolist()


def _encoded(column: pd.Series, name: str, classes: np.ndarray, names: Sequence[str]) -> pd.Series:
    """Return the names of the classes, or 0 and 1 if there are two."""
    own = column.dropna().tolist()
    if new := sorted({*own} - {*classes.tolist()}, key=str):
        raise DataError(f"target '{name}': the class {new[0]} of y_val is not in y")
    words = names if len(classes) > 2 else (0.0, 1.0)
    found = column.map(dict(zip(classes.tolist(), words, strict=True)))
    return found.astype(float if len(classes) == 2 else object).reset_index(drop=True)


def _chosen(probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
    valid = np.isfinite(probabilities).all(axis=1)
    found = classes[np.where(valid[:, None], probabilities, 0.0).argmax(axis=1)]
    if valid.all():
        return found
    found = found.astype(float if found.dtype.kind in "biuf" else object)
    found[~valid] = np.nan
    return found
