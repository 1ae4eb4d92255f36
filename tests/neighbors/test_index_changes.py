"""Points leave an index and move in it; what is left is found as in an index that was made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.geometry.ball import PoincareBall
from horoball.neighbors import Index

pytest.importorskip("faiss")


def cloud(n: int, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def same(one: Index, other: Index, q: torch.Tensor, k: int = 5) -> None:
    far, ids = one.search(q, k)
    wanted, others = other.search(q, k)
    assert torch.equal(ids, others)
    assert torch.equal(far, wanted)
    assert one.names(ids).tolist() == other.names(others).tolist()


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_what_is_left_is_found_as_before(searched: bool, by_name: bool) -> None:
    z, names = cloud(500), [f"p{i}" for i in range(500)]
    index = Index(PoincareBall()).add(z, names)
    if searched:
        index.search(z[:2])
    gone = np.random.default_rng(0).permutation(500)[:120]
    index.remove(names=[names[i] for i in gone]) if by_name else index.remove(gone)
    kept = np.setdiff1d(np.arange(500), gone)
    same(index, Index(PoincareBall()).add(z[kept], [names[i] for i in kept]), cloud(20, seed=1))
    assert len(index) == 380


def test_partitions_are_kept_and_find_as_many(tmp_path: Path) -> None:
    z = cloud(6000)
    index = Index(PoincareBall(), exact_up_to=1000).add(z, range(6000))
    index.search(z[:1])
    engine = index._engine
    assert engine is not None
    gone = np.random.default_rng(0).permutation(6000)[:2000]
    index.remove(gone)
    assert index._engine is not None
    assert index._engine.partitions is engine.partitions
    kept = np.setdiff1d(np.arange(6000), gone)
    exact = Index(PoincareBall(), recall=1).add(z[kept], kept)
    q = cloud(200, seed=2)
    found, wanted = index.names(index.search(q, 10)[1]), exact.names(exact.search(q, 10)[1])
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, wanted, strict=True)])
    assert shared >= 0.97
    index.save(tmp_path)
    again = Index.load(tmp_path)
    assert again.names(np.arange(len(again))).tolist() == kept.tolist()
    found = again.names(again.search(q, 10)[1])
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, wanted, strict=True)]) >= 0.97
    index.remove(np.arange(2001))  # less than half is left
    assert index._engine is None
    index.search(q, 3)


def test_points_move_and_new_ones_come() -> None:
    z, moved = cloud(100), cloud(30, seed=3)
    index = Index(PoincareBall()).add(z, range(100))
    index.search(z[:1])
    index.update(moved, np.arange(80, 110))
    whole = Index(PoincareBall()).add(torch.cat((z[:80], moved)), range(110))
    same(index, whole, cloud(20, seed=4))


def test_what_is_not_there_is_refused_and_nothing_is_changed() -> None:
    index = Index(PoincareBall()).add(cloud(3), ["a", "b", "b"])
    for remove in (
        lambda: index.remove(names=["a", "c"]),
        lambda: index.remove([0, 0]),
        lambda: index.remove(),
        lambda: index.update(cloud(1), ["b"]),
        lambda: index.update(cloud(2), ["d", "d"]),
    ):
        with pytest.raises(ValueError, match=r"No point|twice|either|2 points"):
            remove()
    with pytest.raises(IndexError):
        index.remove([3])
    with pytest.raises(TypeError):
        index.update(cloud(1), [7])
    assert len(index) == 3
    assert len(index.remove(names=["b"])) == 1
    assert len(index.remove([0])) == 0
    assert index.add(cloud(2, 5)).search(cloud(1, 5), 2)[1].shape == (1, 2)
    with pytest.raises(ValueError, match="no names"):
        index.update(cloud(1, 5), ["x"])
