"""What to know of a table before a model learns from it, and a cleaned copy of it."""

from molsepnorm.checking.check import check_table, report_of
from molsepnorm.checking.clean import clean_scan, clean_table, removed_path, write_clean
from molsepnorm.checking.report import Finding, Group, Place, TableReport, TargetSummary
from molsepnorm.checking.scan import Scan, scan_table

__all__ = [
    "Finding",
    "Group",
    "Place",
    "Scan",
    "TableReport",
    "TargetSummary",
    "check_table",
    "clean_scan",
    "clean_table",
    "removed_path",
    "report_of",
    "scan_table",
    "write_clean",
]
