"""The ogbg-mol* sets of the Open Graph Benchmark."""

from molsepnorm.data.datasets.ogb.load import FEATURIZER, SETS, load_ogb, official_score

__all__ = ["FEATURIZER", "SETS", "load_ogb", "official_score"]
