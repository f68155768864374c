"""Software bill of materials: every wheel of a wheelhouse, in CycloneDX's JSON."""

from __future__ import annotations

import hashlib
import json
import zipfile
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, Final

_SPEC: Final = "1.6"
_APPROVED: Final = "License :: OSI Approved :: "
_MAX_NAME: Final = 80
"""A longer value of the License field is the text of a licence instead of its name."""


def bill_of_materials(wheelhouse: Path, program: str, epoch: int) -> str:
    """Return the bill of materials of `program`, which bundles all other wheels in `wheelhouse`.

    Args:
        wheelhouse: a folder of wheels.
        program: the released package's normalised name, as in a wheel's file name.
        epoch: the time of the release in seconds.

    Raises:
        OSError, zipfile.BadZipFile: a wheel cannot be read.
        ValueError: the document does not follow CycloneDX's schema.
    """
    components = {path.name.partition("-")[0]: _component(path) for path in sorted(wheelhouse.glob("*.whl"))}
    root = components.pop(program)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {**root, "type": "application"},
        },
        "components": list(components.values()),
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": [each["bom-ref"] for each in components.values()]}],
    }
    text = json.dumps(document, indent=2) + "\n"
    _validate(text)
    return text


def _component(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        about = BytesHeaderParser().parsebytes(archive.read(name))
    reference = f"pkg:pypi/{about['Name'].lower().replace('_', '-')}@{about['Version']}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": about["Name"],
        "version": about["Version"],
        "purl": reference,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
        "licenses": _licences(about),
    }


def _licences(about: Message) -> list[dict[str, Any]]:
    expression = about["License-Expression"]
    if expression is not None:
        return [{"expression": expression}]
    classified = [each for each in about.get_all("Classifier", []) if each.startswith(_APPROVED)]
    named = [each.removeprefix(_APPROVED) for each in classified] or [about["License"] or ""]
    return [{"license": {"name": name}} for name in named if 0 < len(name) <= _MAX_NAME]


def _validate(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    fault = JsonStrictValidator(SchemaVersion.from_version(_SPEC)).validate_str(text)
    if fault is not None:
        raise ValueError(f"the bill of materials does not follow CycloneDX {_SPEC}: {fault}")
