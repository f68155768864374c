"""Configures the logging of daemons: to standard error, or as a configuration file specifies."""

from __future__ import annotations

import logging
import logging.config
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hadoop_common.cli.output import EXISTING_FILE
from hadoop_common.configuration import Configuration
from hadoop_common.log_lines import log_to_stderr

_LOG = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def logging_options(function: F) -> F:
    """Add the options --verbose and --log-config FILE."""
    verbose = click.option("--verbose", is_flag=True, help="Log more.")
    log_config = click.option(
        "--log-config",
        type=EXISTING_FILE,
        help="TOML file for logging.config.dictConfig, such as config/logging.toml (JSON lines).",
    )
    return verbose(log_config(function))


def set_up_logging(verbose: bool, log_config: Path | None) -> None:
    """Set up logging according to the options.

    Raises:
        click.UsageError: the file is not a logging configuration.
    """
    if log_config is None:
        log_to_stderr(logging.DEBUG if verbose else logging.INFO)
        # messages about skipped polls, peers' malformed headers and connections to Java would fill the log
        for name in ("apscheduler", "urllib3.connection"):
            logging.getLogger(name).setLevel(logging.ERROR)
        logging.getLogger("py4j").setLevel(logging.WARNING)
        return
    try:
        logging.config.dictConfig(tomllib.loads(log_config.read_text()))
    except (ValueError, TypeError, AttributeError, ImportError) as fault:
        raise click.UsageError(f"{log_config} is not a logging configuration: {fault}") from fault


def log_warnings(configuration: Configuration) -> Configuration:
    """Log the deprecated and ignored keys of `configuration`, and return it."""
    for warning in configuration.warnings:
        _LOG.warning("%s", warning)
    return configuration
