"""Models of mixed tables: gaps leave the likelihood, rows come back with their types, and what was said is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import horoball as hb
from horoball.likelihoods import Mixed
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.tables import ArrayTable
from horoball.tables.mixed import UnseenValueWarning
from horoball.tables.read import read
from horoball.training import TrainConfig
from horoball.vae.impute import impute
from horoball.vae.run import Run
from horoball.vae.start import mixed_start
from horoball.vae.train import train
from tests.commands import done, refused
from tests.late import late
from tests.tables.messy import messy

pl = late("polars")

FAST = {"max_epochs": 3, "hidden": (16,), "random_state": 0}
COMMAND = ("--max-epochs", 2, "--hidden", 8, "--quiet")
SPEC = "normal,log_normal,negative_binomial,bernoulli,categorical:4,ordinal:5,circular:12,categorical:3"


def rows(n: int = 40) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    levels = [torch.randint(size, (n,), generator=draw).float() for size in (2, 4, 5, 12, 3)]
    count = torch.randint(9, (n,), generator=draw).float()
    real = torch.randn(n, generator=draw)
    return torch.stack((real, real.exp(), count, *levels), 1)


@pytest.fixture(scope="module")
def fitted() -> hb.PoincareVAE:
    return hb.PoincareVAE(**FAST).fit(messy().drop(columns="segment"))


def test_a_product_is_the_sum_of_its_parts_and_gaps_leave_it() -> None:
    torch.manual_seed(0)
    likelihood, x = Mixed(8, SPEC), rows()
    likelihood.requires_grad_(False)
    h = torch.randn(len(x), likelihood.outputs)
    whole = likelihood(h).log_prob(x)
    alone = []
    for feature in range(8):
        seen = torch.full_like(x, torch.nan)
        seen[:, feature] = x[:, feature]
        alone.append(likelihood(h).log_prob(seen))
    torch.testing.assert_close(torch.stack(alone).sum(0), whole, rtol=1e-4, atol=1e-4)
    nothing = likelihood(h).log_prob(torch.full_like(x, torch.nan))
    assert float(nothing.abs().max()) < 1e-5


def test_gaps_have_no_gradient_and_make_none_infinite() -> None:
    likelihood, x = Mixed(8, SPEC), rows()
    x[::2] = torch.nan
    h = torch.zeros(len(x), likelihood.outputs, requires_grad=True)
    likelihood(h).log_prob(x).sum().backward()
    assert h.grad is not None
    assert bool(h.grad.isfinite().all())
    assert float(h.grad[::2].abs().max()) < 1e-6
    assert all(bool(p.grad.isfinite().all()) for p in likelihood.parameters() if p.grad is not None)


def test_samples_are_possible() -> None:
    likelihood = Mixed(8, SPEC)
    drawn = likelihood(torch.randn(500, likelihood.outputs)).sample(generator=torch.Generator().manual_seed(0))
    assert not bool(likelihood.impossible(drawn).any())


def test_levels_start_at_their_shares() -> None:
    x = rows(4000)
    table = pd.DataFrame({"a": [f"k{int(v)}" for v in x[:, 4]], "r": x[:, 5] + 1})
    start = mixed_start(read(table), {})
    likelihood = Mixed(2, start.fields["columns"])
    with torch.no_grad():
        product: Any = likelihood(start.apply(likelihood))
    for (_, part), name in zip(product.parts, ("a", "r"), strict=True):
        expected = table[name].value_counts(normalize=True).sort_index().to_numpy()
        np.testing.assert_allclose(part.base_dist.probs[0], expected, atol=1e-3)


@pytest.mark.parametrize("damage", ["levels", "names", "none"])
def test_a_description_that_is_not_of_the_model_is_refused(tmp_path: Path, damage: str) -> None:
    train(read(messy()), {"hidden": (8,)}, TrainConfig(max_epochs=1), tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    tensors, header = load_checkpoint(path)
    record = json.loads(json.dumps(header["record"]))
    if damage == "levels":
        record["schema"][3]["levels"] = []
    elif damage == "names":
        record["schema"][3]["name"] = "land"
    else:
        record["schema"] = []
    save_checkpoint(path, tensors, {**header, "record": record})
    with pytest.raises(ValueError, match="does not hold a whole model"):
        Run.load(tmp_path / "run")


def test_sampled_rows_obey_their_types(fitted: hb.PoincareVAE) -> None:
    drawn = fitted.sample(500, random_state=0)
    assert list(drawn) == [name for name, (kind, _) in fitted.columns_.items() if kind != "skip"]
    assert drawn["newsletter"].dtype == bool
    assert set(drawn["country"]) <= {"DE", "FR", "US", "BR"}
    assert set(drawn["plan"]) <= {"free", "plus"}
    assert drawn["rating"].between(1, 5).all()
    assert pd.api.types.is_integer_dtype(drawn["rating"])
    assert (drawn["income"] > 0).all()
    assert (drawn["visits"] >= 0).all()
    assert pd.api.types.is_integer_dtype(drawn["visits"])


def test_a_saved_model_knows_its_columns(fitted: hb.PoincareVAE, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    again = hb.PoincareVAE.load(tmp_path / "run")
    assert again.columns_ == fitted.columns_
    frame = messy(rows=20, seed=1)
    np.testing.assert_array_equal(again.transform(frame), fitted.transform(frame))
    other = frame[list(reversed(frame.columns))].assign(more=1)
    np.testing.assert_array_equal(fitted.transform(other), fitted.transform(frame))
    with pytest.raises(ValueError, match="lacks 1 of the model's"):
        fitted.transform(frame.drop(columns="income"))


def test_gaps_are_filled_and_the_rest_stays(fitted: hb.PoincareVAE) -> None:
    frame = messy(seed=2)
    filled = fitted.impute(frame, samples=20)
    used = [name for name, (kind, _) in fitted.columns_.items() if kind != "skip"]
    assert list(filled) == list(frame)
    assert not filled[used].isna().any().any()
    there = frame["income"].notna()
    assert filled["income"][there].tolist() == frame["income"][there].tolist()
    assert filled["signup"].str.fullmatch(r"\d{4}-\d{2}-\d{2}").all()  # dates of text, as text
    draws = fitted.impute(frame, draws=2, samples=20)
    gaps = frame["age"].isna().to_numpy()
    assert not (draws[0]["age"][gaps].to_numpy() == draws[1]["age"][gaps].to_numpy()).all()


def test_filled_values_are_near_the_true_ones() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(600, 1)) * np.array([1.0, -2.0, 0.5, 3.0]) + 0.1 * rng.normal(size=(600, 4))
    x = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    model = hb.PoincareVAE(max_epochs=60, hidden=(32,), distance_weight=0, random_state=0).fit(x)
    error = (model.impute(x) - truth) / truth.std(0)
    gaps = np.isnan(x) & ~np.isnan(x).all(1, keepdims=True)
    assert float(np.sqrt((error[gaps] ** 2).mean())) < 0.5  # the mean has 1
    assert float(np.abs(error[~np.isnan(x)]).max()) == 0.0


def test_categories_that_were_not_seen_are_missing_and_told(fitted: hb.PoincareVAE) -> None:
    frame = messy(rows=20, gaps=0.0)
    frame.loc[3, "country"] = "XY"
    gone = frame.copy()
    gone.loc[3, "country"] = None
    with pytest.warns(
        UnseenValueWarning, match="1 value that the model has not seen is taken as missing: country 'XY'"
    ):
        z = fitted.transform(frame)
    np.testing.assert_array_equal(z, fitted.transform(gone))


def test_a_table_of_complete_numbers_gives_the_model_it_gave_before(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    models = [read(source) for source in (tmp_path / "x.csv", tmp_path / "x.parquet", frame)]
    assert [table.schema for table in models] == [None] * 3
    counts = np.random.default_rng(0).poisson(4.0, (80, 3))
    assert read(pd.DataFrame(counts, columns=["a", "b", "c"])).schema is None
    plain = hb.PoincareVAE(**FAST).fit(x)
    assert np.array_equal(plain.transform(x), hb.PoincareVAE(**FAST).fit(frame).transform(frame))
    assert plain.likelihood_ == "normal"


def test_an_id_beside_plain_numbers_is_left_out_of_the_model_of_before() -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(id=np.arange(80))
    model = hb.PoincareVAE(**FAST).fit(frame)
    assert model.columns_["id"] == ("skip", "an id: whole numbers that are different in every row")
    assert model.likelihood_ == "normal"
    assert np.array_equal(model.transform(frame), hb.PoincareVAE(**FAST).fit(x).transform(x))


def test_a_likelihood_of_one_kind_is_not_for_several() -> None:
    with pytest.raises(ValueError, match="The likelihood poisson is for tables of one kind"):
        hb.PoincareVAE(likelihood="poisson", **FAST).fit(messy())


def test_the_commands_take_a_messy_file(tmp_path: Path) -> None:
    data, run = tmp_path / "customers.csv", tmp_path / "run"
    messy().to_csv(data, index=False)
    told = done("fit", data, "-o", run, "--label", "segment", "--columns", "visits:real", "--drop", "plan", *COMMAND)
    assert "customer_id  skip" in told.stderr
    assert "visits       real      as told" in told.stderr
    assert "plan" not in told.stderr
    kinds = json.loads(done("info", run).stdout)["kinds"]
    assert kinds["currency"] == "skip: the same value in every row"
    done("embed", run, data, "-o", tmp_path / "z.parquet")
    assert pq.read_table(tmp_path / "z.parquet").num_rows == 300
    assert json.loads(done("evaluate", run, data, "--samples", 5).stdout)["rows"] == 300
    done("sample", run, "-n", 10, "-o", tmp_path / "new.csv")
    assert pd.read_csv(tmp_path / "new.csv")["newsletter"].dtype == bool
    done("impute", run, data, "-o", tmp_path / "filled.csv", "--samples", 5)
    used = [name for name, kind in kinds.items() if not kind.startswith("skip")]
    assert not pd.read_csv(tmp_path / "filled.csv")[used].isna().any().any()
    assert list(pd.read_csv(tmp_path / "filled.csv")) == list(messy())
    done("view", run, data, "-o", tmp_path / "map.html")
    assert "Did you mean 'income'?" in refused(
        "fit", data, "-o", tmp_path / "other", "--columns", "incme:real", *COMMAND
    )


def test_imputation_of_a_model_without_gaps_returns_the_rows() -> None:
    table = ArrayTable(torch.randn(60, 3))
    run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
    assert torch.equal(impute(run, table), next(table.blocks()))


def test_an_exported_encoder_of_a_mixed_model_takes_gaps(fitted: hb.PoincareVAE, tmp_path: Path) -> None:
    from horoball.vae import export

    export(fitted.run_, tmp_path / "encoder.pt2")
    table = fitted.run_.read(messy(rows=30, seed=3))
    z, _, _, valid = torch.export.load(tmp_path / "encoder.pt2").module()(next(table.blocks()))
    assert bool(valid.all())
    torch.testing.assert_close(z, next(fitted.run_.embed(table)))


def test_a_warm_start_goes_on_and_takes_new_rows() -> None:
    frame = messy()
    model = hb.PoincareVAE(**FAST).fit(frame)
    before = model.score(frame)
    model.set_params(warm_start=True, max_epochs=20, distance_weight=0.0)
    assert model.fit(frame).score(frame) > before
    scaler = model.run_.scaler
    assert model.partial_fit(messy(seed=5)).run_.scaler is scaler
    assert model.n_iter_ == 1


def test_rows_with_gaps_are_less_certain() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 1)) * np.ones(6) + 0.2 * rng.normal(size=(500, 6))
    x[rng.random(x.shape) < 0.2] = np.nan
    model = hb.PoincareVAE(max_epochs=40, hidden=(32,), distance_weight=0.0, random_state=0).fit(x)
    full = np.ones((1, 6))
    bare = np.array([[1.0, *[np.nan] * 5]])
    assert float(model.posterior_scale(bare)[0]) > float(model.posterior_scale(full)[0])


def test_columns_of_a_frame_are_found_by_name_and_never_misread() -> None:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)) * [1, 5, 100], columns=list("abc"))
    gaps = x.mask(np.eye(60, 3, dtype=bool))
    model = hb.PoincareVAE(**FAST).fit(gaps)
    moved = gaps[["c", "a", "b"]].assign(other="text")
    for frame in (moved, pl.from_pandas(moved), pa.Table.from_pandas(moved)):
        np.testing.assert_array_equal(model.transform(frame), model.transform(gaps))
    plain = hb.PoincareVAE(**FAST).fit(x)
    for frame in (x[["c", "a", "b"]], x.assign(other=1.0)):
        for given in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            np.testing.assert_array_equal(plain.transform(given), plain.transform(x))


def test_whole_numbers_of_an_array_with_gaps_are_counts_only_if_they_look_counted() -> None:
    rng = np.random.default_rng(0)
    scores = (100 + 15 * rng.normal(size=(200, 4))).round()
    counts = rng.poisson(3.0, size=(200, 4)).astype(float)
    for values, kind in ((scores, "real"), (counts, "count")):
        values[::7, 1] = np.nan
        model = hb.PoincareVAE(**FAST).fit(values)
        assert {found for found, _ in model.columns_.values()} == {kind}
