"""SDF: records, titles, properties and bytes of every make."""

from __future__ import annotations

import gzip

import pytest

from molsepnorm.data.tables import read_table
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import DataWarning, InvalidMolecule
from molsepnorm.molecules.featurize.smiles import canonical_smiles


def structure(*atoms: str, title: str = "") -> str:
    """A chain of these atoms."""
    number = len(atoms)
    lines = [title, "  by hand", "", f"{number:3d}{number - 1:3d}  0  0  0  0            999 V2000"]
    lines += [f"{i:10.4f}    0.0000    0.0000 {atom:<3} 0  0" for i, atom in enumerate(atoms)]
    lines += [f"{i:3d}{i + 1:3d}  1  0" for i in range(1, number)]
    return "\n".join([*lines, "M  END", ""])


ETHANOL = structure("C", "C", "O", title="ethanol")
METHANE = structure("C", title=" methane, a gas ")


def _rows(tmp_path, text: str | bytes, **options) -> list[dict[str, str]]:
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "x.sdf").write_bytes(data)
    return read_table(tmp_path / "x.sdf", ReadOptions(**options)).to_dict("records")


def _values(tmp_path, properties: str | bytes) -> dict[str, str]:
    """The properties of one record."""
    data = properties if isinstance(properties, bytes) else properties.encode()
    (row,) = _rows(tmp_path, ETHANOL.encode() + data + b"$$$$\n")
    assert (row.pop("smiles"), row.pop("name")) == ("CCO", "ethanol")
    return row


TWO = (
    f"{ETHANOL}>  <logS>  (1)\n1.1\n\n> 25 <MELTING POINT>\n-114\n\n$$$$\n"
    f"{METHANE}> <logS>\n-0.9\n\n> <what>\ngas\n\n$$$$\n"
)
ROWS = [
    {"smiles": "CCO", "name": "ethanol", "logS": "1.1", "MELTING POINT": "-114", "what": ""},
    {"smiles": "C", "name": "methane, a gas", "logS": "-0.9", "MELTING POINT": "", "what": "gas"},
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("start", "pack"), [("", gzip.compress), ("\ufeff", bytes)])
def test_structures_titles_and_properties(tmp_path, start, end, pack):
    path = tmp_path / ("x.sdf.gz" if pack is gzip.compress else "x.sdf")
    path.write_bytes(pack((start + TWO.replace("\n", end)).encode()))
    assert read_table(path).to_dict("records") == ROWS


@pytest.mark.parametrize("rest", ["", "$$$$", "$$$$ \n"])
def test_the_last_records_end_mark(tmp_path, rest):
    """May be missing, or more may follow than there should."""
    assert len(_rows(tmp_path, TWO.removesuffix("$$$$\n") + rest)) == 2


@pytest.mark.parametrize(
    ("column", "others"),
    [
        ("smiles", {"name": "spirit", "SMILES": "OCC"}),
        ("SMILES", {"name": "spirit", "smiles": "OCC(wrong)"}),
        ("name", {"smiles": "OCC(wrong)", "SMILES": "OCC"}),
    ],
)
def test_the_column_of_smiles_is_the_structures(tmp_path, column, others):
    """A property of that name is not read, and a warning says so."""
    text = ETHANOL + "> <smiles>\nOCC(wrong)\n\n> <SMILES>\nOCC\n\n> <name>\nspirit\n\n$$$$\n"
    with pytest.warns(DataWarning, match=rf"x\.sdf: .* the property '{column}' is not read"):
        (row,) = _rows(tmp_path, text, smiles_column=column)
    assert row == {column: "CCO", **others}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("> <a>\n1\n2\n\n> <b>\n3\n\n", {"a": "1\n2", "b": "3"}),
        ("> <a>\none\n\ntwo\n\n> <b>\n3\n\n", {"a": "one\n\ntwo", "b": "3"}),
        ("> <a>\n> <b>\n3\n", {"a": "", "b": "3"}),
        ("> <a>\n> 50\n\n> <b>\n<5\n\n", {"a": "> 50", "b": "<5"}),
        ("> <a>\n>=10 <M>\n\n> <b>\n>5 <M>\n\n", {"a": ">=10 <M>", "b": ">5 <M>"}),
        ("> DT12 <a b> (7) \n 7 \n\n", {"a b": " 7 "}),
        ("> <a>\n3\n\n> <a> (7)\n4\n\n", {"a": "3\n4"}),
    ],
)
def test_values_reach_to_the_next_property(tmp_path, text, values):
    assert _values(tmp_path, text) == values


def test_a_record_that_cannot_be_read_stays_a_row(tmp_path):
    """With its properties; what is drawn but impossible with a SMILES that says why."""
    fluorine = structure("C", "F", "C")
    broken = ETHANOL.replace("  3  2", "  x  2")
    cut = ETHANOL[: ETHANOL.index("M  END")]
    tail = "> <id>\n{}\n\n$$$$\n"
    records = [ETHANOL, fluorine, broken, "", cut, METHANE]
    rows = _rows(tmp_path, "".join(r + tail.format(i) for i, r in enumerate(records)))
    assert [row["id"] for row in rows] == ["0", "1", "2", "", "4", "5"]
    assert [row["smiles"] for row in rows] == ["CCO", "CFC", "", "", "", "C"]
    with pytest.raises(InvalidMolecule, match=r"valence for atom # 1 F, 2"):
        canonical_smiles(rows[1]["smiles"])


@pytest.mark.parametrize("version", [2000, 3000])
def test_what_rdkit_writes_is_read_back(tmp_path, datasets, version):
    """Real molecules keep their structure (canonical SMILES) and every property."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    table = read_table(datasets / "moleculenet" / "esol.csv")[::10]
    smiles_column = next(name for name in table if name.lower() == "smiles")
    writer = Chem.SDWriter(str(tmp_path / "x.sdf"))
    writer.SetForceV3000(version == 3000)
    for _, row in table.iterrows():
        mol = Chem.MolFromSmiles(row[smiles_column])
        rdDepictor.Compute2DCoords(mol)
        for name, value in row.items():
            mol.SetProp(name, value)
        writer.write(mol)
    writer.close()
    back = read_table(tmp_path / "x.sdf", ReadOptions("structure"))
    assert len(back) > 100
    assert back["structure"].tolist() == [Chem.CanonSmiles(s) for s in table[smiles_column]]
    for name in table:
        assert back[name].tolist() == table[name].tolist()
