"""Read YAML and times from text that may be hostile, and show values in messages."""

from __future__ import annotations

import math
from typing import Any

import yaml

_MAX_LENGTH = 1_000_000  # a list of many targets is long
_MAX_DEPTH = 20
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_SHOWN = 200  # characters of a value in a message


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, deep nesting and duplicate keys."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.YAMLError(f"line {mark.line + 1}: aliases (*name) are not supported")
        if self.depth == _MAX_DEPTH:
            raise yaml.YAMLError(f"more than {_MAX_DEPTH} levels are nested in each other")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if (key.tag, str(key.value)) in seen:
                problem = f"{shown(key.value)} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    value = loader.construct_yaml_int(node)
    if value.bit_length() > 10_000:  # Python refuses to print it in decimals
        raise ValueError("an integer has thousands of digits")
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    >>> parse_yaml("[1, 2.5, yes, a]")
    [1, 2.5, True, 'a']

    Raises:
        ValueError: the text is not YAML, or is longer or more deeply nested than settings are. The
            message is one line.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"it has {len(text):,} characters; at most {_MAX_LENGTH:,} are supported")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise ValueError(f"the character {chr(error.character)!a} does not belong there") from None
    except (
        *(yaml.YAMLError, ValueError, OverflowError, RecursionError),
        *(TypeError, AttributeError),  # raised by PyYAML for `!!timestamp x`
    ) as error:
        # for example for the date 2024-13-45
        raise ValueError(" ".join(str(error).split())) from None


def shown(value: object) -> str:
    """Return the value as Python prints it, shortened for a message."""
    try:
        written = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a very large {type(value).__name__}"
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]} …"


def seconds_of(text: str) -> float:
    """Return a time such as 640s, 11m or 1.5h in seconds.

    Raises:
        ValueError: the text is not a time, or the time is not above zero.
    """
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"a time looks like 640s, 11m or 1.5h; got '{text}'")
    return seconds
