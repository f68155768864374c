"""Chooses the codec of a new image; some codecs are used only if a NameNode wrote the old image with the same codec.

A NameNode without the library of a codec can neither load nor save an image with this codec. Therefore, an old image
with this codec proves that its NameNode has the library. Sources: SnappyCodec, Lz4Codec and ZStandardCodec of
hadoop-common, and the dependencies of its pom.xml.
"""

from __future__ import annotations

from dataclasses import dataclass

from image_format.codecs import codec_class_name
from image_format.layout import OLDEST_LAYOUT, LayoutVersion, supports

DEFAULT_CODEC = codec_class_name("default")


@dataclass(frozen=True, slots=True)
class CodecLibrary:
    """Library of a codec on a NameNode.

    Attributes:
        bundled: the first layout whose releases include the library; None if no release includes it.
        known_since: the first layout for which every release supports the codec.
    """

    name: str
    bundled: LayoutVersion | None = None
    known_since: LayoutVersion = OLDEST_LAYOUT


_LIBRARIES = {
    codec_class_name("snappy"): CodecLibrary(
        # Hadoop 3.3.1 also includes the library, but has the same layout as Hadoop 3.3.0.
        "Hadoop 3.3.1 or newer, or the native Hadoop library with Snappy",
        LayoutVersion.NVDIMM_SUPPORT,
    ),
    codec_class_name("lz4"): CodecLibrary("lz4-java on its class path, or before 3.3.1 the native Hadoop library"),
    codec_class_name("zstd"): CodecLibrary(
        # HADOOP-13578 added the codec to Hadoop 2.9.0 and 3.0.0, but Hadoop 2.7 to 2.10 share the layout -63.
        "the native Hadoop library with Zstandard",
        known_since=LayoutVersion.ERASURE_CODING,
    ),
}


def library_of(codec: str, layout_version: int | None = None) -> str:
    """Return the library that a NameNode needs for a codec in addition to its release, or "" if it needs no library.

    Args:
        codec: class name, or "" for no compression.
        layout_version: layout version of the NameNode's images; None if unknown, which is treated as a new layout.
    """
    library = _LIBRARIES.get(codec)
    if library is None:
        return ""
    bundled = library.bundled is not None and (layout_version is None or supports(library.bundled, layout_version))
    return "" if bundled else library.name


def is_known_at(codec: str, layout_version: int) -> bool:
    """Return whether every release of a layout supports the codec, even if the required library is not included."""
    library = _LIBRARIES.get(codec)
    return library is None or supports(library.known_since, layout_version)


def class_of(codec: str) -> str:
    """Return the last part of a codec's class name."""
    return codec.rpartition(".")[2]


def advice_on_codec(codec: str, layout_version: int | None = None) -> str:
    """Return advice for the operator about a codec that needs a library; "" for other codecs."""
    library = library_of(codec, layout_version)
    return library and (
        f"A NameNode reads {class_of(codec)} only with {library}. The checkpointer uses the codec if the NameNode's "
        f"own image uses it, otherwise {class_of(DEFAULT_CODEC)}. "
        "Every NameNode that may load the image needs the library."
    )


def codec_to_write(wanted: str | None, base: str, layout_version: int, base_layout: int | None = None) -> str:
    """Return the class name of the codec for a new image.

    Args:
        wanted: the configured codec; None for the codec of the base image.
        base: codec of the image into which edits are merged.
        layout_version: layout version of the new image.
        base_layout: layout version of the base image; None means the layout version of the new image. Releases of
            another layout have not written the base image, so they may lack its codec.
    """
    if wanted is None or wanted == base:
        is_own = base_layout in (None, layout_version)
        return base if is_own or is_known_at(base, layout_version) else DEFAULT_CODEC
    return DEFAULT_CODEC if library_of(wanted, layout_version) else wanted
