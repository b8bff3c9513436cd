"""SMILES to predictions, streamed, in one process or in several.

A row's way, in the order of the files:

- `work`: a list of SMILES becomes molecules encoded in groups, and these predictions;
- `workers`: several processes, each doing that for one list after the other;
- `predictor`: `Predictor`, which cuts a stream into such lists;
- `rows`: `predict_rows`, from a table to a table.
"""

from molsepnorm.predict.predictor import Prediction, Predictor
from molsepnorm.predict.rows import predict_rows

__all__ = ["Prediction", "Predictor", "predict_rows"]
