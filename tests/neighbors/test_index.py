"""The index as users meet it: what goes in and what is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from horoball.neighbors.index import as_names
from tests.neighbors.clouds import points, true_neighbors
from tests.tracing import tracing_apart

BALL = hb.PoincareBall(1.0)


def test_the_library_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, horoball as hb; hb.neighbors.Index; assert 'faiss' not in sys.modules"
    told = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = Index(BALL).add(points())
    with pytest.raises(ImportError, match=r'pip install "horoball\[search\]"'):
        index.search(points(), 3)


def test_ball_coordinates_give_the_same_neighbors() -> None:
    z = points().double()
    ball = hb.PoincareBall(0.7)
    tangent = Index(ball).add(z).search(z, 4)
    x = ball.to_ball(z)
    for given in (x, x.numpy(), x.tolist()):
        shown = Index(ball, coordinates="ball").add(given).search(given, 4)
        torch.testing.assert_close(shown, tangent)


def test_points_on_the_rim_are_refused() -> None:
    for x in ([[1.0, 0.0]], [[0.0, 1.5]], [[1 - 1e-17, 0.0]]):
        with pytest.raises(ValueError, match="inside the ball"):
            Index(BALL, coordinates="ball").add(x)
    index = Index(BALL, coordinates="ball").add([[0.1, 0.2]])
    with pytest.raises(ValueError, match="inside the ball"):
        index.search([[1.0, 0.0]], 1)


def test_a_learned_curvature_is_taken_as_it_is_now() -> None:
    ball = hb.PoincareBall(0.5, learnable=True)
    index = Index(ball).add(points())
    with torch.no_grad():
        ball.raw_c += 1
    distances, _ = index.search(points(5, seed=1), 2)
    torch.testing.assert_close(
        distances, true_neighbors(hb.PoincareBall(index.ball.c), points(), points(5, seed=1), 2)[0]
    )
    assert index.ball.c == pytest.approx(0.5)


@pytest.mark.parametrize("searched", [True, False])
def test_points_may_come_in_parts(searched: bool) -> None:
    z = points()
    index = Index(BALL)
    for part in (z[:50], z[50:50], 3 * z[50:51], z[51:]):  # nothing, and farther than before
        index.add(part)
        if searched:
            index.search(part if len(part) else z[:1], 5)
    whole = Index(BALL).add(torch.cat((z[:50], 3 * z[50:51], z[51:])))
    assert len(index) == 200
    for a, b in zip(index.search(z, 7), whole.search(z, 7), strict=True):
        assert torch.equal(a, b)


def test_points_that_are_far_out_come_late() -> None:
    for c in (0.0, 1.0):
        ball = hb.PoincareBall(c)
        z = torch.cat((1e-9 * points(50), 1e-4 * points(50), points(50), 10 * points(50)))
        index = Index(ball)
        for part in z.split(50):
            index.add(part).search(part, 3)
        assert torch.equal(index.search(z, 5)[1], true_neighbors(ball, z, z, 5)[1])


def test_what_was_given_may_be_written_to() -> None:
    z = points()
    index = Index(BALL).add(z)
    kept = z.clone()
    z.zero_()
    assert torch.equal(index.points, kept)


def test_float32_and_float64_points_mix() -> None:
    index = Index(BALL).add(points(10)).add(points(10, seed=1).double())
    assert index.points.dtype == torch.float64
    assert Index(BALL).add(points(10)).points.dtype == torch.float32


def test_one_query_and_none() -> None:
    index = Index(BALL).add(points())
    assert [tuple(found.shape) for found in index.search(points(1), 3)] == [(1, 3)] * 2
    assert [tuple(found.shape) for found in index.search(points(0), 3)] == [(0, 3)] * 2


def test_names_are_kept() -> None:
    names = [f"Ω{i}" for i in range(200)]
    index = Index(BALL).add(points()[:100], names[:100]).add(points()[100:], np.array(names[100:], object))
    ids = index.search(points()[:4], 2)[1]
    assert index.names(ids)[:, 0].tolist() == names[:4]
    assert index.names(7) == "Ω7"
    assert "named" in repr(index)
    numbered = Index(BALL).add(points(), np.arange(200) * 10)
    assert numbered.names(numbered.search(points()[:4], 1)[1]).tolist() == [[0], [10], [20], [30]]


@pytest.mark.parametrize(
    ("error", "message", "do"),
    [
        (ValueError, "The index is empty", lambda index: Index(BALL).search(points(), 1)),
        (ValueError, "k from 1 to the number of points, 200, got 201", lambda index: index.search(points(), 201)),
        (ValueError, "k from 1", lambda index: index.search(points(), 0)),
        (TypeError, "k as a whole number.* got 2.5", lambda index: index.search(points(), 2.5)),
        (TypeError, "k as a whole number.* got 'two'", lambda index: index.ancestors(0, "two")),
        (TypeError, "Queries are coordinates, got text", lambda index: index.search("cat", 1)),
        (TypeError, "Queries are coordinates, got text", lambda index: index.search(["cat", "dog"], 1)),
        (TypeError, "Queries are coordinates, got text", lambda index: index.search([["cat", 0.5, 1.0]], 1)),
        (TypeError, "Queries are coordinates, got text", lambda index: index.search(np.array([["a", 1]], object), 1)),
        (TypeError, "Points of the index are coordinates, got text", lambda index: index.add([["a", "b", "c"]])),
        (TypeError, "Queries are real numbers, got object", lambda index: index.search([[None, 0.5, 1.0]], 1)),
        (TypeError, "Queries are real numbers, got datetime64", lambda index: index.search(np.zeros(3, "M8[s]"), 1)),
        (ValueError, "rows of different lengths", lambda index: index.search([[0.5, 1.0, 0.0], [1.0]], 1)),
        (TypeError, "id of a point, a whole number, got 'wolf'", lambda index: index.ancestors("wolf")),
        (TypeError, "id of a point, a whole number, got 'wolf'", lambda index: index.descendants("wolf")),
        (TypeError, "id of a point, a whole number, got 'wolf'", lambda index: index.ancestors(0, root="wolf")),
        (TypeError, "id of a point, a whole number, got 0.5", lambda index: index.descendants(0, root=0.5)),
        (TypeError, "id of a point, a whole number, got None", lambda index: index.ancestors(None)),
        (ValueError, r"shape \(n, 3\), got \(200, 4\)", lambda index: index.search(points(d=4), 1)),
        (ValueError, r"shape \(n, 3\), got \(200, 4\)", lambda index: index.add(points(d=4))),
        (ValueError, r"Give a single point as z\[None\]", lambda index: index.search(points()[0], 1)),
        (ValueError, r"shape \(n, d\)", lambda index: Index(BALL).add(torch.ones(3, 0))),
        (ValueError, "in row 1", lambda index: index.search([[0.0, 0, 0], [0, float("nan"), 0]], 1)),
        (ValueError, "in row 0", lambda index: index.add([[0.0, float("inf"), 0]])),
        (ValueError, "sqrt.c.* = 80 of the origin, got 100", lambda index: index.add([[100.0, 0, 0]])),
        (TypeError, "real numbers", lambda index: index.add(points() > 0)),
        (ValueError, "all have or none", lambda index: index.add(points(), list(range(200)))),
        (ValueError, "one name for each of 200", lambda index: Index(BALL).add(points(), ["a"])),
        (TypeError, "text or whole numbers", lambda index: Index(BALL).add(points(2), [0.5, 1.5])),
        (TypeError, "text or whole numbers", lambda index: Index(BALL).add(points(2), np.array(["a", 1], object))),
        (TypeError, "another kind", lambda index: Index(BALL).add(points(1), ["a"]).add(points(1), [1])),
        (ValueError, "no names", lambda index: index.names([0])),
        (IndexError, "id from 0 to 199, got 200", lambda index: index.ancestors(200)),
        (IndexError, "id from 0 to 199, got -1", lambda index: index.descendants(0, root=-1)),
        (ValueError, "angle", lambda index: index.ancestors(0, angle=91.0)),
        (ValueError, "at least 1", lambda index: index.ancestors(0, 0)),
        (ValueError, "'tangent' or 'ball'", lambda index: Index(BALL, coordinates="klein")),
        (ValueError, "recall", lambda index: Index(BALL, recall=0.0)),
        (ValueError, "seed", lambda index: Index(BALL, seed=-1)),
        (ValueError, "exact_up_to of at least 1000, got 10", lambda index: Index(BALL, exact_up_to=10)),
    ],
)
def test_what_an_index_cannot_take_is_refused(error: type[Exception], message: str, do: Any) -> None:
    index = Index(BALL).add(points())
    with pytest.raises(error, match=message):
        do(index)
    assert len(index) == 200


@pytest.mark.parametrize("ids", ["cat", ["cat"], 0.5, [True], [[0, "dog"]], None])
def test_names_are_asked_for_by_ids(ids: Any) -> None:
    index = Index(BALL).add(points(2), ["cat", "dog"])
    with pytest.raises(TypeError, match="Expected ids of points, which are whole numbers"):
        index.names(ids)


@pytest.mark.parametrize("ids", [-1, [0, 2], [[0], [-3]]])
def test_names_of_points_that_are_not_there_are_refused(ids: Any) -> None:
    index = Index(BALL).add(points(2), ["cat", "dog"])
    with pytest.raises(IndexError, match="Expected an id from 0 to 1, got"):
        index.names(ids)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda names: np.array(names, object), "T"])
def test_names_of_every_kind_of_array_are_the_same(kind: Any) -> None:
    given = ["cat", "", "Ω" * 50]
    names = np.array(given, np.dtypes.StringDType()) if kind == "T" else kind(given)
    kept = as_names(names, 3)
    assert kept.tolist() == given
    assert {type(name) for name in kept} == {str}


def last_of_many_names() -> str:
    names = ["x" * 1_000_000, *map(str, range(20_000))]
    index = Index(BALL).add(points(20_001), names)
    index.add(points(20_000, seed=1), names[1:])
    return str(index.names(np.arange(40_001))[-1])


def test_one_long_name_does_not_make_all_others_as_long() -> None:
    with tracing_apart() as traced:
        last, peak = traced(last_of_many_names)
    assert last == "19999"
    assert peak < 20e6


def test_names_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"up to 2\*\*63 - 1, got 9223372036854775813\. Pass them as text"):
        as_names(np.array([2**63 + 5], np.uint64), 1)


def test_a_query_beyond_float32_is_refused() -> None:
    index = Index(hb.PoincareBall(0.0)).add(torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], dtype=torch.float64))
    assert index.search(torch.tensor([[1e30, 0.0]], dtype=torch.float64), k=3)[1].shape == (1, 3)
    with pytest.raises(ValueError, match="too far away for an index in float32"):
        index.search(torch.tensor([[1e40, 0.0]], dtype=torch.float64), k=3)


def test_a_search_ends_where_no_product_is_finite() -> None:
    z = torch.nn.functional.normalize(torch.tensor([[1.0, 1.0], [-1.0, -1.0], [0.5, -1.0]]), dim=-1)
    index = Index(hb.PoincareBall(0.0)).add(z)
    with pytest.raises(ValueError, match="too far away for an index in float32"):
        index.search([[3e38, 3e38]], k=3)
    assert index.search([[1e37, 1e37]], k=3)[1].shape == (1, 3)


def test_masks_are_refused() -> None:
    masked = np.ma.masked_greater([[0.1, 0.2], [0.9, 0.0]], 0.5)
    with pytest.raises(ValueError, match=r"The array of points of the index has 1 masked value. Masks are not read"):
        Index(BALL).add(masked)
    with pytest.raises(ValueError, match="The array of queries has 1 masked value"):
        Index(BALL).add(masked.filled(0.0)).search(masked, 1)
