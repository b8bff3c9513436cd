"""Screen libraries of any size: predict many files, and keep the rows that matter."""

from molsepnorm.predict.screening.screen import ScreenOptions, ScreenProgress, screen

__all__ = ["ScreenOptions", "ScreenProgress", "screen"]
