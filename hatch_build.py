"""Build hook that compiles the project's .proto files to Python modules next to them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO_PACKAGES = ("hadoop_rpc/proto", "image_format/proto", "journal/proto")


def compile_protos(root: Path) -> None:
    """Compile every .proto below `PROTO_PACKAGES` to `*_pb2.py` and `*_pb2.pyi` in the same folder.

    Raises:
        RuntimeError: protoc refused a file; its message is on stderr.
    """
    from grpc_tools import protoc

    for package in PROTO_PACKAGES:
        for source in sorted((root / package).glob("*.proto")):
            arguments = ["protoc", f"-I{root}", f"--python_out={root}", f"--pyi_out={root}", str(source)]
            if protoc.main(arguments) != 0:
                raise RuntimeError(f"protoc could not compile {source}")


def shared_data(root: Path) -> dict[str, str]:
    """Return the files that a wheel installs below its prefix: configuration, units, documents, and the output of
    `man_pages`.
    """
    # hatch runs this file by itself, so the project is not on the path
    sys.path.insert(0, str(root))
    from install.documents import CONFIG, FOLDER, write_documents

    documents = root / "build" / "documents"
    write_documents(root, documents)
    found = {root / "config": CONFIG, documents: FOLDER}
    made = root / "build" / "share"
    if made.is_dir():
        found[made] = "share"
    return {str(source): target for source, target in found.items()}


def console_documents(root: Path) -> dict[str, str]:
    """Return the documents that the console serves, with their paths in the wheel."""
    found = [*(root / "docs").glob("*.md"), root / "SECURITY.md", root / "CHANGELOG.md"]
    return {str(path): f"console/docs/{path.name}" for path in sorted(found)}


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Hook that runs `compile_protos` before a wheel or an editable install is built, and adds `shared_data` to a
    wheel.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        compile_protos(root)
        if self.target_name == "wheel" and version != "editable":
            build_data["shared_data"] |= shared_data(root)
            build_data["force_include"] |= console_documents(root)


if __name__ == "__main__":
    compile_protos(Path(__file__).resolve().parent)
    sys.exit(0)
