"""The `data` section of a configuration: which molecules, labels and split."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    field_serializer,
    model_validator,
)

from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import ConfigError
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.tasks.inputs import FeatureKind, column_names, names_text, with_further_molecules
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.transforms import NO_TRANSFORM, transform_of

MAX_SEED = 2**63 - 1
"""The largest seed that every random generator accepts."""

NONE = "none"  # instead of the name of a column
_OF_PREDICTIONS = ("error", "similarity", "in_domain", "nearest_smiles")
"""Columns that `predict` adds to a table."""
_NOT_RANDOM = ("scaffold-ogb", "time")  # types of splits
_OF_SETS = ("dataset", "data_dir", "molecule_features", "smiles_column", "on_invalid")
_NOT_OF_STRUCTURES = (
    *("targets", "task_type", "classes", "targets_except", "weight_column", "error_column"),
    *("feature_columns", "transform", "duplicates", "relation_column", "unit_column"),
    *("missing_values", "limits", "molecule_features", "splits_column", "time_column"),
    *("auxiliary", "split_by"),
)


def _checked_path(path: Path) -> Path:
    if "\0" in str(path) or len(str(path)) > 4096:
        raise ValueError("a path has at most 4096 characters, none of them NUL")
    return path


def _ordered(values: Any) -> Any:
    if isinstance(values, Set):
        raise ValueError("a set has no order: write a list")
    return values


def _parse_fractions(value: Any) -> Any:
    """Accept three numbers, or a text such as `0.8,0.1,0.1`."""
    if value is None:
        return None
    numbers = value.replace(",", " ").split() if isinstance(value, str) else _ordered(value)
    try:
        train, val, test = map(float, numbers)
    except (TypeError, ValueError):
        train = val = test = 0.0
    if not (min(train, val) > 0 <= test and abs(train + val + test - 1) <= 1e-6):
        raise ValueError(
            "must be three fractions that sum to 1; only the last one, the test split, may be 0. "
            "An example is 0.8,0.1,0.1"
        )
    return train, val, test


def parse_pairs(text: Any) -> Any:
    """Parse pairs, where a name with a comma is quoted; return other values unchanged.

    >>> parse_pairs('a=pic50, "b, total"=log10')
    {'a': 'pic50', 'b, total': 'log10'}
    """
    if not isinstance(text, str):
        return text
    pairs = (part.rpartition("=") for part in column_names(text))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _parse_kinds(value: Any) -> Any:
    """Accept one kind, a dictionary of kinds, or a text such as `a=binary,b=multiclass`."""
    if value is None:
        return None
    pairs = isinstance(value, dict) or (isinstance(value, str) and "=" in value)
    kinds = parse_pairs(value) if pairs else {"": value}
    kinds = {name: "binary" if kind == "classification" else kind for name, kind in kinds.items()}
    for name, kind in kinds.items():
        if kind not in get_args(Kind) or (pairs and not name):
            raise ValueError(
                f"'{kind}': write one kind for all targets, or only pairs such as "
                f"activity=binary,colour=multiclass; the kinds are {', '.join(get_args(Kind))}"
            )
    return kinds if pairs else kinds[""]


def _parse_columns(value: Any) -> Any:
    """Accept the name of a column, a dictionary, or a text such as `a=a_se,b=b_se`."""
    columns = parse_pairs(value) if isinstance(value, str) and "=" in value else value
    named = [*columns, *columns.values()] if isinstance(columns, dict) else [columns]
    if columns == {} or "" in named:
        raise ValueError("write one column for the only target, or pairs such as a=a_se,b=b_se")
    return columns


def _parse_transforms(value: Any) -> Any:
    """Accept a dictionary, or a text such as `ic50_nM=pic50,dose=log10`; spell out the units."""
    value = parse_pairs(value)
    texts = (*value, *value.values()) if isinstance(value, dict) else ("",)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError("write target=transform pairs, such as ic50_nM=pic50,dose=log10")
    transforms = {name: transform_of(text, name) for name, text in value.items()}
    return {name: each.name if each else NO_TRANSFORM for name, each in transforms.items()}


def _parse_limits(value: Any) -> Any:
    """Accept a dictionary, or a text such as `a=0.68:,b=:100,c=1:9`."""
    pairs, parsed = parse_pairs(value), {}
    for name, limits in pairs.items() if isinstance(pairs, dict) else [("", pairs)]:
        ends = limits.split(":") if isinstance(limits, str) else limits
        try:
            low, high = (None if end in ("", None) else float(end) for end in ends)
        except (TypeError, ValueError):
            low = high = None
        if not name or low == high or (low is not None and high is not None and low > high):
            raise ValueError("write target=lowest:highest, such as a=0.68:, b=:100 or c=1:9")
        parsed[name] = low, high
    return parsed


def _parse_auxiliary(value: Any) -> Any:
    """Accept a dictionary of files, each with its targets, or texts such as `a.csv:dose,active`."""
    texts = value if isinstance(value, dict | list | tuple) else [value]
    pairs = [*texts.items()] if isinstance(texts, dict) else []
    for text in [] if isinstance(texts, dict) else texts:
        path, _, names = str(text).rpartition(":")
        pairs.append((path, [name.strip() for name in names.split(",")]))
    parsed = {str(path): names for path, names in pairs}
    for path, names in pairs:
        texts = [str(name) for name in names] if isinstance(names, list | tuple) else [""]
        if not path or not all(texts) or len({*texts}) < len(texts) or len(parsed) < len(pairs):
            raise ValueError("write each FILE:TARGETS once, such as screen.csv:log2fc,active")
    return parsed


def _known_featurizer(name: str) -> str:
    _ = SIZES[name]  # raises an error that suggests the nearest name
    return name


def _known_encoding(name: str | None) -> str | None:
    try:
        codecs.lookup(name or "utf-8")
    except LookupError:
        raise ValueError(f"'{name}' is no encoding that Python knows, such as cp1252") from None
    return name


def _numbers_or_none(texts: list[str] | None) -> list[str] | None:
    for text in texts or () if texts != ["none"] else ():
        try:
            float(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a number; write numbers, or none alone") from None
    return texts


_FilePath = Annotated[Path, AfterValidator(_checked_path)]
_Names = Annotated[list[str], BeforeValidator(_ordered)]


class DataConfig(BaseModel):
    """Molecules, labels and split: a named data set, or a table of your own."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    dataset: Annotated[str | None, "--dataset"] = None
    """Name of a data set; `molsepnorm data list` shows all names."""
    table: Annotated[_FilePath | None, "--data"] = None
    """File with SMILES and labels: CSV, TSV, Parquet, Excel, SDF or .smi, optionally compressed."""
    structures: Annotated[list[_FilePath], BeforeValidator(_ordered)] = []
    """Files of molecules without labels, for pre-training: a table in any of these formats."""
    data_dir: Annotated[_FilePath | None, "--data-dir"] = None
    """Folder with the raw files of named data sets. By default $MOLSEPNORM_DATA; missing files are
    downloaded."""

    in_memory: bool = False
    """The data set was passed to `molsepnorm.fit`; it cannot be set."""

    smiles_column: Annotated[str, "--smiles-column"] = "smiles"
    """Name of the SMILES column, or of those of several molecules in a row: solute,solvent."""
    decimal: Annotated[Literal[".", ","] | None, "--decimal"] = None
    """Decimal mark of numbers: a point or a comma, beside which points may group thousands. By
    default a point, unless the numbers of a file with semicolons leave it open."""
    encoding: Annotated[str | None, AfterValidator(_known_encoding), "--encoding"] = None
    """Encoding of a text file, such as cp1252. By default UTF-8, or UTF-16 with its mark."""
    sheet: Annotated[str | None, "--sheet"] = None
    """Sheet of a workbook. By default the only one with a column of SMILES."""
    header_row: Annotated[int | None, "--header-row"] = Field(None, ge=1)
    """Number of the line, or row of a sheet, that has the names of the columns. By default the
    first."""
    targets: Annotated[_Names | None, "--targets"] = None
    """Columns to predict, separated by commas, or patterns such as 'pIC50*'. By default the only
    column of numbers, or those that data.transform, data.task_type, data.classes or data.limits
    name.

    In YAML, a list of names. Columns that another setting names are not targets."""
    task_type: Annotated[
        Kind | dict[str, Kind] | None, BeforeValidator(_parse_kinds), "--task-type"
    ] = None
    """Kind of all targets (regression, binary or multiclass), or pairs such as
    a=binary,b=multiclass. By default inferred from the labels."""
    classes: dict[str, _Names] = {}
    """Ordered class names of targets whose labels are words, by target. Two classes, negative and
    positive, are a binary target. By default the classes found in the table, sorted; of two, one
    that negates the other, such as inactive or non-toxic, is the negative one."""
    targets_except: Annotated[_Names, "--targets-except"] = []
    """Columns that are not targets, separated by commas, or patterns such as 'pred*'."""
    weight_column: Annotated[str | None, "--weight-column"] = None
    """Column of sample weights for the loss.

    Weights are non-negative numbers; an empty cell counts as 1. The labels of a row of weight 0
    count as missing."""
    error_column: Annotated[
        str | dict[str, str] | None, BeforeValidator(_parse_columns), "--error-column"
    ] = None
    """Column of standard errors of the labels, or pairs such as a=a_se,b=b_se. Labels with a larger
    error have a smaller weight.

    Errors are in the unit of the label's cell. An empty cell counts as the median error, and 0 as
    an exact label. See docs/assays.md."""
    missing_values: Annotated[
        _Names | None, AfterValidator(_numbers_or_none), "--missing-values", "Labels"
    ] = None
    """Numbers that stand for missing labels, such as -999, separated by commas; none if a number
    that looks like it is a label."""
    relation_column: Annotated[str | None, "--relation-column", "Labels"] = None
    """Column with relations such as > and <, which make the numbers of the target bounds. Write
    none if a column that looks like it belongs to something else. Exports of ChEMBL need no option.
    """
    unit_column: Annotated[str | None, "--unit-column", "Labels"] = None
    """Column with units such as nM and uM. The numbers of the target are converted to nM. Write
    none if a column that looks like it belongs to something else."""
    limits: Annotated[
        dict[str, tuple[FiniteFloat | None, FiniteFloat | None]],
        BeforeValidator(_parse_limits),
        "--limits",
        "Labels",
    ] = {}
    """Limits of the assays of regression targets, lowest:highest, such as logD=0.68:,dose=:100.
    Labels at a limit or beyond it are bounds. By default only labels with a sign such as > are.

    If the numbers are converted to nM, the limits are in nM, too."""
    transform: Annotated[
        dict[str, str], BeforeValidator(_parse_transforms), "--transform", "Labels"
    ] = {}
    """Transforms of regression targets, such as ic50_nM=pic50,dose=log10. The model learns the
    transformed values, and predictions have both scales. By default labels are not transformed.

    The names are log10, none, and pic50, which is -log10 of a concentration in mol/L. The unit of
    pic50 is the last word of the column's name (pM, nM, uM, mM or M); for other names it is given
    as in activity=pic50:nM."""
    duplicates: Annotated[Literal["keep", "mean"], "--duplicates", "Labels"] = "keep"
    """Keep several rows of the same molecule, or merge them into one row with the mean label.

    mean merges the rows before the split, see docs/assays.md."""
    feature_columns: Annotated[_Names, "--feature-columns"] = []
    """Columns that are inputs, such as a temperature or an assay, separated by commas.

    Numbers are standardised, words are one-hot encoded. Prediction needs the same columns.
    assay:category reads numbers as words, pH:number whole numbers as quantities, solvent:molecule
    SMILES of further molecules (docs/several-molecules.md)."""
    auxiliary: Annotated[
        dict[_FilePath, Annotated[_Names, Field(min_length=1)]],
        BeforeValidator(_parse_auxiliary),
        "--auxiliary",
    ] = {}
    """Another table, of any molecules, and its targets, such as screen.csv:log2fc,active; may be
    repeated. A model of them is trained first, and its predictions are inputs.

    In YAML, a mapping from files to lists of targets. See docs/auxiliary.md."""
    molecule_features: Annotated[
        list[Literal["morgan", "rdkit"]], BeforeValidator(_ordered), "--molecule-features"
    ] = []
    """Further inputs that RDKit computes from the molecules: morgan (2,048 counts of the Morgan
    fingerprint of radius 2), rdkit (its 2D descriptors), or both, separated by commas."""
    featurizer: Annotated[str, AfterValidator(_known_featurizer), "--featurizer"] = "ogb"
    """Features of a table's molecules: ogb, zinc, or a registered featuriser. Named data sets
    have their own."""
    standardize: Annotated[Level, "--standardize"] = "none"
    """How far structures are standardised by RDKit: none, salts, parent or tautomer.

    salts keeps the largest fragment, parent also removes charges, and tautomer also chooses RDKit's
    canonical tautomer. The model keeps the setting and applies it to all SMILES that it reads. See
    docs/assays.md."""
    on_invalid: Annotated[Literal["skip", "fail"], "--on-invalid"] = "skip"
    """Skip and report invalid SMILES, or fail."""

    split: Annotated[
        tuple[float, float, float] | None, BeforeValidator(_parse_fractions), "--split", "Split"
    ] = (0.8, 0.1, 0.1)
    """Fractions of the training, validation and test split. 0.9,0.1,0 leaves no row for a test:
    the model learns from all rows and is not scored.

    For tables only. null makes no split, which is enough to score a model on all molecules."""
    split_type: Annotated[
        Literal["random", "stratified", "scaffold", "scaffold-ogb", "butina", "time"],
        "--split-type",
        "Split",
    ] = "random"
    """How molecules are split: at random, by Bemis–Murcko scaffold, by similarity, or by time.

    Rows of the same molecule (without SMILES, of the same graph) are in one split, unless the
    split is by time or by a column (data.split_by). stratified is random, with the same share of
    each class, or combination of classes, in all splits. scaffold and butina use common scaffolds,
    or large clusters, for training, and assign the others at random. scaffold-ogb assigns scaffolds
    from the most to the least common, whatever the seed, as OGB did; it treats stereoisomers of a
    scaffold as different scaffolds, which is its only difference from DeepChem's scaffold split.
    time needs data.time_column. See docs/training.md."""
    split_seed: Annotated[int, "--split-seed", "Split"] = Field(0, ge=0, le=MAX_SEED)
    """Random seed for the split."""
    split_by: Annotated[str | None, "--split-by", "Split"] = None
    """Column whose rows with equal cells stay in one split, such as a solvent. With several, such
    as solute,solvent, a row is tested if it is new in all of them; the shares hold for each column,
    and rows that are new in some only are left out. none draws rows: only those that agree in all
    molecules and feature columns stay together."""
    splits_column: Annotated[str | None, "--splits-column", "Split"] = None
    """Column that assigns each row to train, val (or valid) or test.

    Rows with an empty cell are left out. If no row is named val, the validation rows are drawn from
    the training rows at random, one in nine of them. If no row is named test, the model is not
    scored. With --folds the rows of train and val are divided into folds."""
    time_column: Annotated[str | None, "--time-column", "Split"] = None
    """Column of times for the split type time: dates, years or other numbers.

    Rows of the same time stay in one split, the older one. Rows with an empty cell are left out."""
    time_format: Annotated[str | None, "--time-format", "Split"] = None
    """Format of the times, such as %d/%m/%Y. ISO dates (2021-05-03) and numbers need none; for
    numbers that look like dates it is number."""
    splits_file: Annotated[_FilePath | None, "--splits-file", "Split"] = None
    """JSON file with the rows of each split, in the format of chemprop's splits.json."""
    folds: Annotated[int | None, "--folds", "Split"] = Field(None, ge=2, le=1000)
    """Number of cross-validation folds; the test set is held out."""
    fold: Annotated[int, "--fold", "Split"] = Field(0, ge=0, le=1_000_000)
    """Fold used for validation (for the test with --no-test), or entry of the splits file, counted
    from 0.

    Without folds and without a splits file, this is the number of a replicate: the training and
    validation molecules are drawn again, the test molecules stay the same."""

    test_set: Annotated[bool, "--no-test", "Split"] = True
    """By default the test set of cross-validation is held out of all folds. With --no-test every
    fold is the test set of one run.

    The validation molecules are then drawn from those outside the fold, by data.split_type and in
    the ratio of the first two shares of data.split. `molsepnorm benchmark` scores every fold once
    and writes oof_predictions.csv."""

    @property
    def label(self) -> str:
        """Name of the set, or of the file without suffixes, for folders."""
        if self.dataset is not None:
            return self.dataset
        file = self.structures[0] if self.structures else self.table
        assert file is not None
        return file.name.split(".")[0] or "table"

    @property
    def features(self) -> dict[str, FeatureKind | None]:
        """The feature columns, and the kind of each that `feature_columns` declares."""
        kinds: dict[str, FeatureKind | None] = {}
        for text in self.feature_columns:
            name, _, kind = text.rpartition(":")
            declared = [known for known in get_args(FeatureKind) if name and kind == known]
            kinds[name if declared else text] = declared[0] if declared else None
        return kinds

    @property
    def errors(self) -> dict[str, str]:
        """The columns of `error_column` by target; "" is the only target."""
        columns = self.error_column
        return columns if isinstance(columns, dict) else {"": columns} if columns else {}

    @property
    def missing_numbers(self) -> list[float]:
        return [float(text) for text in self.missing_values or () if text != "none"]

    @property
    def reading(self) -> ReadOptions:
        return ReadOptions(
            self.smiles_column, self.decimal, self.encoding, self.sheet, self.header_row
        )

    @property
    def column_of_split(self) -> str | None:
        return self.splits_column or self.time_column

    @property
    def kept_together(self) -> list[str]:
        """The columns of `split_by`."""
        return [] if self.split_by in (None, NONE) else column_names(str(self.split_by))

    @property
    def columns_by_role(self) -> dict[str, list[str]]:
        """The columns that have a role, by the setting that names them."""
        of_rows = ("weight_column", "splits_column", "time_column")
        one = (*of_rows, "relation_column", "unit_column")
        return {
            "targets": self.targets or [],
            "targets_except": self.targets_except,
            "smiles_column": [] if self.in_memory else [self.smiles_column],
            **{role: [name] for role in one if (name := getattr(self, role)) not in (None, NONE)},
            "error_column": [*self.errors.values()],
            "split_by": self.kept_together,
            "feature_columns": list(self.features),
        }

    @property
    def molecules(self) -> list[str]:
        """The feature columns of molecules."""
        return [name for name, kind in self.features.items() if kind == "molecule"]

    @property
    def leak_columns(self) -> list[str]:
        """Further molecules, and the inputs that split the rows. Rows of one molecule may be in
        different splits if these columns differ."""
        by = self.features if self.split_by == NONE else self.kept_together
        return [name for name in self.features if name in self.molecules or name in by]

    def columns_with_roles(self, but: str = "") -> set[str]:
        """Return the columns with another role than this one, see `columns_by_role`."""
        roles = self.columns_by_role.items()
        return {name for role, names in roles if role != but for name in names}

    @property
    def names_rows(self) -> bool:
        """True if a column or a file names the rows of each split."""
        return self.splits_column is not None or self.splits_file is not None

    @property
    def draws_molecules(self) -> bool:
        """True if a split draws single molecules, not scaffolds, clusters or times."""
        return self.split_type in ("random", "stratified")

    @property
    def draws_test(self) -> bool:
        """True unless the splits are drawn and the share of the test split in `split` is 0."""
        if self.split is None or self.dataset or self.names_rows:
            return True
        return self.split[2] > 0 or not self.test_set

    def require_split(self) -> None:
        """Raise a `ConfigError` if there is no split to train with."""
        if self.dataset is None and self.split is None:
            raise ConfigError("data.split: null is for evaluation; training needs a split")

    def require_effect(self, given: Iterable[str]) -> None:
        """Raise a `ConfigError` if settings of the random split, whose dotted names are given, have
        no effect beside another setting that defines the split."""
        for name in {"data.split", "data.split_seed"}.intersection(given):
            drawn = name == "data.split_seed" and self.folds is not None
            if self.names_rows and self.split is not None and not drawn:
                named = "splits_file" if self.splits_column is None else "splits_column"
                raise ConfigError(
                    f"{name} and data.{named} both define the split: keep one. Validation rows "
                    f"that data.{named} does not name are drawn"
                )
            if name == "data.split_seed" and self.split_type in _NOT_RANDOM:
                raise ConfigError(
                    f"{name} has no effect, because data.split_type: {self.split_type} is not "
                    "random: leave it out"
                )

    @model_validator(mode="before")
    @classmethod
    def _of_further_molecules(cls, values: Any) -> Any:
        return with_further_molecules(values) if isinstance(values, dict) else values

    @field_serializer("smiles_column", when_used="json")
    def _quoted(self, name: str) -> str:
        return names_text([name])

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        for is_wrong, message in chain(self._of_sources(), self._of_columns(), self._of_splits()):
            if is_wrong:
                raise ValueError(message)
        return self

    def _of_sources(self) -> Iterator[tuple[bool, str]]:
        """Yield problems of the source, and settings that it does not have."""
        named = (self.dataset is not None, self.table is not None, bool(self.structures))
        yield (
            sum(named) + self.in_memory != 1,
            "name one source: a data set (--dataset zinc) or a table (--data FILE.csv); files of "
            "molecules without labels are data.structures",
        )
        for name, field in type(self).model_fields.items():
            is_set = getattr(self, name) != field.get_default()
            yield (
                is_set and self.dataset is not None and name not in _OF_SETS,
                f"data.{name} is for tables: {self.dataset} has its own targets, splits and "
                "features",
            )
            yield (
                is_set and bool(self.structures) and name in _NOT_OF_STRUCTURES,
                f"data.{name} is for tables of labels, and only the SMILES of data.structures are "
                "read: set it when the pre-trained model is fine-tuned",
            )
        untested = bool(self.structures) and not self.draws_test
        yield untested, "pre-training is scored on a test split: use shares such as 0.98,0.01,0.01"

    def _of_columns(self) -> Iterator[tuple[bool, str]]:
        """Yield feature columns with another role, repeated names, and rows that differ but would
        be merged."""
        for role, names in self.columns_by_role.items():
            for name in {*names}.intersection(self.features):
                is_molecule = role == "smiles_column" and name in self.molecules
                yield (
                    role not in ("feature_columns", "time_column", "split_by") and not is_molecule,
                    f"data.feature_columns and data.{role} both name '{name}': a column has one "
                    "role",
                )
        for name in {*_OF_PREDICTIONS}.intersection(self.features):
            added = "a column that predict adds to a table: rename the column"
            yield True, f"data.feature_columns names '{name}', {added}"
        lists = {f"classes of '{name}'": classes for name, classes in self.classes.items()}
        lists |= {"molecule_features": [*self.molecule_features], "targets": self.targets or []}
        for setting, names in lists.items():
            yield len({*names}) < len(names), f"data.{setting} repeats a name: {', '.join(names)}"
        repeated = len(self.features) < len(self.feature_columns)
        yield repeated, f"data.feature_columns repeats a name: {', '.join(self.feature_columns)}"
        yield (
            self.duplicates == "mean" and bool(self.feature_columns or self.split_type == "time"),
            "data.duplicates: mean would mix measurements under different conditions "
            "(data.feature_columns) or at different times (data.split_type: time): leave one out",
        )

    def _of_splits(self) -> Iterator[tuple[bool, str]]:
        """Yield settings of the split that contradict each other."""
        names = ("splits_column", "splits_file", "folds")
        ways = [f"data.{name}" for name in names if getattr(self, name) is not None]
        ways += ["data.split_by"] * (self.split_by is not None and ways != ["data.folds"])
        if self.split_type != "random" and (self.names_rows or self.split_by):
            ways.append(f"data.split_type: {self.split_type}")
        if self.split is None and ways:
            ways.append("data.split: null")
        if len(self.kept_together) > 1 and self.folds is not None:
            yield True, "data.folds needs data.split_by with one column: leave the others out"
        if len(ways) > 1 and ways != ["data.splits_column", "data.folds"]:
            yield True, f"{ways[0]} and {ways[-1]} both define the split: keep one"
        by_time = self.split_type == "time"
        yield (
            by_time != (self.time_column is not None),
            "data.split_type: time (--split-type time) and data.time_column (--time-column) "
            "belong together: set both or neither",
        )
        without_times = self.time_format is not None and not by_time
        yield without_times, "data.time_format is that of data.time_column: set both or neither"
        yield (
            self.folds is not None and not self.draws_test,
            "data.folds divides the rows outside the test split, whose share in data.split is 0: "
            "use shares such as 0.8,0.1,0.1, or --no-test, with which each fold is a test split",
        )
        yield (
            self.split_type in _NOT_RANDOM and (self.folds is not None or self.fold > 0),
            f"data.split_type: {self.split_type} is not random, so there are neither folds nor "
            "replicates: leave data.folds and data.fold out",
        )
        named_once = self.splits_column is not None and self.folds is None and self.fold > 0
        yield named_once, "data.splits_column holds one split, so data.fold must be 0"
        yield (
            not self.test_set and (self.splits_column is not None or self.folds is None),
            "data.test_set: false (--no-test) makes each fold the test set of one run: set "
            "data.folds (--folds 5), and leave data.splits_column out",
        )
        yield (
            self.folds is not None and self.fold >= self.folds,
            f"data.fold counts from 0, so with {self.folds} folds it is at most "
            f"{(self.folds or 1) - 1}; got {self.fold}",
        )
