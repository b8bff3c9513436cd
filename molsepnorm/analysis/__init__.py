"""Explanations of a trained model.

`explain` explains predictions by atoms and fragments; `geometry` compares embeddings of models.
"""

from molsepnorm.analysis.explanations import Explanation, explain

__all__ = ["Explanation", "explain"]
