"""Validators for the JSON that docs/schemas documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import fastjsonschema

from tests.tools.status_schema import FILE


@cache
def valid(name: str) -> Callable[[Any], Any]:
    """Return a validator for docs/schemas/NAME; the validator raises JsonSchemaValueException."""
    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads((FILE.parent / name).read_text()))
    return check
