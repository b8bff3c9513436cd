"""Predict from SMILES, as a stream, in one process or in several.

- `work`: encodes a list of SMILES in groups, and predicts them;
- `workers`: worker processes that do this for one list after the other;
- `predictor`: `Predictor`, which cuts a stream into such lists;
- `rows`: `predict_rows`, from a table to a table with predictions.
"""

from molsepnorm.predict.predictor import Prediction, Predictor
from molsepnorm.predict.rows import predict_rows

__all__ = ["Prediction", "Predictor", "predict_rows"]
