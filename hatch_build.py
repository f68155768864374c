"""Build hook: compiles the project's .proto files to Python beside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO_PACKAGES = ("hadoop_rpc/proto", "image_format/proto", "journal/proto")


def compile_protos(root: Path) -> None:
    """Compile every .proto below `PROTO_PACKAGES` to `*_pb2.py` and `*_pb2.pyi` in the same folder.

    Raises:
        RuntimeError: protoc refused a file; its own message is on stderr.
    """
    from grpc_tools import protoc

    for package in PROTO_PACKAGES:
        for source in sorted((root / package).glob("*.proto")):
            arguments = ["protoc", f"-I{root}", f"--python_out={root}", f"--pyi_out={root}", str(source)]
            if protoc.main(arguments) != 0:
                raise RuntimeError(f"protoc could not compile {source}")


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Runs `compile_protos` before a wheel or an editable install is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compile_protos(Path(self.root))


if __name__ == "__main__":
    compile_protos(Path(__file__).resolve().parent)
    sys.exit(0)
