"""Generator of docs/schemas/status.json from the classes of /status: python -m tests.tools.status_schema --write."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from checkpointer.cli.run_command import role_class
from node_state.state import NodeState, as_json
from site_config.checkpoint_config import Role

FILE = Path(__file__).parents[2] / "docs" / "schemas" / "status.json"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "string"}


def schema() -> dict[str, Any]:
    """Return the schema: every role requires all keys; a role's name determines the keys that it adds."""
    common = _object(NodeState)
    del common["additionalProperties"]
    roles = [
        {"if": {"properties": {"role": {"const": role.value}}}, "then": _added(_details(role_class(role)))}
        for role in Role
    ]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Response of GET /status of a daemon; times are in seconds since the epoch",
        **common,
        "allOf": roles,
    }


def _details(role: Any) -> type:
    found: type = typing.get_type_hints(role.details)["return"]
    return found


def _added(details: type) -> dict[str, Any]:
    common, all_of_it = _object(NodeState)["properties"], _object(details)
    own = {name: kind for name, kind in all_of_it["properties"].items() if name not in common}
    return {"required": sorted(own), "properties": own}


def _object(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    for each in fields(kind):
        if each.metadata.get("flat"):
            properties |= _object(hints[each.name])["properties"]
        else:
            properties[_json_name(each.name)] = _kind(hints[each.name])
    return {
        "type": "object",
        "required": sorted(properties),
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _kind(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return {"anyOf": [_kind(inner), {"type": "null"}]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _kind(arguments[1])}
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": _kind(arguments[0])}
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _object(hint)
    if issubclass(hint, Enum):
        return {"enum": [as_json(each) for each in hint]}
    return {"type": _PLAIN[hint]}


def main(arguments: list[str]) -> None:
    text = json.dumps(schema(), indent=1) + "\n"
    if arguments == ["--write"]:
        FILE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
