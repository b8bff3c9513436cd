"""The ogbg-mol* sets of the Open Graph Benchmark."""

from molsepnorm.data.datasets.ogb.load import FEATURIZER, SETS, OgbSet, load_ogb, official_score

__all__ = ["FEATURIZER", "SETS", "OgbSet", "load_ogb", "official_score"]
