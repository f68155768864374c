"""`checkpointer export`: writes a table of an image as Parquet directly from Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import EXISTING, echo, echo_json, json_option
from hadoop_common.quantities import counted
from pipeline.cli.spark_command import context_for


@click.command("export")
@click.option("--table", default="inodes", show_default=True, help="Table of the `fsimage` data source.")
@click.option("--columns", help="Comma-separated names of columns (default: all).")
@click.option("--compression", type=click.Choice(["zstd", "snappy", "none"]), default="zstd", show_default=True)
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--driver-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@json_option
@click.argument("image", type=EXISTING)
@click.argument("out", type=click.Path(path_type=Path))
def command(
    table: str,
    columns: str | None,
    compression: str,
    master: str,
    driver_memory: str,
    as_json: bool,
    image: Path,
    out: Path,
) -> None:
    """Write a table of IMAGE, a file or a storage directory, as the new folder OUT of Parquet files.

    With full paths, the table has the same content as the output of `hdfs oiv -p Delimited`. Workers of a cluster must
    be able to access IMAGE and OUT under the same paths. For other file systems, use `spark.read.format("fsimage")`.

    \b
    Example: checkpointer export /data/nn/current inodes.parquet --columns path,length,owner
    Exit codes: 0 done, 2 usage error or no Spark, 3 image damaged, 6 OUT exists or cannot be written
    """
    from pipeline.input_checks import check_image, is_small

    check_image(str(image))
    options = {} if columns is None else {"columns": columns}
    with context_for(master, driver_memory, small=is_small([str(image)], "")) as context:
        from pipeline.direct_parquet import write_parquet

        rows = write_parquet(context, str(image), out, table=table, compression=compression, options=options)
    if as_json:
        echo_json({"table": table, "rows": rows, "out": str(out)})
    else:
        echo(f"{counted(rows, 'row', ',')} of {table} in {out}")
