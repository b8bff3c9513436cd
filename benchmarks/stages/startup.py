"""What whole commands take before they do anything."""

from __future__ import annotations

from collections.abc import Sequence

from commands import OURS, run, script
from peers import PeerMissing, chemprop
from settings import Settings
from turns import Asked, Row, Work, in_turns

from stages.models import chemprop_model, full_zinc, slim

__all__ = ["startup"]

_FIRST_BATCH = """
import molsepnorm
from molsepnorm import datasets, model, training
from molsepnorm.data.batching.collate import GraphTensors

config = molsepnorm.load_config({name!r})
spec = model.encoding_of(training.run.architecture(config))
GraphTensors.of(datasets.load(config.data, spec).store).cut([0, 1, 2])
"""


def startup(settings: Settings) -> list[Row]:
    """Help, the prediction of one molecule, and a data set whose store is there."""
    folder = settings.folder("startup")
    name, cache = full_zinc(settings)
    one_row = folder / "one.csv"
    one_row.write_text("smiles\nCCO\n")
    peer_help: list[str] = []
    peer_predict: list[str] = []
    peer_name = remark = ""
    try:
        program = chemprop.executable(settings.chemprop)
        peer_name = chemprop.version(program)
        peer_help = [str(program), "--help"]
        model = chemprop_model(settings, program)
        peer_predict = chemprop.predict(program, model, one_row, folder / "peer.csv")
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    predict = [OURS, "predict", "--model", str(slim(settings)), "--smiles", "CCO"]

    def row(
        what: str,
        ours: Sequence[str],
        peer: Sequence[str],
        floor: str,
        asked: Asked | None = None,
        **environment: str,
    ) -> Row:
        def working(command: Sequence[str]) -> Work:
            def work(turn: int) -> int:
                run(command, folder, **environment)
                return 1

            return work

        commands = {"ours": ours, "peer": peer, "floor": script(floor)}
        contestants = {who: working(command) for who, command in commands.items() if command}
        rates = in_turns(contestants, settings.plan(seconds=12, least=3, most=15, turn_seconds=0))
        seconds = {who: [1 / rate for rate in values] for who, values in rates.items()}
        return Row(
            "startup",
            what,
            "s",
            seconds["ours"],
            seconds.get("peer", ()),
            peer_name,
            "the same, for its default model",
            seconds["floor"],
            f"python -c '{floor}'",
            asked,
            remark,
        )

    return [
        row("molsepnorm --help", [OURS, "--help"], peer_help, "import click"),
        row("predicting one molecule", predict, peer_predict, "import torch, rdkit.Chem"),
        row(
            f"second start on {name}, to the first batch",
            script(_FIRST_BATCH.format(name=name)),
            [],
            "import torch",
            Asked("ours", 2),
            MOLSEPNORM_CACHE=str(cache),
        ),
    ]
