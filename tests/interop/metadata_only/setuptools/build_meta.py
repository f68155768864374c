"""A build backend (PEP 517) for pip's only request: it returns the metadata that is in the archive."""

from __future__ import annotations

import shutil
from email.parser import Parser
from pathlib import Path

_SOURCE = Path("PKG-INFO")


class _Backend:
    """Backend for archives that do not declare a backend; pip finds it under the name `__legacy__`."""

    def prepare_metadata_for_build_wheel(self, metadata_directory: str, config_settings: object = None) -> str:
        headers = Parser().parsestr(_SOURCE.read_text(encoding="utf-8"), headersonly=True)
        folder = Path(metadata_directory) / f"{headers['Name']}-{headers['Version']}.dist-info"
        folder.mkdir()
        shutil.copyfile(_SOURCE, folder / "METADATA")
        return folder.name


__legacy__ = _Backend()
