"""Read JSON files of molsepnorm; errors name the invalid entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from molsepnorm.errors import ModelError
from molsepnorm.files.writing import clear_errors


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or raise a `ModelError` if it is damaged."""
    try:
        with clear_errors(path, "read"):
            return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}") from error
    except RecursionError as error:
        raise ModelError(f"{path} is damaged: its brackets are nested too deeply") from error


def check_types(kind: Any, content: Any, what: str) -> Any:
    """Convert JSON content to a type that pydantic supports. The `ModelError` about a wrong entry
    begins with `what`, which contains the name of the file."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(content), strict=True)
    except ValidationError as invalid:
        error = invalid.errors(include_url=False)[0]
        entry = ".".join(str(part) for part in error["loc"])
        message = error["msg"].removeprefix("Value error, ")
        where = f"{what}: {entry}" if entry else what
        got = "" if error["type"] == "value_error" else f"; got {error['input']!r:.80}"
        raise ModelError(f"{where}: {message}{got}") from None
