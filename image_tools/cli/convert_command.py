"""`checkpointer image convert`: converts an image to another layout version or codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, echo_json, json_option, refuse_input
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.disk_space import disk_space
from image_format.codecs import CODEC_SHORT_NAMES, codec_class_name
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT, is_unknown
from image_format.md5_file import md5_path
from image_format.output import WrittenFiles
from image_format.publish import check_free, publish_image
from image_format.reader import ImageFile
from image_format.snapshot_check import check_snapshots
from image_format.writer import Sink
from image_tools.cli.image_file import check_target_name, open_image
from image_tools.cli.memory_options import memory_bound
from image_tools.convert import convert_image
from image_tools.directory_paths import chain_directories, place_inodes
from image_tools.loadable import check_loadable


@click.command("convert")
@click.argument("source", metavar="SRC", type=EXISTING_FILE)
@click.argument("target", metavar="DST", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--layout",
    type=click.IntRange(NEWEST_LAYOUT, MIN_MERGE_LAYOUT),
    metavar="N",
    help=f"Layout version of DST, {MIN_MERGE_LAYOUT.value} .. {NEWEST_LAYOUT.value} (default: the version of SRC).",
)
@click.option(
    "--codec",
    metavar="NAME",
    help=f"Codec of DST: {', '.join(CODEC_SHORT_NAMES)}, or Hadoop's class name (default: the codec of SRC).",
)
@click.option(
    "--sub-sections",
    type=click.IntRange(min=0),
    metavar="N",
    help="Divide INODE, INODE_DIR and SNAPSHOT_DIFF into about N sub-sections for parallel loading, 0 for none.",
)
@click.option(
    "--parallel-compressed",
    is_flag=True,
    help="Also divide a compressed image, which NameNodes newer than 3.4.1 load in parallel (see above).",
)
@click.option("--force", is_flag=True, help="Replace DST and DST.md5 if they exist.")
@json_option
@memory_bound
def command(
    source: Path,
    target: Path,
    layout: int | None,
    codec: str | None,
    sub_sections: int | None,
    parallel_compressed: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the image SRC as DST, with DST.md5, at another layout version or with another codec.

    Unchanged content is copied, including unknown sections and fields. If the other layout cannot represent some
    content (such as erasure-coded files at -63), the command lists this content and writes nothing. An image of an
    unknown newer layout keeps its layout. SRC is checked against its .md5 file, if one exists. The command first prints
    an estimate of the size of DST and the free space.

    --parallel-compressed writes each sub-section of a compressed image as a separate stream. NameNodes up to Hadoop
    3.4.1 do not write such images; omit the option if DST is for one of these releases.

    \b
    Example: checkpointer image convert --layout -67 --codec zstd fsimage_0000000000000000042 /tmp/converted
    Exit codes: 0 done, 2 usage error, 3 SRC damaged, 5 not convertible, 6 DST exists or cannot be written
    """
    codec_class = None if codec is None else codec_class_name(codec)
    with open_image(source) as image:
        check_target_name(target, image.txid, "SRC")
        refuse_input(target, source, "DST")
        if not force:
            check_free(target)
        if not as_json:
            echo(disk_space(target.absolute().parent, image.size).estimate(), err=True)
        _verify(image)
        _check_namespace(image)

        def write(sink: Sink) -> None:
            convert_image(
                image,
                sink,
                layout_version=layout,
                codec=codec_class,
                sub_sections=sub_sections,
                parallel_compressed=parallel_compressed,
                progress=observer.advance,
            )

        with ProgressObserver(show=not as_json) as observer:
            observer.phase("convert", image.size)
            written = publish_image(target, write, image.check_whole)
    _report(target, written, as_json)


def _verify(image: ImageFile) -> None:
    if md5_path(image.path).exists():
        image.verify_md5()
    else:
        echo(f"warning: {image.path} has no .md5 file and is not checked", err=True)


def _check_namespace(image: ImageFile) -> None:
    """Check the image as a merge checks its base image, and check that no directory contains itself.

    Raises:
        ImageFormatError: a NameNode would not load the image.
    """
    arrays = IndexArrays.scan(image)
    chain_directories(image, arrays, place_inodes(image, arrays))
    if not is_unknown(image.layout_version):
        index = ImageIndex(image, arrays)
        check_loadable(image, index)
        check_snapshots(index)


def _report(target: Path, written: WrittenFiles, as_json: bool) -> None:
    with ImageFile.open(target, verify_md5=False, allow_unknown_layout=True) as image:
        content: dict[str, Any] = {
            "file": str(target),
            "size": written.size,
            "md5": written.md5.hex(),
            "layoutVersion": image.layout_version,
            "codec": image.codec,
            "txid": image.txid,
            "sections": len(image.sections),
        }
    if as_json:
        echo_json(content)
        return
    codec = content["codec"].rpartition(".")[2] or "no codec"
    echo(f"{target}: layout {content['layoutVersion']}, {codec}, {written.size} bytes, txid {content['txid']}")
