"""Options that select the image for `find`, `du`, `ls` and `top` from a file, a configuration or an archive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hadoop_common.cli.output import EXISTING_FILE, conf_option, echo, load_configuration
from image_tools.cli.image_file import IMAGE, newest_of

if TYPE_CHECKING:
    from image_format.reader import ImageFile

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class NamespaceSource:
    """The source of the namespace: an image, an archive, or else the directories of a configuration.

    Attributes:
        moment: transaction or time in the archive; "" means the newest transaction.
    """

    image: Path | None
    conf_dir: Path | None
    archive: str | None
    key_file: Path | None
    moment: str


def source_options(function: F) -> F:
    """Add --image, --conf, --archive, --as-of and --key-file, which `function` receives as `source`.

    An empty element of `paths` is a usage error.
    """

    @functools.wraps(function)
    def with_source(
        *arguments: Any,
        image: Path | None,
        conf_dir: Path | None,
        archive: str | None,
        key_file: Path | None,
        as_of: str,
        **options: Any,
    ) -> Any:
        if (image is not None and archive is not None) or (image is None and archive is None and conf_dir is None):
            raise click.UsageError("Specify the namespace with one of --conf, --image and --archive.")
        if archive is None and (as_of or key_file):
            raise click.UsageError("--as-of and --key-file need --archive.")
        if "" in options["paths"]:
            # such as a shell variable that is not set
            raise click.UsageError("PATH is empty; specify / for the whole tree.")
        return function(*arguments, source=NamespaceSource(image, conf_dir, archive, key_file, as_of), **options)

    command: Callable[..., Any] = with_source
    for option in (
        click.option("--key-file", type=EXISTING_FILE, metavar="FILE", help="Key of an encrypted archive."),
        click.option("--as-of", default="", metavar="T", help="Time or transaction in the archive (default: its end)."),
        click.option(
            "--archive", metavar="DIR_OR_URL", help="Archive whose namespace is restored to a temporary folder."
        ),
        click.option("--image", type=IMAGE, metavar="FSIMAGE", help="An image, or a directory with images."),
        conf_option(required=False),
    ):
        command = option(command)
    return command  # type: ignore[return-value]


@contextmanager
def opened_namespace(source: NamespaceSource, scratch: Path | None) -> Iterator[ImageFile]:
    """Open the image of a source; --conf selects the newest image in the directories of this node's role.

    Args:
        scratch: folder for temporary files; None means the system's folder.

    Raises:
        HdfsError: there is no image, or the moment cannot be restored.
    """
    from archive.cli.options import configured_settings, restored_moment
    from archive.restoring import RestoreOptions
    from image_tools.cli.image_file import open_image

    if source.archive is None:
        path = source.image or _newest_image(source)
        with open_image(path, spool_dir=scratch) as image:
            yield image
        return
    options = RestoreOptions(strip_tokens=True, settings=configured_settings(source.conf_dir))
    with (
        restored_moment(source.archive, source.key_file, source.moment, options, scratch) as (_, made),
        open_image(made.image, spool_dir=scratch) as image,
    ):
        yield image


def _newest_image(source: NamespaceSource) -> Path:
    from site_config.checkpoint_config import CheckpointConfig
    from site_config.report import likely_role

    assert source.conf_dir is not None
    configuration = load_configuration(source.conf_dir)
    config = CheckpointConfig.from_configuration(configuration, likely_role(configuration), namenodes=False)
    newest = newest_of(config.image_directories)
    echo(f"reading {newest}", err=True)
    return newest
