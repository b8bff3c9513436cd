"""Predict in Spark: `predict_udf`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from molsepnorm.model import PropertyModel
from molsepnorm.optional import require_package
from molsepnorm.predict import Predictor

__all__ = ["predict_udf"]

_TYPES = {"f": "double", "b": "boolean"}


def predict_udf(
    model: PropertyModel | Path | str, level: float | None = None, domain: bool = False
) -> Callable[..., Any]:
    """Return a pandas function for Spark that predicts from a column of SMILES.

    Its result is a structure with the columns of `Predictor.columns` and `error`, the reason why a
    row failed. A null counts as an empty SMILES. For a model with feature columns, these follow in
    the order of the model.

    >>> from molsepnorm.interop.spark import predict_udf                  # doctest: +SKIP
    >>> predicted = predict_udf("runs/logS")("smiles")                    # doctest: +SKIP
    >>> library = spark.read.parquet("lib").withColumn("_", predicted)    # doctest: +SKIP
    >>> library.select("*", "_.*").where("logS_pred > -4")                # doctest: +SKIP

    The model travels to the executors with the function; they need molsepnorm, and no file of the
    model. Each task of Spark predicts with one thread.

    Args:
        model: a trained model, its folder, or the name of a shipped one.
        level, domain: as for `Predictor`, with its errors.

    Raises:
        ConfigError: pyspark is not installed.
    """
    functions = require_package("pyspark.sql.functions", "spark", "a function of Spark")
    if not isinstance(model, PropertyModel):
        model = PropertyModel.from_pretrained(model)
    model.require_targets()
    predictor = Predictor(model, level=level, domain=domain)
    names = model.inputs.names
    content = pickle.dumps(predictor)
    fields = {
        name: _TYPES.get(dtype.kind, "string") for name, dtype in predictor.columns.items()
    } | {"error": "string"}
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in fields.items())

    def predicted(parts: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        torch.set_num_threads(1)
        own: Predictor = pickle.loads(content)
        for smiles, *features in parts:
            cells = dict(zip(names, map(_texts, features), strict=True)) or None
            yield own.to_frame(_texts(smiles), cells).drop(columns="smiles")

    def from_smiles(parts: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        return predicted((smiles,) for smiles in parts)

    return functions.pandas_udf(predicted if names else from_smiles, schema)


def _texts(column: pd.Series) -> list[str]:
    return ["" if pd.isna(value) else str(value) for value in column]
