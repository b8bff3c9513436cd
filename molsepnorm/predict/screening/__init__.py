"""Screen libraries of any size: predict many files, and keep the rows that matter.

- `library`: the files of a library, and the tasks into which they are cut;
- `filters`: conditions on columns;
- `results`: the folder of the output, its parts and its manifest;
- `screen`: all of it, in one process or in several.
"""

from molsepnorm.predict.screening.screen import ScreenOptions, ScreenProgress, screen

__all__ = ["ScreenOptions", "ScreenProgress", "screen"]
