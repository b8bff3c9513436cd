"""Write docs/benchmarks.md from page.md and the files of results: `make results`."""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE), str(HERE.parent)]  # benchmarks/, and this checkout's package

import pandas as pd  # noqa: E402
from interleaved import Row, Spread  # noqa: E402
from moleculenet.sets import SETS  # noqa: E402
from official.run import comparison, published  # noqa: E402
from table import difference, figure, line, mean_sd  # noqa: E402

PAGE = HERE.parent / "docs" / "benchmarks.md"
Run = dict[str, Any]

_SETS = {
    "esol": "ESOL",
    "freesolv": "FreeSolv",
    "bace-pic50": "BACE pIC50",
    "bace-class": "BACE class",
    "tox21": "Tox21",
    "molhiv": "molhiv",
}
_CLUSTERS = {
    "CHEMBL214-clusters": "CHEMBL214",
    "lipo-clusters": "Lipophilicity",
    "ames-clusters": "AMES",
}
_RIVALS = {
    "default": "molsepnorm",
    "chemprop": "chemprop",
    "chemprop-val": "chemprop + val",
    "lightgbm": "LightGBM",
    "forest": "random forest",
}
_NORMS = ("shared", "sep-rms-bn", "sep-ln", "sep")


def runs(name: str) -> list[Run]:
    """Read a file of results with a line for each run."""
    return [json.loads(text) for text in (HERE / name).read_text(encoding="utf-8").splitlines()]


def by_seed(some: Iterable[Run], key: str = "test", **which: Any) -> dict[int, float]:
    """Return a figure of the runs with these fields, by seed."""
    return {run["seed"]: run[key] for run in some if which.items() <= run.items() and key in run}


def score(values: Mapping[int, float], digits: int = 3) -> str:
    """Format scores by seed as mean ± standard deviation (number of seeds, unless it is five).

    The deviation is left out where it is 0, for a method that draws no random numbers.
    """
    text = mean_sd(values, digits).removesuffix(" (5)").removesuffix(f" ± {0:.{digits}f}")
    return f"{text} (1)" if len(values) == 1 else text


def bold_best(cells: Sequence[str], metric: str) -> list[str]:
    """Make the best of several scores bold; less is better unless it is an AUC."""
    values = {cell: float(cell.split()[0]) for cell in cells if cell}
    best = (max if "AUC" in metric else min)(values.values())
    return [f"**{cell}**" if values.get(cell) == best else cell for cell in cells]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def source(some: Iterable[Mapping[str, Any]]) -> str:
    """Return the commits of results by date, and the machines."""
    commits: dict[str, dict[str, None]] = {}
    machines: dict[str, None] = {}
    for run in sorted(some, key=lambda run: (run["date"], run["commit"])):
        commits.setdefault(run["date"], {})[run["commit"]] = None
        processor = re.sub(r"\(R\)| Processor|, Python.*|2 cores of ", "", run["machine"])
        machines[processor] = None
    dates = "; ".join(f"{', '.join(each)}, {date}" for date, each in commits.items())
    return f"{dates}; {' and '.join(machines)}"


def moleculeace() -> dict[str, str]:
    """Compare with the published scores of thirty activity tables."""
    own = [run for run in runs("official/results.jsonl") if run["set"] == "moleculeace"]
    others = published("moleculeace").rename(columns={"SVM": "tuned SVM"})
    others = others[["CheMeleon", "tuned SVM", "random forest", "chemprop"]]
    names, means, minus, better = zip(*comparison(own, others), strict=True)
    body = [
        ("mean test RMSE", *bold_best(means, "RMSE")),
        ("molsepnorm minus it", *minus),
        ("molsepnorm is better on", *better),
    ]
    tests = {run["table"]: run["test"] for run in own}
    worse = [
        f"{name} ({method} {scores[method]:.3f}, molsepnorm {tests[name]:.3f})"
        for name, scores in others.iterrows()
        for method in others
        if scores[method] < tests[name]
    ]
    seconds = [run["cpu_seconds"] for run in own]
    return {
        "ace": table(("", *names), body),
        "ace_worse": ", ".join(worse),
        "ace_cliffs": f"{statistics.fmean(run['cliffs'] for run in own):.3f}",
        "ace_seconds": f"{min(seconds):.0f} to {max(seconds):.0f} s",
        "ace_median": f"{statistics.median(seconds):.0f} s",
        "ace_source": source(own),
    }


def moleculenet() -> dict[str, str]:
    """Compare methods on MoleculeNet's tables and molhiv."""
    every = runs("moleculenet/results.jsonl")

    def of(name: str, method: str, key: str = "test") -> dict[int, float]:
        return by_seed(every, key, set=name, method=method)

    scores, clusters, unclear = [], [], []
    for name, title in _SETS.items():
        metric, found = SETS[name].metric, {method: of(name, method) for method in _RIVALS}
        shown = [score(each) for each in found.values()]
        scores.append((f"{title}, {metric}", *bold_best(shown, metric)))
        for method, label in list(_RIVALS.items())[1:]:
            minus = difference(found["default"], found[method], 3)
            if " (-" in minus and " to +" in minus:
                unclear.append(f"{label} on {title}, {minus}")
    for name, title in _CLUSTERS.items():
        found = {method: of(name, method) for method in ("default", "chemprop-val")}
        seconds = (statistics.fmean(of(name, each, "cpu_seconds").values()) for each in found)
        pairs = zip(found.values(), seconds, strict=True)
        cells = (f"{score(each)} in {taken:,.0f} s".replace(" (1)", "") for each, taken in pairs)
        clusters.append((f"{title}, {SETS[name].metric}", *cells))
    own = {each: [run for run in every if run["method"] == each] for each in _RIVALS}
    return {
        "moleculenet": table(("test score", *_RIVALS.values()), scores),
        "unclear": "; ".join(unclear),
        "clusters": table(("test score, CPU time", "molsepnorm", "chemprop + val"), clusters),
        "moleculenet_source": ". ".join(f"{_RIVALS[m]}: {source(own[m])}" for m in _RIVALS),
    }


def adme() -> dict[str, str]:
    """Compare with published scores of the tables of TDC that were run."""
    tdc = [run for run in runs("official/results.jsonl") if run["set"] == "tdc"]
    others = published("tdc").loc[[*dict.fromkeys(run["table"] for run in tdc)]]
    methods, rows = [*others.columns[1:]], []
    for name, row in others.iterrows():
        numbers = [f"{value:.3f}".replace("nan", "") for value in row[methods]]
        cells = [score(by_seed(tdc, table=name)), *numbers]
        rows.append((f"{name}, {row['metric']}", *bold_best(cells, row["metric"])))
    return {
        "tdc": table(("test score", "molsepnorm", *methods), rows),
        "tdc_source": source(tdc),
    }


def public() -> dict[str, str]:
    """Show tables that were run once or twice."""
    rows = pd.read_csv(HERE / "moleculenet" / "public.csv", dtype=str).fillna("")
    shown = ["table", "score", "molsepnorm", "chemprop", "forest", "commit"]
    return {
        "public": table(shown, rows[shown].to_numpy().tolist()),
        "public_source": source(rows.to_dict("records")),
    }


def zinc_and_norms() -> dict[str, str]:
    """Compare norms on ZINC, short and long, and on small tables; networks on molhiv."""
    log = runs("accuracy/log.jsonl")
    published = pd.read_csv(HERE / "accuracy" / "published.csv", dtype=str)

    def of(name: str, key: str = "test") -> dict[int, float]:
        return by_seed(log, key, name=name)

    def sources(*names: str) -> str:
        return source(run for run in log if run["name"].startswith(names))

    def papers(dataset: str) -> str:
        own = published[published["dataset"] == dataset]
        return ", ".join(f"{row.method} {row.test}" for row in own.itertuples())

    lengths = {
        "zinc-600": "12,000 molecules, 600 epochs",
        "zinc-11m": "12,000 molecules, 11 minutes",
        "zinc-full": "all 250,000, 20 epochs",
    }
    zinc = []
    for name, title in lengths.items():
        cells = (", ".join(f"{v:.4f}" for v in of(f"{name}-{norm}").values()) for norm in _NORMS)
        zinc.append((title, *cells, papers(name.removesuffix("-600"))))
    norms, base = [], of("norms-20-shared", "val")
    for norm in _NORMS:
        val, test = (of(f"norms-20-{norm}", key) for key in ("val", "test"))
        minus = difference(val, base) if norm != "shared" else ""
        norms.append((f"`{norm}`", score(val, 4), score(test, 4), minus))
    names = dict(zip(("esol", "freesolv", "bace-pic50", "bace"), list(_SETS)[:4], strict=True))
    small = [
        (f"{_SETS[name]}, {SETS[name].metric}", *(score(of(f"norms-{own}-{n}")) for n in _NORMS))
        for own, name in names.items()
    ]
    return {
        "zinc": table(("test MAE", *(f"`{norm}`" for norm in _NORMS), "papers"), zinc),
        "zinc_source": sources("zinc-"),
        "molhiv_networks": score(of("molhiv-networks")),
        "molhiv_mean": score(of("molhiv-networks-mean")).removesuffix(" (1)"),
        "molhiv_source": sources("molhiv-"),
        "molhiv_papers": papers("molhiv"),
        "norms": table(("norm", "validation MAE", "test MAE", "validation minus `shared`"), norms),
        "norms_source": sources("norms-20-"),
        "small": table(("test score", *(f"`{norm}`" for norm in _NORMS)), small),
        "small_source": sources(*(f"norms-{name}-" for name in names)),
        "slim_shared": score(of("slim-20-shared", "val")),
        "slim_sep": score(of("slim-20-sep", "val")),
        "slim_source": sources("slim-20-"),
        "paper_shared": score(of("slim-paper-shared")).removesuffix(" (1)"),
        "paper_sep": score(of("slim-paper-sep")).removesuffix(" (1)"),
        "paper_source": sources("slim-paper-"),
    }


def intervals() -> dict[str, str]:
    """Show the coverage of intervals, and five chemprop models beside them."""
    every = runs("moleculenet/intervals.jsonl")
    kinds = {
        "molsepnorm, `--epochs 0`": {"method": None, "epochs": 0},
        "molsepnorm": {"method": None, "epochs": None},
        "five chemprop models": {"method": "chemprop"},
    }

    def means(name: str, split: str, kind: str, keys: Sequence[str], seeds: int) -> list[str]:
        chosen = {"set": name, "split": split, **kinds[kind]}
        own = [run for run in every if chosen.items() <= {"method": None, **run}.items()]
        return [f"{statistics.fmean(r[key] for r in own if r['seed'] < seeds):.2f}" for key in keys]

    levels = ("coverage 0.8", "coverage 0.9", "coverage 0.95")
    coverage = []
    for name, title in list(_SETS.items())[:5]:
        cells = (
            means(name, split, "molsepnorm, `--epochs 0`", levels, 5)
            for split in ("random", "scaffold", "fixed")
        )
        coverage.append((title, *map(" / ".join, cells)))
    keys, beside = ("coverage 0.9", "width 0.9", "nll"), []
    for name in ("esol", "freesolv"):
        for split in ("random", "scaffold"):
            cells = (means(name, split, kind, keys, 2) for kind in kinds)
            beside.append((f"{_SETS[name]}, {split}", *map(", ".join, cells)))
    return {
        "coverage": table(("coverage", "random split", "scaffold split", "fixed split"), coverage),
        "beside": table(("coverage, width, NLL", *kinds), beside),
        "intervals_source": source(every),
    }


def speed() -> dict[str, str]:
    """Show the speed beside other programs, the rate of screening, and how prediction scales."""
    names = ("speed", "scaling", "screening", "screening-long")
    results = {name: json.loads((HERE / "results" / f"{name}.json").read_text()) for name in names}
    speeds = []
    for given in results["speed"]["rows"]:
        if not given.get("peer"):
            continue
        keys = ("what", "unit", "ours", "peer", "peer_name")
        row = Row(**{key: given[key] for key in keys})
        both = (figure(Spread.of(each).median) for each in (row.ours, row.peer))
        ratio, low, high = map(figure, vars(row.ratio).values())
        ratio += f" ({low} to {high})" if low != high else ""
        speeds.append((f"{row.what}, {row.unit}", *both, ratio, row.peer_name))
    screens = [
        f"{run['molecules']:,} molecules with `--processes {run['processes']}` at "
        f"{run['rows_per_second']:,.0f} molecules/s ({run['rows_per_cpu_second']:,.0f} per CPU "
        f"second) with at most {run['peak_mib']} MiB ({source([run])})"
        for run in (results["screening"], results["screening-long"])
    ]
    sizes = [
        f"{figure(size['predict, µs a molecule'])} µs a molecule and "
        f"{figure(size['predict, GiB'])} GiB for {size['rows']:,} rows"
        for size in results["scaling"]["sizes"]
    ]
    return {
        "speed": table(("median", "molsepnorm", "other", "ratio", "other program"), speeds),
        "screening": ", ".join(screens),
        "scaling": ", ".join(sizes),
        **{f"{name}_source": source([results[name]]) for name in names[:2]},
    }


def page() -> str:
    """Return the text of docs/benchmarks.md."""
    parts = {**moleculeace(), **moleculenet(), **adme(), **public(), **zinc_and_norms()}
    text = (HERE / "page.md").read_text(encoding="utf-8")
    return text.format_map({**parts, **intervals(), **speed()})


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
