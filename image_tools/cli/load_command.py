"""`checkpointer image load`: writes an fsimage from its XML."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, echo_json, json_option, refuse_input
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.file_kind import HEAD_BYTES, IMAGE_XML, XML, file_kind
from hadoop_common.regular_file import open_regular
from image_format.codecs import CODEC_SHORT_NAMES, Buffer, codec_class_name
from image_format.errors import ImageFormatError, ImageStorageError
from image_format.output import WrittenFiles
from image_format.publish import check_free, publish_image
from image_format.writer import Sink
from image_tools.cli.image_file import check_target_name
from image_tools.load.image import load_image
from image_tools.load.messages import ImageTextError
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image

_NO_DIGEST = "digest-missing"
_PIECE = 1 << 20
_HINT = (
    "Correct the XML. It lacks names that are not UTF-8; `checkpointer image convert` copies an image with such names."
)


@click.command("load")
@click.argument("source", metavar="XML", type=EXISTING_FILE)
@click.argument("target", metavar="FSIMAGE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--codec",
    metavar="NAME",
    default="none",
    show_default=True,
    help=f"Codec of FSIMAGE: {', '.join(CODEC_SHORT_NAMES)}, or Hadoop's class name.",
)
@click.option("--force", is_flag=True, help="Replace FSIMAGE and FSIMAGE.md5 if they exist.")
@json_option
def command(source: Path, target: Path, codec: str, force: bool, as_json: bool) -> None:
    """Write an image from its XML (oiv -p ReverseXML), with FSIMAGE.md5, after verifying it.

    XML is the output of `image dump --release 3.x` or of `hdfs oiv -p XML` of Hadoop 3. The XML lacks the start of a
    rolling upgrade, and names that are not UTF-8. The last allocated block group becomes the highest block group in
    use. Use the image for tests and for reading, never in place of a NameNode's own image.

    \b
    Example: checkpointer image load fsimage.xml /tmp/fsimage_0000000000000000042

    Exit codes: 0 done, 2 usage error, 3 XML is not an image, 6 FSIMAGE exists or cannot be written
    """
    codec_class = codec_class_name(codec)
    _check_kind(source)
    refuse_input(target, source, "FSIMAGE")
    if not force:
        check_free(target)
    folder = target.absolute().parent
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{target.name}.") as work:
            staged = Path(work) / "image"
            with ProgressObserver(show=not as_json) as observer:
                observer.phase("load", None)
                txid = _load(source, staged, codec_class, observer)
            written = _published(staged, target, txid, source)
    except OSError as fault:
        hint = hint_for(fault, "Check that the directory exists, is writable and has enough space.")
        raise ImageStorageError(f"{target} could not be written: {error_text(fault, target)}", hint=hint) from fault
    content = {"file": str(target), "size": written.size, "md5": written.md5.hex(), "txid": txid, "codec": codec_class}
    if as_json:
        echo_json(content)
    else:
        echo(f"{target}: {written.size} bytes, txid {txid}")


def _check_kind(source: Path) -> None:
    with open_regular(source) as stream:
        kind = file_kind(stream.read(HEAD_BYTES))
    if kind is not None and kind not in (IMAGE_XML, XML):
        raise ImageTextError(f"the file is {kind.name}, not the XML of an fsimage", file=str(source), hint=kind.hint)


def _load(source: Path, staged: Path, codec: str, observer: ProgressObserver) -> int:
    with open_regular(source) as stream, staged.open("wb") as out:

        def write(piece: Buffer) -> None:
            out.write(piece)

        try:
            return load_image(stream, write, codec, observer.advance)
        except ImageTextError as error:
            raise ImageTextError(error.detail, file=str(source)) from error


def _published(staged: Path, target: Path, txid: int, source: Path) -> WrittenFiles:
    """Verify that a NameNode would load the staged image, then publish it."""
    check_target_name(target, txid, "XML")
    findings = verify_image(staged, limit=3).findings
    if findings.severities[Severity.ERROR] > findings.counts[_NO_DIGEST]:
        first = next(each for each in findings.listed if each.code != _NO_DIGEST)
        raise ImageFormatError(f"a NameNode would not load the image: {first.message}", file=str(source), hint=_HINT)

    def copy(sink: Sink) -> None:
        with staged.open("rb") as image:
            while piece := image.read(_PIECE):
                sink(piece)

    return publish_image(target, copy, lambda: None)
