"""What `pip install` brings is enough for what the documents say about it."""

import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedforest.cli.demonstration.federation import find_ports
from tests.install.environments import ROOT, Environment, build_wheel, install

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="environments are laid out as POSIX has them"),
]
READY_SECONDS = 120.0  # also where others use the machine
HOME = ("--home", "coordinator")
RUN = """
protocol = "vertical"
parties = { bank = "loans", shop = "baskets" }
label = { party = "bank", column = "paid" }
parameters = { n_estimators = 5, min_samples_leaf = 5 }
"""
MAKE_DATABASES = """
import duckdb, sqlite3
with duckdb.connect("bank.duckdb") as bank:
    bank.sql(
        "CREATE TABLE loans AS SELECT i % 17 AS age, 'town ' || (i % 3) AS town, "
        "CASE WHEN i % 17 > 8 THEN 'yes' ELSE 'no' END AS paid FROM range(200) AS rows(i)"
    )
with sqlite3.connect("shop.sqlite") as shop:
    shop.execute("CREATE TABLE baskets (size REAL)")
    shop.executemany("INSERT INTO baskets VALUES (?)", [(i % 5,) for i in range(200)])
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def run_the_readme(environment: Environment) -> None:
    """All Python of the README, as one program."""
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(snippets) == 2
    outcome = environment.run_python("\n".join(snippets))
    assert outcome.returncode == 0, outcome.stderr
    assert float(outcome.stdout.split()[0]) > 0.9  # the accuracy


def test_the_core_runs_the_readme_and_says_what_the_rest_needs(wheel: Path, tmp_path: Path) -> None:
    core = install(wheel, "", tmp_path)
    assert not any(map(core.has, ("pandas", "pyarrow", "grpc", "duckdb", "matplotlib")))
    run_the_readme(core)
    assert "Who learned what" in core.tell("demo", "--in-process", "--rows", "400", "--trees", "5")
    (core.folder / "run.toml").write_text(RUN)
    (core.folder / "ages.csv").write_text("age\n31\n")
    for command in (
        ["demo"],
        ["coordinator", "start", "--home", "."],
        ["party", "start", "--home", "."],
        ["party", "data", "add", "ages", "ages.csv", "--home", "."],
        ["train", "run.toml"],
        ["runs", "list"],
    ):
        outcome = core.run(*command)
        assert outcome.returncode == 1, outcome.stderr
        assert re.fullmatch(
            r'fedforest: .* needs (grpc|pyarrow), which is not installed: pip install "fedforest'
            r'\[federation\]"\n',
            outcome.stderr,
        ), command


def test_the_federation_extra_runs_the_readme_and_the_demo(wheel: Path, tmp_path: Path) -> None:
    federation = install(wheel, "[federation]", tmp_path)
    assert not any(map(federation.has, ("pandas", "polars", "duckdb", "matplotlib")))
    run_the_readme(federation)
    assert "letters that came later" in federation.tell("demo")
    outcome = federation.run("demo", "--plot", "demo.png")
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("fedforest: a picture needs matplotlib")


def test_the_sql_extra_trains_on_tables_of_databases(wheel: Path, tmp_path: Path) -> None:
    both = install(wheel, "[federation,sql]", tmp_path)
    assert not both.has("pandas")
    run_the_readme(both)
    outcome = both.run_python(MAKE_DATABASES)
    assert outcome.returncode == 0, outcome.stderr
    with ExitStack() as stack:
        _start_coordinator(both, stack)
        _start_party(both, stack, "bank", "loans", "bank.duckdb")
        _start_party(both, stack, "shop", "baskets", "shop.sqlite")
        _wait_until(lambda: both.tell("coordinator", "parties", *HOME).count("connected") == 2)
        _join(both, "ann", "--user")
        (both.folder / "run.toml").write_text(RUN)
        told = both.tell("train", "run.toml", "--watch", "--json", "--profile", "ann")
        assert '"finished"' in told


def _start_coordinator(environment: Environment, stack: ExitStack) -> None:
    members, newcomers = (f"127.0.0.1:{port}" for port in find_ports(2))
    environment.tell(
        "coordinator", "init", "loans", *HOME, "--address", members, "--enrolment", newcomers
    )
    log = stack.enter_context(environment.running("log.txt", "coordinator", "start", *HOME))
    _wait_until(lambda: "listening" in log.read_text())


def _start_party(
    environment: Environment, stack: ExitStack, party: str, table: str, file: str
) -> None:
    _join(environment, party)
    environment.tell("party", "data", "add", table, file, "--table", table, "--home", party)
    stack.enter_context(environment.running(f"{party}.txt", "party", "start", "--home", party))


def _join(environment: Environment, name: str, *options: str) -> None:
    token = environment.folder / "token.txt"
    token.touch(mode=0o600)
    token.write_text(environment.tell("coordinator", "invite", name, *options, *HOME))
    command = ("join",) if options else ("party", "join")
    environment.tell(*command, str(token), "--home", name)


def _wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"not done within {READY_SECONDS:.0f} seconds"
        time.sleep(0.2)
