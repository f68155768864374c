"""A command's session: its end, and the errors for the user."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from py4j.protocol import Py4JNetworkError

from pipeline.cli.spark_command import context_for
from pipeline.errors import PipelineError, PipelineSetupError, SourceFileError
from pipeline.java_options import spark_jars
from pipeline.session import build_context, build_session, settings
from pipeline.task_errors import mark_typed_errors


def test_a_terminated_java_is_a_one_line_error() -> None:
    spark = mock.Mock()
    spark.stop.side_effect = ConnectionRefusedError(111, "Connection refused")
    with (
        mock.patch("pipeline.cli.spark_command.build_context", return_value=spark),
        pytest.raises(PipelineError, match=r"^Spark failed: Answer from Java side is empty$"),
        context_for("local[1]", "1g"),
    ):
        raise Py4JNetworkError("Answer from Java side is empty")
    spark.stop.assert_called_once_with()


def test_a_typed_error_keeps_its_type() -> None:
    spark = mock.Mock()
    with (
        mock.patch("pipeline.cli.spark_command.build_context", return_value=spark),
        pytest.raises(SourceFileError, match=r"^no such file") as caught,
        context_for("local[1]", "1g"),
        mark_typed_errors(),
    ):
        raise SourceFileError("no such file", hint="Look.")
    assert caught.value.hint == "Look."
    spark.stop.assert_called_once_with()


def test_the_error_names_a_master_that_does_not_answer() -> None:
    text = "An error occurred while calling None.JavaSparkContext.\n: java.lang.IllegalStateException: stopped\n\tat x"
    with (
        mock.patch("pyspark.SparkContext.getOrCreate", side_effect=RuntimeError(text)),
        pytest.raises(PipelineSetupError) as caught,
    ):
        build_session(master="spark://127.0.0.1:1")
    expected = "Spark did not start with master spark://127.0.0.1:1: java.lang.IllegalStateException: stopped"
    assert caught.value.message == expected


def test_an_interrupt_is_handled_by_python_and_ends_the_session() -> None:
    def of_pyspark(number: int, frame: object) -> None:
        raise AssertionError("PySpark's handler")

    spark = mock.Mock()
    before = signal.signal(signal.SIGINT, of_pyspark)
    try:
        with (
            mock.patch("pipeline.cli.spark_command.build_context", return_value=spark),
            pytest.raises(KeyboardInterrupt),
            context_for("local[1]", "1g"),
        ):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is of_pyspark
    finally:
        signal.signal(signal.SIGINT, before)
    spark.stop.assert_called_once_with()


def test_an_interrupt_during_the_start_of_spark_is_deferred() -> None:
    spark = mock.Mock()

    def start(**_: object) -> mock.Mock:
        signal.raise_signal(signal.SIGINT)
        return spark

    with (
        mock.patch("pipeline.cli.spark_command.build_context", side_effect=start),
        pytest.raises(KeyboardInterrupt),
        context_for("local[1]", "1g"),
    ):
        raise AssertionError("the block is not entered")
    spark.stop.assert_called_once_with()


def test_a_second_interrupt_is_not_deferred() -> None:
    def start(**_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("went on")

    with (
        mock.patch("pipeline.cli.spark_command.build_context", side_effect=start),
        pytest.raises(KeyboardInterrupt),
        context_for("local[1]", "1g"),
    ):
        raise AssertionError("the block is not entered")


@pytest.mark.usefixtures("loggers")
def test_py4j_messages_about_an_interrupt_are_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    spark = mock.Mock()
    noise = logging.LogRecord("root", logging.ERROR, "py4j/java_gateway.py", 1, "KeyboardInterrupt", (), None)
    with mock.patch("pipeline.cli.spark_command.build_context", return_value=spark), context_for("local[1]", "1g"):
        assert not logging.getLogger().filter(noise)
        logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
    assert not logging.getLogger().filter(noise)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[1,1,512]", "spark://localhost:7077"])
def test_local_masters_have_local_settings(master: str) -> None:
    found = settings(master, "1g")
    assert ("spark.driver.host" in found) == ("spark.network.timeout" in found) == (master in {"local", "local[2]"})


@pytest.mark.parametrize("master", ["spark://localhost:7077", "yarn", None])
def test_options_of_a_cluster_driver_in_the_defaults_file_apply(master: str | None) -> None:
    assert not {"spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"} & settings(master, "1g").keys()


def test_a_cluster_driver_has_our_logging_and_the_options_in_the_defaults_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dfrom=environment")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    # the JVM of an earlier test has the settings of a local driver
    monkeypatch.setattr("pyspark.SparkContext._jvm", None)
    with mock.patch("pyspark.SparkContext.getOrCreate") as create:
        for _ in range(2):
            build_context(master="spark://127.0.0.1:1")
    set_by_us = [word for pair in create.call_args.args[0].getAll() for word in ("--conf", "=".join(pair))]
    conf = tmp_path / "defaults.conf"
    conf.write_text("spark.driver.defaultJavaOptions -Dfrom=default\nspark.driver.extraJavaOptions -Dfrom=extra\n")
    jars = spark_jars()
    assert jars is not None
    launcher = ["-cp", f"{jars}/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    words = [*launcher, *set_by_us, "--properties-file", str(conf), "pyspark-shell"]
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    environment = {**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"}
    found = subprocess.run([java, *words], env=environment, capture_output=True, text=True, check=True)
    options = [word for word in found.stdout.split("\0") if word.startswith(("-Dfrom", "-Dlog4j2"))]
    logging_option, *others = options
    assert logging_option.endswith("pipeline/log4j2.properties")
    assert others == ["-Dfrom=environment", "-Dfrom=default", "-Dfrom=extra"]


@pytest.mark.parametrize(
    ("jar", "problem"),
    [
        ("", "which contains no Spark"),
        ("spark-core_2.12-3.5.1.jar", "which is Spark 3.5.1"),
        ("spark-core_2.12-3.3.2.3.3.7190.0-91.jar", "which is Spark 3.3.2.3.3.7190.0-91"),
    ],
)
def test_a_spark_home_of_another_release_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: str, problem: str
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars" / jar).mkdir(parents=True)
    with pytest.raises(PipelineSetupError, match=f"^SPARK_HOME is {tmp_path}, {problem}, but PySpark 4") as caught:
        build_context(master="local[1]")
    assert "Unset SPARK_HOME" in caught.value.hint


def test_the_spark_of_pyspark_is_a_valid_spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = spark_jars()
    assert jars is not None
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    with mock.patch("pyspark.SparkContext.getOrCreate") as create:
        assert build_context(master="local[1]") is create.return_value


def _broken(name: str) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    return module


@pytest.mark.parametrize(
    ("module", "problem"), [(None, "is not installed"), (_broken("pyspark"), "cannot be imported: cannot import name")]
)
def test_a_missing_or_broken_pyspark_is_reported_in_one_sentence(module: ModuleType | None, problem: str) -> None:
    with mock.patch.dict(sys.modules, {"pyspark": module}), pytest.raises(PipelineSetupError, match=problem):
        build_context(master="local[1]")
