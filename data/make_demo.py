"""Make `data/demo.csv`: about 3,000 drug-like molecules with three computed labels.

    python data/make_demo.py

The drugs below are cut where BRICS cuts (Degen et al., ChemMedChem 2008, 3, 1503), and their
fragments are joined anew wherever BRICS allows the bond. Nothing is downloaded, and the same
RDKit writes the same bytes every time.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TypeVar

from rdkit import Chem, RDConfig
from rdkit.Chem import (
    BRICS,
    Crippen,
    Descriptors,
    rdDistGeom,
    rdForceFieldHelpers,
    rdMolDescriptors,
)
from rdkit.Chem.Scaffolds import MurckoScaffold

T = TypeVar("T")

COLUMNS = ("smiles", "penalised_logp", "rule_4_400", "radius_of_gyration")
COUNT = 3000
SEED = 2309
HEAVY_ATOMS = range(8, 39)  # 38 is the largest molecule of ZINC
PER_SCAFFOLD = 6  # at most so many molecules share a Murcko scaffold; no ring counts as one too
BLANK_SHARE = 0.08  # of rule_4_400
ATTEMPTS_PER_MOLECULE = 50

# name, molecular formula, SMILES; drugs too large for HEAVY_ATOMS still give fragments
DRUGS = """
aciclovir C8H11N5O3 Nc1nc2c(ncn2COCCO)c(=O)[nH]1
allopurinol C5H4N4O O=c1[nH]cnc2[nH]ncc12
alprazolam C17H13ClN4 Cc1nnc2CN=C(c3ccccc3)c3cc(Cl)ccc3-n12
amiodarone C25H29I2NO3 CCCCc1oc2ccccc2c1C(=O)c1cc(I)c(OCCN(CC)CC)c(I)c1
amitriptyline C20H23N CN(C)CCC=C1c2ccccc2CCc2ccccc12
amlodipine C20H25ClN2O5 CCOC(=O)C1=C(COCCN)NC(C)=C(C1c1ccccc1Cl)C(=O)OC
amoxicillin C16H19N3O5S CC1(C)S[C@@H]2[C@H](NC(=O)[C@H](N)c3ccc(O)cc3)C(=O)N2[C@H]1C(=O)O
anastrozole C17H19N5 CC(C)(C#N)c1cc(Cn2cncn2)cc(c1)C(C)(C)C#N
apixaban C25H25N5O4 COc1ccc(cc1)-n1nc(C(N)=O)c2CCN(C(=O)c12)c1ccc(cc1)N1CCCCC1=O
aripiprazole C23H27Cl2N3O2 Clc1cccc(N2CCN(CCCCOc3ccc4CCC(=O)Nc4c3)CC2)c1Cl
aspirin C9H8O4 CC(=O)Oc1ccccc1C(=O)O
atenolol C14H22N2O3 CC(C)NCC(O)COc1ccc(CC(N)=O)cc1
bicalutamide C18H14F4N2O4S CC(O)(CS(=O)(=O)c1ccc(F)cc1)C(=O)Nc1ccc(C#N)c(c1)C(F)(F)F
brimonidine C11H10BrN5 Brc1c(NC2=NCCN2)ccc2nccnc12
bromhexine C14H20Br2N2 CN(Cc1cc(Br)cc(Br)c1N)C1CCCCC1
bupivacaine C18H28N2O CCCCN1CCCCC1C(=O)Nc1c(C)cccc1C
bupropion C13H18ClNO CC(NC(C)(C)C)C(=O)c1cccc(Cl)c1
buspirone C21H31N5O2 O=C1CC2(CCCC2)CC(=O)N1CCCCN1CCN(CC1)c1ncccn1
caffeine C8H10N4O2 Cn1c(=O)c2c(ncn2C)n(C)c1=O
captopril C9H15NO3S C[C@H](CS)C(=O)N1CCC[C@H]1C(=O)O
carbamazepine C15H12N2O NC(=O)N1c2ccccc2C=Cc2ccccc12
carvedilol C24H26N2O4 COc1ccccc1OCCNCC(O)COc1cccc2[nH]c3ccccc3c12
celecoxib C17H14F3N3O2S Cc1ccc(cc1)-c1cc(nn1-c1ccc(cc1)S(N)(=O)=O)C(F)(F)F
cetirizine C21H25ClN2O3 OC(=O)COCCN1CCN(CC1)C(c1ccccc1)c1ccc(Cl)cc1
chloramphenicol C11H12Cl2N2O5 OC[C@@H](NC(=O)C(Cl)Cl)[C@H](O)c1ccc(cc1)[N+](=O)[O-]
chloroquine C18H26ClN3 CCN(CC)CCCC(C)Nc1ccnc2cc(Cl)ccc12
chlorpromazine C17H19ClN2S CN(C)CCCN1c2ccccc2Sc2ccc(Cl)cc12
cimetidine C10H16N6S CNC(=NC#N)NCCSCc1nc[nH]c1C
ciprofloxacin C17H18FN3O3 OC(=O)c1cn(C2CC2)c2cc(N3CCNCC3)c(F)cc2c1=O
citalopram C20H21FN2O CN(C)CCCC1(OCc2cc(C#N)ccc12)c1ccc(F)cc1
clopidogrel C16H16ClNO2S COC(=O)[C@H](c1ccccc1Cl)N1CCc2sccc2C1
clozapine C18H19ClN4 CN1CCN(CC1)C1=Nc2cc(Cl)ccc2Nc2ccccc12
dasatinib C22H26ClN7O2S Cc1nc(Nc2ncc(s2)C(=O)Nc2c(C)cccc2Cl)cc(n1)N1CCN(CCO)CC1
diazepam C16H13ClN2O CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc12
diclofenac C14H11Cl2NO2 OC(=O)Cc1ccccc1Nc1c(Cl)cccc1Cl
diltiazem C22H26N2O4S COc1ccc(cc1)[C@@H]1Sc2ccccc2N(CCN(C)C)C(=O)[C@@H]1OC(C)=O
diphenhydramine C17H21NO CN(C)CCOC(c1ccccc1)c1ccccc1
donepezil C24H29NO3 COc1cc2CC(CC3CCN(Cc4ccccc4)CC3)C(=O)c2cc1OC
duloxetine C18H19NOS CNCC[C@H](Oc1cccc2ccccc12)c1cccs1
efavirenz C14H9ClF3NO2 O=C1Nc2ccc(Cl)cc2[C@@](O1)(C#CC1CC1)C(F)(F)F
enalapril C20H28N2O5 CCOC(=O)[C@H](CCc1ccccc1)N[C@@H](C)C(=O)N1CCC[C@H]1C(=O)O
erlotinib C22H23N3O4 COCCOc1cc2ncnc(Nc3cccc(c3)C#C)c2cc1OCCOC
ezetimibe C24H21F2NO3 O[C@@H](CC[C@H]1[C@H](N(C1=O)c1ccc(F)cc1)c1ccc(O)cc1)c1ccc(F)cc1
fenofibrate C20H21ClO4 CC(C)OC(=O)C(C)(C)Oc1ccc(cc1)C(=O)c1ccc(Cl)cc1
fluconazole C13H12F2N6O OC(Cn1cncn1)(Cn1cncn1)c1ccc(F)cc1F
fluoxetine C17H18F3NO CNCCC(Oc1ccc(cc1)C(F)(F)F)c1ccccc1
furosemide C12H11ClN2O5S NS(=O)(=O)c1cc(C(=O)O)c(NCc2ccco2)cc1Cl
gabapentin C9H17NO2 NCC1(CC(=O)O)CCCCC1
gefitinib C22H24ClFN4O3 COc1cc2ncnc(Nc3ccc(F)c(Cl)c3)c2cc1OCCCN1CCOCC1
glibenclamide C23H28ClN3O5S COc1ccc(Cl)cc1C(=O)NCCc1ccc(cc1)S(=O)(=O)NC(=O)NC1CCCCC1
haloperidol C21H23ClFNO2 OC1(CCN(CCCC(=O)c2ccc(F)cc2)CC1)c1ccc(Cl)cc1
hydrochlorothiazide C7H8ClN3O4S2 NS(=O)(=O)c1cc2c(cc1Cl)NCNS2(=O)=O
ibuprofen C13H18O2 CC(C)Cc1ccc(cc1)C(C)C(=O)O
imatinib C29H31N7O Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(n1)-c1cccnc1
indomethacin C19H16ClNO4 COc1ccc2c(c1)c(CC(=O)O)c(C)n2C(=O)c1ccc(Cl)cc1
isoniazid C6H7N3O NNC(=O)c1ccncc1
lamotrigine C9H7Cl2N5 Nc1nnc(c(N)n1)-c1cccc(Cl)c1Cl
lansoprazole C16H14F3N3O2S Cc1c(OCC(F)(F)F)ccnc1CS(=O)c1nc2ccccc2[nH]1
levetiracetam C8H14N2O2 CC[C@H](N1CCCC1=O)C(N)=O
levofloxacin C18H20FN3O4 C[C@H]1COc2c(N3CCN(C)CC3)c(F)cc3c2n1cc(C(=O)O)c3=O
lidocaine C14H22N2O CCN(CC)CC(=O)Nc1c(C)cccc1C
linezolid C16H20FN3O4 CC(=O)NC[C@H]1CN(C(=O)O1)c1ccc(N2CCOCC2)c(F)c1
lisinopril C21H31N3O5 NCCCC[C@H](N[C@@H](CCc1ccccc1)C(=O)O)C(=O)N1CCC[C@H]1C(=O)O
loratadine C22H23ClN2O2 CCOC(=O)N1CCC(CC1)=C1c2ccc(Cl)cc2CCc2cccnc12
losartan C22H23ClN6O CCCCc1nc(Cl)c(CO)n1Cc1ccc(cc1)-c1ccccc1-c1nn[nH]n1
meloxicam C14H13N3O4S2 Cc1cnc(NC(=O)C2=C(O)c3ccccc3S(=O)(=O)N2C)s1
memantine C12H21N CC12CC3CC(C)(C1)CC(N)(C3)C2
metformin C4H11N5 CN(C)C(=N)NC(N)=N
methotrexate C20H22N8O5 CN(Cc1cnc2nc(N)nc(N)c2n1)c1ccc(cc1)C(=O)N[C@@H](CCC(=O)O)C(=O)O
metoclopramide C14H22ClN3O2 CCN(CC)CCNC(=O)c1cc(Cl)c(N)cc1OC
metoprolol C15H25NO3 COCCc1ccc(OCC(O)CNC(C)C)cc1
metronidazole C6H9N3O3 Cc1ncc([N+](=O)[O-])n1CCO
modafinil C15H15NO2S NC(=O)CS(=O)C(c1ccccc1)c1ccccc1
naproxen C14H14O3 COc1ccc2cc(ccc2c1)[C@H](C)C(=O)O
nevirapine C15H14N4O Cc1ccnc2N(C3CC3)c3ncccc3C(=O)Nc12
nifedipine C17H18N2O6 COC(=O)C1=C(C)NC(C)=C(C1c1ccccc1[N+](=O)[O-])C(=O)OC
olanzapine C17H20N4S Cc1cc2c(Nc3ccccc3N=C2N2CCN(C)CC2)s1
omeprazole C17H19N3O3S COc1ccc2[nH]c(nc2c1)S(=O)Cc1ncc(C)c(OC)c1C
ondansetron C18H19N3O Cc1nccn1CC1CCc2c(C1=O)c1ccccc1n2C
oseltamivir C16H28N2O4 CCOC(=O)C1=C[C@@H](OC(CC)CC)[C@H](NC(C)=O)[C@@H](N)C1
paracetamol C8H9NO2 CC(=O)Nc1ccc(O)cc1
paroxetine C19H20FNO3 Fc1ccc(cc1)[C@@H]1CCNC[C@H]1COc1ccc2OCOc2c1
phenytoin C15H12N2O2 O=C1NC(=O)C(N1)(c1ccccc1)c1ccccc1
pioglitazone C19H20N2O3S CCc1ccc(CCOc2ccc(CC3SC(=O)NC3=O)cc2)nc1
pregabalin C8H17NO2 CC(C)C[C@H](CN)CC(=O)O
procaine C13H20N2O2 CCN(CC)CCOC(=O)c1ccc(N)cc1
propranolol C16H21NO2 CC(C)NCC(O)COc1cccc2ccccc12
quetiapine C21H25N3O2S OCCOCCN1CCN(CC1)C1=Nc2ccccc2Sc2ccccc12
ranitidine C13H22N4O3S CNC(=C[N+](=O)[O-])NCCSCc1ccc(CN(C)C)o1
risperidone C23H27FN4O2 Cc1nc2CCCCn2c(=O)c1CCN1CCC(CC1)c1noc2cc(F)ccc12
rivaroxaban C19H18ClN3O5S Clc1ccc(s1)C(=O)NC[C@H]1CN(C(=O)O1)c1ccc(cc1)N1CCOCC1=O
ropinirole C16H24N2O CCCN(CCC)CCc1cccc2NC(=O)Cc12
salbutamol C13H21NO3 CC(C)(C)NCC(O)c1ccc(O)c(CO)c1
sertraline C17H17Cl2N CN[C@H]1CC[C@@H](c2ccc(Cl)c(Cl)c2)c2ccccc12
sildenafil C22H30N6O4S CCCc1nn(C)c2c1nc([nH]c2=O)-c1cc(ccc1OCC)S(=O)(=O)N1CCN(C)CC1
sitagliptin C16H15F6N5O N[C@@H](CC(=O)N1CCn2c(C1)nnc2C(F)(F)F)Cc1cc(F)c(F)cc1F
sorafenib C21H16ClF3N4O3 CNC(=O)c1cc(Oc2ccc(NC(=O)Nc3ccc(Cl)c(c3)C(F)(F)F)cc2)ccn1
sulfamethoxazole C10H11N3O3S Cc1cc(NS(=O)(=O)c2ccc(N)cc2)no1
sumatriptan C14H21N3O2S CNS(=O)(=O)Cc1ccc2[nH]cc(CCN(C)C)c2c1
tadalafil C22H19N3O4 CN1CC(=O)N2[C@H](Cc3c([nH]c4ccccc34)[C@H]2c2ccc3OCOc3c2)C1=O
tamoxifen C26H29NO CCC(=C(c1ccccc1)c1ccc(OCCN(C)C)cc1)c1ccccc1
theophylline C7H8N4O2 Cn1c(=O)c2[nH]cnc2n(C)c1=O
tolbutamide C12H18N2O3S CCCCNC(=O)NS(=O)(=O)c1ccc(C)cc1
trimethoprim C14H18N4O3 COc1cc(Cc2cnc(N)nc2N)cc(OC)c1OC
valsartan C24H29N5O3 CCCCC(=O)N(Cc1ccc(cc1)-c1ccccc1-c1nn[nH]n1)[C@@H](C(C)C)C(=O)O
vandetanib C22H24BrFN4O2 COc1cc2c(Nc3ccc(Br)cc3F)ncnc2cc1OCC1CCN(C)CC1
venlafaxine C17H27NO2 COc1ccc(cc1)C(CN(C)C)C1(O)CCCCC1
verapamil C27H38N2O4 COc1ccc(CCN(C)CCCC(C#N)(C(C)C)c2ccc(OC)c(OC)c2)cc1OC
voriconazole C16H14F3N5O C[C@@H](c1ncncc1F)[C@](O)(Cn1cncn1)c1ccc(F)cc1F
warfarin C19H16O4 CC(=O)CC(c1ccccc1)c1c(O)c2ccccc2oc1=O
zolpidem C19H21N3O Cc1ccc(cc1)-c1nc2ccc(C)cn2c1CC(=O)N(C)C
"""


def penalised_logp(mol: Chem.Mol) -> float:
    """ZINC's label: logP − SA − cycle, each shifted and scaled by its mean and deviation in ZINC.

    logP is Crippen's, SA the synthetic accessibility score of RDKit's Contrib folder (1 easy to
    10 hard), and cycle = max(0, size of the largest ring − 6).

    Differs from ZINC: rings are RDKit's smallest ones, which do not depend on the order of the
    atoms. ZINC took networkx's cycle basis, whose cycles may run around two fused or bridged
    rings; so the label is lower there for about one molecule in 200 (mostly adamantanes), by
    1 / 0.28602122 = 3.496 for each atom by which that cycle is larger.
    """
    largest_ring = max((len(ring) for ring in mol.GetRingInfo().AtomRings()), default=0)
    cycle = max(0, largest_ring - 6)
    return (
        (Crippen.MolLogP(mol) - 2.45709540) / 1.43432440
        + (3.05258113 - _sa_scorer().calculateScore(mol)) / 0.83352070
        + (0.04856969 - cycle) / 0.28602122
    )


def rule_4_400(mol: Chem.Mol) -> bool:
    """Whether Crippen logP < 4 and molar mass < 400 g/mol (Gleeson, J. Med. Chem. 2008, 51, 817).

    Differs from the paper: logP is Crippen's, where the paper has clogP.
    """
    return Crippen.MolLogP(mol) < 4 and Descriptors.MolWt(mol) < 400


def radius_of_gyration(mol: Chem.Mol) -> float:
    """The radius of gyration of a conformer in Å: the root mean square distance of the atoms from
    their centre, by mass. The conformer is one of RDKit's, relaxed by its force field MMFF94.
    """
    shape = Chem.AddHs(mol)
    if rdDistGeom.EmbedMolecule(shape, randomSeed=SEED) < 0:
        raise RuntimeError(f"RDKit finds no conformer of {Chem.MolToSmiles(mol)}")
    rdForceFieldHelpers.MMFFOptimizeMolecule(shape)
    return rdMolDescriptors.CalcRadiusOfGyration(shape)


def read_drugs() -> list[Chem.Mol]:
    """The molecules of `DRUGS`.

    Raises:
        ValueError: a SMILES does not have the formula written beside it.
    """
    mols = []
    for line in DRUGS.strip().splitlines():
        name, formula, smiles = line.split()
        mol = Chem.MolFromSmiles(smiles)
        found = rdMolDescriptors.CalcMolFormula(mol) if mol is not None else "no molecule"
        if found != formula:
            raise ValueError(f"{name}: the SMILES gives {found}, but the formula is {formula}")
        mols.append(mol)
    return mols


def cut(mols: list[Chem.Mol]) -> list[Chem.Mol]:
    """The distinct BRICS fragments; a dummy atom's isotope says what kind of cut it was."""
    smiles = set()
    for mol in mols:
        for fragment in Chem.GetMolFrags(BRICS.BreakBRICSBonds(mol), asMols=True):
            smiles.add(Chem.MolToSmiles(fragment))
    fragments = [Chem.MolFromSmiles(s) for s in sorted(smiles)]  # a set's order is not stable
    # kind 7 is a double bond, which `join` does not make
    return [f for f in fragments if (kinds := _kinds(f)) and 7 not in kinds]


def join(left: Chem.Mol, left_dummy: int, right: Chem.Mol, right_dummy: int) -> Chem.Mol:
    """The two molecules with a single bond in place of the two dummy atoms."""
    both = Chem.CombineMols(left, right)
    for dummy in (left_dummy, left.GetNumAtoms() + right_dummy):
        both.GetAtomWithIdx(dummy).SetAtomMapNum(1)
    joined = Chem.molzip(both)
    Chem.SanitizeMol(joined)
    return joined


def make_smiles(count: int, seed: int) -> list[str]:
    """`count` different canonical SMILES: drugs of a fitting size, and recombined fragments.

    Raises:
        RuntimeError: the fragments do not give so many molecules within the limits above.
    """
    rng = Random(seed)
    drugs = read_drugs()
    fragments = cut(drugs)
    partners = _partners(fragments)
    scaffolds: Counter[str] = Counter()
    kept: dict[str, None] = {}  # a set that remembers its order
    for attempt in range(len(drugs) + count * ATTEMPTS_PER_MOLECULE):
        if len(kept) == count:
            break
        mol = drugs[attempt] if attempt < len(drugs) else _recombine(fragments, partners, rng)
        if mol is None or mol.GetNumHeavyAtoms() not in HEAVY_ATOMS:
            continue
        smiles = Chem.MolToSmiles(mol)
        reread = Chem.MolFromSmiles(smiles)
        if reread is None or Chem.MolToSmiles(reread) != smiles or smiles in kept:
            continue
        scaffold = MurckoScaffold.MurckoScaffoldSmiles(smiles)
        if scaffolds[scaffold] < PER_SCAFFOLD:
            scaffolds[scaffold] += 1
            kept[smiles] = None
    if len(kept) < count:
        raise RuntimeError(
            f"only {len(kept)} of {count} molecules found; add drugs or raise PER_SCAFFOLD"
        )
    return _shuffled(list(kept), rng)


def make_rows(count: int = COUNT, seed: int = SEED) -> list[tuple[str, ...]]:
    """The lines of the file under its header, as text; "" is a missing label."""
    rng = Random(seed + 1)
    rows = []
    for smiles in make_smiles(count, seed):
        mol = Chem.MolFromSmiles(smiles)
        blank = rng.random() < BLANK_SHARE
        rule = "" if blank else str(int(rule_4_400(mol)))
        numbers = f"{penalised_logp(mol):.4f}", rule, f"{radius_of_gyration(mol):.3f}"
        rows.append((smiles, *numbers))
    return rows


def main() -> None:
    """Write `demo.csv` beside this script, whole or not at all."""
    path = Path(__file__).with_name("demo.csv")
    rows = make_rows()
    temporary = path.with_suffix(".csv.tmp")
    with temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    os.replace(temporary, path)


@cache
def _sa_scorer() -> ModuleType:
    """RDKit's `sascorer`, which lies in a folder that is not on Python's path."""
    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("sascorer", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kinds(mol: Chem.Mol) -> list[int]:
    """The kind of each open end."""
    return [atom.GetIsotope() for atom in mol.GetAtoms() if atom.GetAtomicNum() == 0]


def _dummies(mol: Chem.Mol) -> list[int]:
    """The index of each open end."""
    return [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() == 0]


def _partners(fragments: list[Chem.Mol]) -> dict[int, list[tuple[Chem.Mol, int]]]:
    """For each kind of cut, the (fragment, dummy atom) pairs that BRICS lets it bond to."""
    singles = [rule for rules in BRICS.reactionDefs for rule in rules if rule[2] == "-"]
    allowed = defaultdict(set)
    for a, b in ((int(rule[0]), int(rule[1])) for rule in singles):
        allowed[a].add(b)
        allowed[b].add(a)
    ends = [(f, d) for f in fragments for d in _dummies(f)]
    return {
        kind: [(f, d) for f, d in ends if f.GetAtomWithIdx(d).GetIsotope() in others]
        for kind, others in allowed.items()
    }


def _recombine(
    fragments: list[Chem.Mol], partners: dict[int, list[tuple[Chem.Mol, int]]], rng: Random
) -> Chem.Mol | None:
    """Grow a random fragment until no end is open; None if it grew too large."""
    mol = _pick(fragments, rng)
    enough = 4 + 14 * rng.random()  # heavy atoms from which on only caps are added
    while dummies := _dummies(mol):
        if mol.GetNumHeavyAtoms() > HEAVY_ATOMS[-1]:
            return None
        dummy = _pick(dummies, rng)
        choices = partners[mol.GetAtomWithIdx(dummy).GetIsotope()]
        if mol.GetNumHeavyAtoms() >= enough:
            choices = [(f, d) for f, d in choices if len(_dummies(f)) == 1]
        fragment, end = _pick(choices, rng)
        mol = join(mol, dummy, fragment, end)
    return mol


def _pick(items: list[T], rng: Random) -> T:
    """One of the items. Of `Random`'s methods only `random()` is promised never to change."""
    return items[int(rng.random() * len(items))]


def _shuffled(items: list[str], rng: Random) -> list[str]:
    return [item for _, item in sorted((rng.random(), item) for item in items)]


if __name__ == "__main__":
    main()
