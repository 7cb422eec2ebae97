"""What a run file may hold, and how its mistakes are told."""

from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.client.run_files import read_run_file

LEAST = """\
protocol = "vertical"

[parties]
bank = "customers"

[label]
column = "churned"
"""


def read(folder: Path, text: str) -> object:
    path = folder / "run.toml"
    path.write_text(text)
    return read_run_file(path)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text)
    return str(caught.value).removeprefix(f"{folder}/")


def test_the_smallest_file_has_defaults_for_everything_else(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(LEAST)
    run = read_run_file(tmp_path / "run.toml").run
    assert (run.protocol, run.parties, run.label.column) == (
        "vertical",
        {"bank": "customers"},
        "churned",
    )
    assert (run.task, run.seed, run.validation, run.align) == ("classification", None, None, False)


@pytest.mark.parametrize(
    ("first_line", "told"),
    [
        ("sed = 3", "run.toml:1:1: there is no key 'sed'; did you mean 'seed'?"),
        (
            "  zebra = 3",
            "run.toml:1:3: there is no key 'zebra'; there are: aggregation, align, alone",
        ),
        ('seed = "x"', "run.toml:1:8: seed: expected a whole number, got text"),
        (
            "align =  1",
            "run.toml:1:10: align: expected true or false or 'keyed-hash' or 'psi' or a table, "
            "got a whole",
        ),
        ("weight = []", "run.toml:1:10: weight: expected text, got an array"),
        ("aggregation = 3", "run.toml:1:15: aggregation: expected text or a table, got a whole"),
        ("validation = {share = true}", "run.toml:1:23: share: expected a number, got true or"),
        ("validation = {shar = 0.2}", "run.toml:1:15: [validation] has no key 'shar'; did you"),
        ('task = "clas"', "run.toml:1:8: task is 'clas'; it must be one of 'classification', 're"),
        ("x = ", "run.toml:1:5: Invalid value"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(
    tmp_path: Path, first_line: str, told: str
) -> None:
    assert complaint(tmp_path, f"{first_line}\n{LEAST}").startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LEAST.replace('"customers"', "7"), "run.toml:4:8: a party takes part with one data set"),
        (LEAST.replace('bank = "customers"\n', ""), "run.toml:3:1: no party takes part"),
        (LEAST.replace('column = "churned"', ""), "run.toml:6:1: the key 'column' is missing in "),
        ('protocol = "vertical"', "run.toml: the key 'parties' is missing"),
        (LEAST + "[parties]\n", "run.toml:8:9: Cannot declare ('parties',) twice"),
        (LEAST.replace("vertical", "diagonal"), "run.toml:1:12: protocol is 'diagonal'"),
    ],
)
def test_a_mistake_in_a_table_is_told_where_the_table_has_it(
    tmp_path: Path, text: str, told: str
) -> None:
    assert complaint(tmp_path, text).startswith(told)


def test_lines_that_end_as_on_windows_are_counted_as_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(f"\nsed = 3\n{LEAST}".replace("\n", "\r\n").encode())
    with pytest.raises(ConfigurationError, match=r"run\.toml:2:1: "):
        read_run_file(path)


def test_what_is_no_file_and_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_run_file(tmp_path / "nothing.toml")
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="no text in UTF-8"):
        read_run_file(tmp_path / "run.toml")
