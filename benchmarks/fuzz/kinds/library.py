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
from molsepnorm import GraphormerConfig, MolGraph, Predictor, SepNorm, featurize, load_config
from molsepnorm.encodings.transform import AddShortestPathEncoding
from molsepnorm.featurize.pyg import from_data, to_data

_NAMES = {"np": np, "pd": pd, "torch": torch, "math": math, "molsepnorm": molsepnorm}
_NAMES |= {"Chem": Chem, "featurize": featurize, "Path": Path, "StringIO": StringIO}
_NAMES |= {"GraphormerConfig": GraphormerConfig, "MolGraph": MolGraph, "Predictor": Predictor}
_NAMES |= {"SepNorm": SepNorm, "load_config": load_config, "Data": Data, "to_data": to_data}
_NAMES |= {"AddShortestPathEncoding": AddShortestPathEncoding, "from_data": from_data}

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


def _features(rng: random.Random, names: str) -> str:
    """Arrays that almost are a molecule's."""
    arrays = {
        "x": "graph.atom_features",
        "b": "graph.bonds",
        "f": "graph.bond_features",
        "edge_index": "to_data(graph).edge_index",
        "edge_attr": "to_data(graph).edge_attr",
    }
    given = {name: arrays[name] for name in names.split()}
    name = rng.choice(list(given))
    tail = (
        "[:, :1]",
        "[:-1]",
        "[:0]",
        " + 1",
        " + 100",
        " + 1000",
        " - 1",
        " * 1.0",
        ".T",
        "[0]",
        "[None]",
    )
    given[name] = rng.choice((f"({given[name]}){rng.choice(tail)}", _array(rng)))
    return ", ".join(given.values() if "x" in given else given)


def _settings(rng: random.Random, *names: str) -> str:
    return ", ".join(
        f"{n}={rng.choice((*_ODD, *_SIZES, '(5, 6, 2)', '300'))}" for n in rng.sample(names, 1)
    )


def _data(rng: random.Random) -> str:
    names = {"x": "torch.tensor(graph.atom_features).long()"}
    names |= {n: f"to_data(graph).{n}" for n in ("edge_index", "edge_attr")}
    name = rng.choice(list(names))
    tail = ("[:, :1]", "[:-1]", "[:0]", " + 1", " - 1", " * 1.0", ".T", "[0]", ".flip(0)", " * 0")
    odd = (f"{names[name]}{rng.choice(tail)}", f"torch.as_tensor({_array(rng)})", rng.choice(_ODD))
    names[name] = rng.choice(odd)
    return f"Data({', '.join(f'{n}={v}' for n, v in names.items())})"


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
    odd = rng.choice(_ODD)
    shape = ", ".join(rng.choice(("0", "1", "2", "3", "8")) for _ in range(rng.randint(0, 4)))
    tensor = f"torch.zeros({shape or '()'}, dtype=torch.{rng.choice(_TYPES)})"
    graph = f"MolGraph({_features(rng, 'x b f')})"
    config = (
        "layers",
        "width",
        "heads",
        "dropout",
        "norm",
        "atom_sizes",
        "bond_sizes",
        "max_distance",
    )
    names = ("bond_offset", "max_degree", "max_distance", "max_path_length", "bond_sizes")
    spec = f"{{'bond_sizes': (5, 6, 2)}} | dict({_settings(rng, *names)})"
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
        f"GraphormerConfig({_settings(rng, *config)})",
        f"featurize.get({odd})",
        f"featurize.get('ogb')({odd})",
        f"featurize.get('ogb').many({odd})",
        f"Predictor.from_pretrained({odd})",
        f"Predictor.from_pretrained(run, {_settings(rng, 'device', 'processes', 'precision')})",
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
            promises.number_or_reason(
                list((row.values or {"": None}).values()), row.error, row.smiles
            )
    if call.startswith(("predictor.predict_graphs", "predictor.predict(")) and result is not None:
        _expected(eval(call[call.index("(") :], names), result, call)


def _judge(error: Exception, call: str) -> None:
    """A mistake inside an argument is the campaign's; the rest must be an error of ours."""
    if isinstance(error, NameError):
        raise error
    frames = error.__traceback__
    while frames and frames.tb_next:
        frames = frames.tb_next
        if frames.tb_frame.f_code.co_filename.startswith(promises.PACKAGE):
            promises.our_error(error, library=True)
            return


def _expected(given: Any, result: Any, call: str) -> None:
    """What gave numbers must have been molecules of the model's features, one for each number."""
    if "predict_graphs" not in call:
        if isinstance(given, str | bytes):
            raise promises.Broken("no answer to nonsense", f"{call} gave {result!r:.200}", "a str")
        return
    sizes = featurize.SIZES["ogb"]
    graphs = list(given)
    if len(result) != len(graphs):
        raise promises.Broken("rows", f"{len(graphs)} graphs gave {len(result)} rows")
    for graph in graphs:
        for features, most in (
            (graph.atom_features, sizes.atoms),
            (graph.bond_features, sizes.bonds),
        ):
            if len(features) and (
                features.shape[1] != len(most) or (features >= np.array(most)).any()
            ):
                raise promises.Broken(
                    "no answer to nonsense", f"{call} gave {result!r}", "features"
                )
    if not np.isfinite(result).all():
        raise promises.Broken("number or reason", f"{call} gave {result!r}")
