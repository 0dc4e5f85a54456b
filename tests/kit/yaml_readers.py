"""The same YAML through two independent readers: 1.1 (PyYAML, libyaml) and 1.2 (ruamel.yaml, pure Python)."""

from __future__ import annotations

from io import StringIO
from typing import Any

import yaml
from ruamel.yaml import YAML


def read_11(source: str) -> Any:
    return yaml.load(source, Loader=yaml.CSafeLoader)


def read_12(source: str) -> Any:
    return YAML(typ="safe", pure=True).load(StringIO(source))


def read_both(source: str) -> Any:
    """The value; fails when the two readers do not agree."""
    old, new = read_11(source), read_12(source)
    assert old == new
    return old
