"""Neighbors from engines of inner products: a real PostgreSQL with pgvector, and lancedb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from horoball.datasets import branching_diffusion
from horoball.geometry import PoincareBall
from horoball.neighbors import Index, query_vectors, vectors
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train
from tests.late import late

psycopg = late("psycopg")

K, QUERIES, CANDIDATES = 10, 100, 50


def of_a_model(c: float) -> torch.Tensor:
    """Where a trained model puts rows, with the noise of their posteriors, so that no two are at one place."""
    x = branching_diffusion().x
    run = train(ArrayTable(x), {"hidden": (64,), "c": c, "d": 3}, TrainConfig(max_epochs=20))
    torch.manual_seed(0)
    return torch.cat([q.sample((5,)).flatten(0, 1) for q in run.posteriors(ArrayTable(x))]).double()


@pytest.fixture(scope="module", params=[0.0, 1.0])
def stored(request: pytest.FixtureRequest) -> tuple[torch.Tensor, PoincareBall]:
    return of_a_model(request.param), PoincareBall(request.param)


def compared(z: torch.Tensor, ball: PoincareBall, query: torch.Tensor, candidates: list[int]) -> list[int]:
    """The nearest of some candidates, by exact distances."""
    near = z[candidates]
    return [candidates[i] for i in ball.dist(query.expand_as(near), near).argsort()[:K]]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pgserver = pytest.importorskip("pgserver", reason="There is no pgserver for this Python")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri()
    server.cleanup()


def test_pgvector_finds_the_neighbors_of_the_index(postgres: str, stored: tuple[torch.Tensor, PoincareBall]) -> None:
    z, ball = stored
    rows, queries = vectors(z, ball), query_vectors(z[:QUERIES], ball)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create extension if not exists vector")
        connection.execute("drop table if exists points")
        connection.execute(f"create table points (id bigint primary key, v vector({rows.shape[1]}))")
        with connection.cursor().copy("copy points from stdin") as copy:
            for i, row in enumerate(rows):
                copy.write_row((i, str(row.tolist())))
        ask = "select id from points order by v <#> %s::vector limit %s"
        found = [connection.execute(ask, (str(q.tolist()), CANDIDATES)).fetchall() for q in queries]
    ids = Index(ball).add(z).search(z[:QUERIES], K)[1].tolist()
    assert [compared(z, ball, z[i], [n for (n,) in near]) for i, near in enumerate(found)] == ids
    assert np.mean([len({n for (n,) in near[:K]} & set(ids[i])) for i, near in enumerate(found)]) > 0.99 * K


def test_lancedb_finds_the_neighbors_of_the_index(tmp_path: Path, stored: tuple[torch.Tensor, PoincareBall]) -> None:
    z, ball = stored
    rows, queries = vectors(z, ball), query_vectors(z[:QUERIES], ball)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    lancedb = pytest.importorskip("lancedb")  # takes seconds to import
    table = lancedb.connect(tmp_path).create_table("points", pa.table({"id": np.arange(len(z)), "vector": column}))
    near = [table.search(q).distance_type("dot").limit(CANDIDATES).to_arrow()["id"].to_pylist() for q in queries]
    ids = Index(ball).add(z).search(z[:QUERIES], K)[1].tolist()
    assert [compared(z, ball, z[i], candidates) for i, candidates in enumerate(near)] == ids


def test_vectors_give_the_distance_back() -> None:
    z = torch.randn(200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for c in (0.0, 0.3, 2.0):
        ball, root = PoincareBall(c), c**0.5
        products = query_vectors(z[:20], ball).astype(np.float64) @ vectors(z, ball).astype(np.float64).T
        R = torch.linalg.vector_norm(z[:20], dim=-1, keepdim=True)
        distance = ball.cdist(z[:20], z)
        expected = 1 - (root * distance).cosh() / (root * R).cosh() if c else (R**2 - distance**2) / 2
        np.testing.assert_allclose(products, expected.numpy(), atol=2e-5)


def test_vectors_made_on_different_days_go_together() -> None:
    ball, z = PoincareBall(0.5), 3 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(np.concatenate((vectors(z[:7], ball), vectors(z[7:], ball))), vectors(z, ball))
    np.testing.assert_allclose(vectors(ball.to_ball(z.double()), ball, coordinates="ball"), vectors(z, ball), rtol=1e-5)
    with pytest.raises(ValueError, match="Queries are finite"):
        query_vectors([[np.nan, 0.0]], ball)
