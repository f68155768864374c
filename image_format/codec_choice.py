"""Choice of the codec of a new image: some are used only if a NameNode wrote the old image with them.

A NameNode without the library of a codec can neither load nor save such an image. So an old image with the codec shows
that its NameNode has the library. Sources: SnappyCodec, Lz4Codec and ZStandardCodec of hadoop-common, and the
dependencies of its pom.xml.
"""

from __future__ import annotations

from dataclasses import dataclass

from image_format.codecs import codec_class_name
from image_format.layout import LayoutVersion, supports

DEFAULT_CODEC = codec_class_name("default")


@dataclass(frozen=True, slots=True)
class CodecLibrary:
    """Library of a codec on a NameNode; `bundled` is the first layout whose releases include it."""

    name: str
    bundled: LayoutVersion | None = None


_LIBRARIES = {
    codec_class_name("snappy"): CodecLibrary(
        # 3.3.1 includes it too, but has the same layout as 3.3.0.
        "Hadoop 3.3.1 or newer, or the native Hadoop library with Snappy",
        LayoutVersion.NVDIMM_SUPPORT,
    ),
    codec_class_name("lz4"): CodecLibrary("lz4-java on its class path, or before 3.3.1 the native Hadoop library"),
    codec_class_name("zstd"): CodecLibrary("the native Hadoop library with Zstandard"),
}


def library_of(codec: str, layout_version: int | None = None) -> str:
    """Return the library that a NameNode needs for a codec in addition to its release, "" for none.

    Args:
        codec: class name, "" for none.
        layout_version: of its images; None if unknown, which counts as a new layout.
    """
    library = _LIBRARIES.get(codec)
    if library is None:
        return ""
    bundled = library.bundled is not None and (layout_version is None or supports(library.bundled, layout_version))
    return "" if bundled else library.name


def class_of(codec: str) -> str:
    """Return the last part of a codec's class name."""
    return codec.rpartition(".")[2]


def advice_on_codec(codec: str, layout_version: int | None = None) -> str:
    """Return advice for the operator about a codec that needs a library; "" for other codecs."""
    library = library_of(codec, layout_version)
    return library and (
        f"A NameNode reads {class_of(codec)} only with {library}. The checkpointer writes it where the NameNode's own "
        f"image has it, else {class_of(DEFAULT_CODEC)}. Every NameNode that may load the image needs the library."
    )


def codec_to_write(wanted: str | None, base: str, layout_version: int) -> str:
    """Return the class name of the codec for a new image.

    Args:
        wanted: the configured codec; None for that of the base image.
        base: codec of the image that edits are merged into.
        layout_version: of the new image.
    """
    if wanted is None or wanted == base:
        return base
    return DEFAULT_CODEC if library_of(wanted, layout_version) else wanted
