"""Predictions in Spark equal those of one process."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from support import SMALL, far_from_initial

from molsepnorm.interop.spark import predict_udf
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.inputs import ExtraInputs, FeatureColumn


@pytest.fixture(scope="module")
def spark():
    """Spark on this machine with two workers, which may fail twice in a task."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if not shutil.which("java"):
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        sql.SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def model() -> PropertyModel:
    """Two targets, the second with three classes."""
    task = Task(
        (Target("y", "regression"), Target("a`b", "multiclass", classes=("low", "mid", "high"))),
        "loss",
    )
    return PropertyModel.of(
        far_from_initial(GraphormerConfig(**{**SMALL, "outputs": 4})), "zinc", task
    )


SMILES = [f"{'C' * (1 + row % 20)}{'ON'[row % 2]}" for row in range(200)]
SMILES[5], SMILES[77] = "C1CC", ""


def same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    for name, column in wanted.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(found[name], column, rtol=1e-4, atol=1e-4)
        else:
            assert found[name].isna().tolist() == column.isna().tolist()
            assert found[name].dropna().tolist() == column.dropna().tolist()


def test_rows_equal_those_of_one_process(spark, model):
    """Invalid and missing SMILES are rows with a reason, and no values."""
    smiles = [*SMILES[:-1], None]
    table = spark.createDataFrame(list(enumerate(smiles)), "id int, smiles string")
    predicted = table.repartition(4).withColumn("_", predict_udf(model)("smiles"))
    found = predicted.select("id", "smiles", "_.*").toPandas().sort_values("id")
    wanted = Predictor(model).to_frame([*SMILES[:-1], ""])
    assert wanted["y_pred"].std() > 0.05
    assert [*found.columns[2:]] == [*wanted.columns[1:]]
    same(found, wanted.drop(columns="smiles"))
    assert found["error"].notna().sum() == 3


def test_feature_columns_follow_the_smiles(spark):
    inputs = ExtraInputs((FeatureColumn("t"),))
    config = GraphormerConfig(**{**SMALL, "outputs": 1, "molecule_features": inputs.width})
    task = Task((Target("y", "regression"),), "mae")
    model = PropertyModel.of(far_from_initial(config), "zinc", task, inputs=inputs)
    cells = [row / 40 for row in range(len(SMILES) - 1)] + [None]
    rows = zip(range(len(SMILES)), SMILES, cells, strict=True)
    table = spark.createDataFrame(list(rows), "id int, s string, t double")
    predicted = table.repartition(3).withColumn("_", predict_udf(model)("s", "t"))
    found = predicted.select("id", "_.*").toPandas().sort_values("id")
    wanted = Predictor(model).to_frame(SMILES, {"t": [*map(str, cells[:-1]), ""]})
    same(found, wanted.drop(columns="smiles"))
    assert wanted["y_pred"].nunique() > 100
