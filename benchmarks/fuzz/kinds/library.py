"""Library calls with arguments of wrong types, shapes and ranges, as Python expressions."""

from __future__ import annotations

import math
import random
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rdkit import Chem
from torch_geometric.data import Data

import molsepnorm
from benchmarks.fuzz import promises
from benchmarks.fuzz.work import Work
from molsepnorm import GraphormerConfig, MolGraph, Predictor, SepNorm, load_config
from molsepnorm.interop.transform import AddShortestPathEncoding
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.pyg import from_data, to_data

_NAMES: dict[str, Any] = {"np": np, "pd": pd, "torch": torch, "math": math}
_OF_PACKAGES = (molsepnorm, Chem, featurize, Path, StringIO, GraphormerConfig, MolGraph, Predictor)
_OF_PACKAGES += (SepNorm, load_config, Data, to_data, AddShortestPathEncoding, from_data)
_NAMES |= {each.__name__.rpartition(".")[2]: each for each in _OF_PACKAGES}
PARTS = ()

_ODD = (
    *("None", "True", "0", "1", "-1", "3", "2**70", "1.5", "math.nan", "''", "'CCO'", "b'CCO'"),
    *("[]", "{}", "()", "[None]", "['CCO']", "['CCO', None]", "['CCO', 1]", "[['CCO']]"),
    *("[b'CCO']", "['\\ud800']", "np.array(['CCO'])", "np.array('CCO')", "np.array([1.0])"),
    *("pd.Series(['CCO', None])", "{'CCO'}", "pd.Series(['CCO'], index=[5])"),
    *("pd.DataFrame({'smiles': ['CCO']})", "pd.NA", "object()", "print", "iter(['CCO'])"),
    *("(s for s in ['CCO'])", "Path('x')", "Path('')", "StringIO('smiles\\nCCO')"),
    *("Chem.MolFromSmiles('CCO')", "[Chem.MolFromSmiles('CCO')]", "graph", "[graph]"),
    *("[graph, None]", "[to_data(graph)]", "to_data(graph)", "Data()", "torch.zeros(2)"),
    *("torch.zeros(0)", "work", "'x' * 10**5", "featurize.get('zinc')('CCO')"),
    *("[featurize.get('zinc')('CCO')]", "[featurize.get('rich')('CCO')]"),
)
_SIZES = ("0", "1", "2", "3", "4", "9", "28", "64", "300")
_TYPES = ("int64", "int64", "int64", "int32", "uint8", "float32", "bool", "float64", "complex64")


def _array(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(_ODD)
    shape = ", ".join(rng.choice(_SIZES) for _ in range(rng.choice((1, 2, 2, 2, 3))))
    value = rng.choice(("0", "0", "0", "1", "2", "-1", "255", "300", "10**6", "-2**40"))
    return f"np.full(({shape},), {value}).astype('{rng.choice(_TYPES)}')"


_TAILS = (
    *("[:, :1]", "[:-1]", "[:0]", " + 1", " + 100", " + 1000", " - 1", " * 1.0", ".T", "[0]"),
    *("[None]", " * 0", "[::-1]"),
)


def _almost(rng: random.Random, arrays: dict[str, str]) -> dict[str, str]:
    """Change or replace one of the arrays of a molecule."""
    name = rng.choice(list(arrays))
    changed = f"({arrays[name]}){rng.choice(_TAILS)}", _array(rng), rng.choice(_ODD)
    return {**arrays, name: rng.choice(changed)}


def _graph(rng: random.Random) -> str:
    names = ("atom_features", "bonds", "bond_features")
    return f"MolGraph({', '.join(_almost(rng, {n: f'graph.{n}' for n in names}).values())})"


def _data(rng: random.Random) -> str:
    names = ("x", "edge_index", "edge_attr")
    arrays = _almost(rng, {name: f"to_data(graph).{name}" for name in names})
    return f"Data({', '.join(f'{n}={v}' for n, v in arrays.items())})"


def _setting(rng: random.Random, names: str) -> str:
    return f"{rng.choice(names.split())}={rng.choice((*_ODD, *_SIZES, '(5, 6, 2)'))}"


_SEPNORM = (
    "SepNorm({size})({tensor})",
    "SepNorm(8)({tensor})",
    "SepNorm(8)({tensor}, graph_token={odd})",
    "SepNorm(8)(torch.zeros(2, 3, 8), mask={tensor})",
    "SepNorm(8)(torch.zeros(6, 8), graph_token=torch.tensor([0, 99]))",
    "SepNorm(8).eval()({tensor})",
    "SepNorm({odd})",
)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    odd, graph = rng.choice(_ODD), _graph(rng)
    shape = ", ".join(rng.choice(("0", "1", "2", "3", "8")) for _ in range(rng.randint(0, 4)))
    tensor = f"torch.zeros({shape or '()'}, dtype=torch.{rng.choice(_TYPES)})"
    network = "layers width heads dropout norm atom_sizes bond_sizes max_distance"
    spec = _setting(rng, "bond_offset max_degree max_distance max_path_length bond_sizes")
    spec = f"{{'bond_sizes': (5, 6, 2)}} | dict({spec})"
    calls = (
        f"predictor.predict({odd})",
        f"list(predictor.stream({odd}))",
        f"list(predictor.outcomes({odd}))",
        f"predictor.predict_graphs({odd})",
        f"predictor.predict_graphs([{graph}])",
        f"predictor.predict_graphs([graph, {graph}])",
        graph,
        f"from_data({_data(rng)})",
        f"from_data({_data(rng)}, bond_offset={odd})",
        f"from_data({odd})",
        f"to_data({odd})",
        f"to_data(graph, y={odd})",
        f"AddShortestPathEncoding((5, 6, 2))({_data(rng)})",
        f"AddShortestPathEncoding(**{spec})(to_data(graph))",
        f"load_config({odd})",
        f"load_config('zinc', overrides={odd})",
        f"load_config(config={odd})",
        f"load_config('zinc', preset={odd})",
        f"GraphormerConfig({_setting(rng, network)})",
        f"featurize.get({odd})",
        f"featurize.get('ogb')({odd})",
        f"featurize.get('ogb').many({odd})",
        f"Predictor.from_pretrained({odd})",
        f"Predictor.from_pretrained(run, {_setting(rng, 'device processes precision')})",
        f"molsepnorm.train({odd}, 'out')",
        f"molsepnorm.evaluate(run, {odd})",
        rng.choice(_SEPNORM).format(size=rng.choice(_SIZES), tensor=tensor, odd=odd),
    )
    return {"call": rng.choice(calls)}


def check(case: dict[str, Any], work: Work) -> None:
    graph = featurize.get("ogb")("CC(=O)Oc1ccccc1")
    names = {**_NAMES, "graph": graph, "predictor": work.predictor, "run": work.root / "run"}
    names["work"] = work
    call, result = case["call"], None
    try:
        result = eval(call, names)
    except Exception as error:
        _judge(error, call)
    if isinstance(result, list) and result and isinstance(result[0], molsepnorm.predict.Prediction):
        for row in result:
            promises.row_of_numbers(row)
    if call.startswith(("predictor.predict_graphs", "predictor.predict(")) and result is not None:
        _expected(eval(call[call.index("(") :], names), result, call)


def _judge(error: Exception, call: str) -> None:
    """Check the error, unless it was raised while the arguments were made."""
    if isinstance(error, NameError):
        raise error
    frames = error.__traceback__
    while frames and frames.tb_next:
        frames = frames.tb_next
        if frames.tb_frame.f_code.co_filename.startswith(promises.PACKAGE):
            promises.our_error(error, library=True)
            return


def _expected(given: Any, result: Any, call: str) -> None:
    """Check that there is one number for each molecule, and that its features are the model's."""
    if "predict_graphs" not in call:
        if isinstance(given, str | bytes):
            raise promises.Broken(
                "no result for invalid input", f"{call} gave {result!r:.200}", "a str"
            )
        return
    graphs, sizes = list(given), featurize.SIZES["ogb"]
    if len(result) != len(graphs):
        raise promises.Broken("rows", f"{len(graphs)} graphs gave {len(result)} rows")
    for graph in graphs:
        both = (graph.atom_features, sizes.atoms), (graph.bond_features, sizes.bonds)
        for found, limits in both:
            if len(found) and (found.shape[1] != len(limits) or (found >= np.array(limits)).any()):
                what = f"{call} gave {result!r}"
                raise promises.Broken("no result for invalid input", what, "features")
    if not np.isfinite(result).all():
        raise promises.Broken("number or reason", f"{call} gave {result!r}")
