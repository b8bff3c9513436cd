"""Check a table before training, and write a cleaned copy."""

from molsepnorm.data.checking.check import check_table, report_of
from molsepnorm.data.checking.clean import clean_scan, clean_table, removed_path, write_clean
from molsepnorm.data.checking.report import Finding, Group, Location, TableReport, TargetSummary
from molsepnorm.data.checking.scan import Scan, scan_table

__all__ = [
    "Finding",
    "Group",
    "Location",
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
