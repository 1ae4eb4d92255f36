"""What the pages say of defaults is what the code has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import horoball as hb
from horoball.graphs.fit import DIRECTED_TRAINING, TAXONOMY_TRAINING
from horoball.hierarchy import delta, suggest_c
from horoball.tables.streamed import StreamedTable
from horoball.training import TrainConfig, config
from horoball.vae import kinds
from horoball.vae import options as request
from tests.cli.test_defaults import command

ROOT = Path(__file__).parents[1]
COMMANDS = {"Options of `fit`": ("fit",), "Graphs": ("graph", "fit")}


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def plain(text: str) -> str:
    """Without the marks that a page and a help text put around words differently."""
    return re.sub(r"[`'\"]", "", " ".join(text.split())).strip()


def table(section: str) -> dict[str, str]:
    """Option → default, of the table in a section of the page on commands. A row may have several options."""
    text = (
        (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    )
    found: dict[str, str] = {}
    for line in re.findall(r"^\| `--.+ \|$", text, re.MULTILINE):
        names, default, *_ = re.split(r"\s*\|\s*", line.strip("| "))
        options = re.findall(r"--[\w-]+", names)
        values = default.split(", ") if len(options) > 1 else [default]
        found |= dict(zip(options, values * (len(options) if len(values) == 1 else 1), strict=True))
    return found


def default_of(option: Any) -> str:
    """The default that a command shows, or has."""
    if shown := re.search(r"\[default: (.+?)\]$", " ".join((option.help or "").split())):
        return shown[1]
    return (
        ""
        if option.default is None
        else f"{option.default:g}"
        if isinstance(option.default, float)
        else str(option.default)
    )


ROWS = [(section, name) for section in COMMANDS for name in table(section)]


@pytest.mark.parametrize(("section", "name"), ROWS, ids=[f"{' '.join(COMMANDS[s])} {n}" for s, n in ROWS])
def test_the_page_on_commands_has_the_default_of_an_option(section: str, name: str) -> None:
    (option,) = (option for option in command(*COMMANDS[section]).params if name in option.opts)
    assert plain(table(section)[name]) == plain(default_of(option))


@pytest.mark.parametrize("section", COMMANDS)
def test_the_page_on_commands_has_every_option_with_a_default_of_the_model(section: str) -> None:
    wanted = {option.opts[0] for option in command(*COMMANDS[section]).params if "[default: " in (option.help or "")}
    assert wanted - table(section).keys() == set()


def test_what_help_says_of_automatic_defaults_is_what_is_chosen() -> None:
    said = {option.name: default_of(option) for option in command("fit").params}
    cells, batches = kinds.CELLS, request._MAP_BATCHES
    least, *_, longest = request._LAID_OUT_STEPS
    assert said["max_epochs"].startswith(f"auto, {least} to {longest} steps for maps, ")
    most = f"; {request._CELL_STEPS:,} steps and at most {TrainConfig.max_epochs} epochs for cells"
    assert said["max_epochs"].endswith(most)
    slow, *_, fast = sorted(request._LAID_OUT_RATES)
    rows = f"auto, {batches[0]} to {batches[-1]} by the number of rows; {cells.batch_size} for cells"
    assert said["batch_size"] == rows
    assert said["learning_rate"] == f"auto, {slow} or {fast} for maps and {TrainConfig.learning_rate} otherwise"
    patience = ["0", str(TrainConfig.patience), str(config._PATIENCE_STEPS)]  # for maps; epochs; steps
    assert re.findall(r"\d+", said["patience"]) == patience
    width, many = request._MAP_WIDTH, request._MANY_ROWS
    assert said["hidden"].startswith(f"auto, two of {width} for maps, three from {many:,} rows on, ")


def default(call: Callable[..., Any], name: str) -> Any:
    return inspect.signature(call).parameters[name].default


SENTENCES = [
    ("docs/concepts.md", f"| no idea | the default, c = {default(hb.PoincareVAE, 'c'):g} |"),
    ("docs/tutorials/table.md", f"the default is {default(hb.PoincareVAE, 'c'):g}, and 0 is ordinary Euclidean space"),
    ("docs/devices.md", f'the default is `device="{TrainConfig.device}"`'),
    ("docs/faq.md", f'the default is `device="{default(hb.PoincareVAE, "device")}"`'),
    ("docs/maps.md", f"The default is {request.TABLES.locality}. With `locality=0`"),
    ("docs/maps.md", f'The default, `"{request.TABLES.distance_weight}"`, is 5 per column and at least 50'),
    ("docs/graphs.md", f"Taxonomies use β = {TAXONOMY_TRAINING.beta} by default"),
    ("docs/graphs.md", f"other directed models {DIRECTED_TRAINING.beta}: you ask"),
    ("docs/hierarchy.md", f"Up to `landmarks` points (default: {default(delta, 'landmarks')})"),
    ("docs/hierarchy.md", f"given median distance (default: {default(suggest_c, 'median'):g})"),
    ("docs/neighbors.md", f"With φ = {default(hb.neighbors.Index.ancestors, 'angle'):g}°, the default"),
]


@pytest.mark.parametrize(("name", "sentence"), SENTENCES)
def test_a_page_has_the_default_of_the_code(name: str, sentence: str) -> None:
    assert sentence in page(name)


def test_a_streamed_table_has_the_term_of_a_map_as_its_page_says(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: torch.randn(100).numpy() for name in "abc"}), tmp_path / "rows.parquet")
    streamed = hb.tables.read(tmp_path / "rows.parquet", streamed=True)
    assert isinstance(streamed, StreamedTable)
    assert request.map_weight(streamed, 2) == request.map_weight(hb.tables.read(tmp_path / "rows.parquet"), 2) > 0
    assert "A streamed table has no distance term" not in page("docs/data.md")


def test_speed_ups_are_those_of_their_columns() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    lines = text.split("| one rank: s an epoch | two ranks | speed-up |")[1].splitlines()[2:4]
    for line in lines:
        _, one, two, speed_up, _ = (cell.strip() for cell in line.strip("|").split("|"))
        assert float(speed_up) == pytest.approx(float(one) / float(two), abs=0.006), line
    # What the page on scale derives from it, by Amdahl's law.
    alone = 2 / float(speed_up) - 1
    many = 1 / (alone + (1 - alone) / 64)
    scale = page("docs/scale.md")
    assert f"two are {float(speed_up):.1f} times as fast as one" in scale
    assert f"two ranks are {float(speed_up):.1f} times as fast as one" in page("docs/graphs.md")
    assert (
        f"64 machines are therefore {many:.1f} times as fast as one, which is {25 / many:.0f} minutes per epoch"
        in scale
    )
    assert f"a speed-up of {speed_up} on two ranks means {many:.1f} on 64" in page("benchmarks/README.md")


def test_no_page_says_that_the_middle_of_a_map_is_its_root() -> None:
    hint = (ROOT / "src" / "horoball" / "viewer" / "page" / "page.html").read_text(encoding="utf-8")
    assert "**The center is not the root.**" in page("docs/concepts.md")
    assert "general in the middle" not in hint
    assert "The middle need not be the root" in hint
