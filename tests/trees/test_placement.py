from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from horoball.trees import Placed, Placer, calibration_error


def data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping groups, three by three; the last has no finer level."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(9).normal(size=(3, 1, 12)) * 1.5 + np.random.default_rng(8).normal(size=(3, 3, 12))
    coarse, fine = rng.integers(0, 3, n), rng.integers(0, 3, n)
    x = centers[coarse, fine] + 1.6 * rng.normal(size=(n, 12))
    return x, np.stack([coarse, np.where(coarse == 2, -1, 3 * coarse + fine)], 1)


def test_new_rows_find_their_groups_and_probabilities_are_calibrated() -> None:
    placer = Placer.fit(*data(900, 0))
    x, truth = data(2000, 1)
    placed = placer.place(x)
    right = np.cumprod(placed.path == truth, axis=1).astype(bool)
    assert right[:, 0].mean() > 0.85
    assert 0.5 < right[:, 1].mean() < 0.95  # some overlap
    for level in (0, 1):
        asked = placed.path[:, level] >= 0
        assert calibration_error(placed.probability[asked, level], right[asked, level]) < 0.06
    assert held(placed, truth).mean() > 0.88


def held(placed: Placed, truth: np.ndarray) -> np.ndarray:
    """Whether the place of each row holds the truth."""
    level = np.arange(truth.shape[1])
    return ((placed.path == truth) | (level >= placed.depth()[:, None])).all(1)


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_places_hold_the_truth_as_often_as_they_say(coverage: float) -> None:
    """Over draws of the rows of the fit, too: 29 are held out, so one fit alone may cover more or less."""
    share = []
    for seed in range(60):
        x, levels = data(145 + 100, seed)
        levels[::20] = -1  # rows in no group, which the root alone holds
        order = np.random.default_rng(seed).permutation(len(x))
        x, levels = x[order], levels[order]
        placer = Placer.fit(x[:145], levels[:145], seed=seed)
        assert len(placer.held) == 29
        share.append(held(placer.place(x[145:], coverage), levels[145:]).mean())
    # One-sided: a true mean of `coverage` fails once in a thousand seeds; the upper side is that it is not all root.
    assert ttest_1samp(share, coverage, alternative="less").pvalue > 1e-3
    assert np.mean(share) < coverage + 0.06  # 1/30 by the ranks of 29 rows


def test_confidence_is_the_largest_coverage_at_which_a_step_is_taken() -> None:
    placer, new = Placer.fit(*data(300, 0)), data(100, 1)[0]
    placed = placer.place(new, 0.8)
    assert placed.confidence is not None
    assert (np.diff(placed.confidence, axis=1) <= 0).all()
    n, strength = len(placer.held), placer._walk(placer._scores(new.astype(np.float32), placer.fitted[0]))[2]
    for coverage in (0.5, 0.8, 0.9, 0.95):
        limit = placer.held[int(np.ceil((n + 1) * coverage)) - 1]  # the quantile of split conformal prediction
        assert placer.place(new, coverage).depth().tolist() == (strength > limit).sum(1).tolist()
    assert set(placer.place(new, 0.01).depth()) <= {0, 1, 2}
    assert (placer.place(new, 0.98).depth() <= placed.depth()).all()


def test_rows_of_a_group_that_was_not_there_stay_at_the_root() -> None:
    rng = np.random.default_rng(0)
    centers = 8 * rng.normal(size=(4, 6))
    group = rng.integers(0, 4, 800)
    x, known = centers[group] + rng.normal(size=(800, 6)), group < 3
    placed = Placer.fit(x[known][:500], group[known][:500, None]).place(np.concatenate([x[known][500:], x[~known]]))
    there = np.arange(len(placed.path)) < known.sum() - 500
    assert placed.probability[~there].mean() > 0.9  # the softmax knows of no other groups
    assert (placed.depth()[~there] == 0).all()
    assert 0.8 < (placed.depth()[there] == 1).mean() < 1  # a tenth of them is as far as unknown ones may be


def test_few_rows_promise_little_and_say_so() -> None:
    x, levels = data(12, 0)
    placer = Placer.fit(x, levels[:, :1])
    assert len(placer.held) == 6
    with pytest.warns(
        UserWarning, match=r"6 rows were held out, which can promise a coverage of at most 0\.857, not 0\.9"
    ):
        assert (placer.place(x).depth() == 0).all()
    placer.place(x, 0.85)
    assert len(Placer.fit(np.eye(3), [[0], [0], [1]]).held) in (0, 1)  # two rows of a group are left
    for coverage in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="coverage is a probability between 0 and 1"):
            placer.place(x, coverage)


def test_a_threshold_still_works_and_says_what_to_use() -> None:
    placed = Placed(np.array([[0, 1]]), np.array([[0.9, 0.4]]), (("fruit",), ("apple", "pear")))
    with pytest.warns(FutureWarning, match="coverage"):
        assert placed.depth(0.5).tolist() == [1]
    with pytest.warns(FutureWarning, match="coverage"):
        assert placed.deepest(0.3) == ["pear"]
    with pytest.raises(ValueError, match=r"Place the rows by Placer\.place"):
        placed.depth()


def test_a_path_never_becomes_likelier_and_ends_where_its_group_does() -> None:
    placer = Placer.fit(*data(300, 0), names=[["a", "b", "c"], [f"part {i}" for i in range(6)]])
    placed = placer.place(data(100, 1)[0])
    assert (np.diff(placed.probability, axis=1) <= 0).all()
    ended = placed.path[:, 1] < 0
    assert ended.any()
    assert (placed.probability[ended, 1] == 0).all()
    assert (placed.path[ended, 0] == 2).all()
    assert placed.confidence is not None
    assert (placed.confidence[ended, 1] == 0).all()
    assert placed.names[int(np.argmax(ended))] == ["c"]
    assert placer.place(np.empty((0, 12))).path.shape == (0, 2)
    assert set(placed.deepest()) <= {None, "a", "b", "c", *(f"part {i}" for i in range(6))}


def test_rows_of_length_1_are_compared_by_their_cosine() -> None:
    x, levels = data(300, 0)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    placed = Placer.fit(x[:250], levels[:250]).place(x[250:])
    assert (placed.path[:, 0] == levels[250:, 0]).mean() > 0.7


@pytest.mark.parametrize("spread", [1.0, 0.4])
def test_the_groups_near_a_row_tell_what_all_of_them_do(spread: float) -> None:
    """Far groups and overlapping ones, small ones and some of many cells."""
    centers = np.random.default_rng(0).normal(size=(15, 1, 10)) * 2 + np.random.default_rng(1).normal(size=(15, 10, 10))

    def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        fine = np.minimum(rng.integers(0, 200, n), 149)  # a quarter of the rows are in one group
        x = centers.reshape(150, 10)[fine] + (1.2 - spread) * rng.normal(size=(n, 10))
        return x, np.stack([fine // 10, fine], 1)

    placer, (x, truth) = Placer.fit(*drawn(3000, 0)), drawn(1500, 1)
    assert placer._near.worth_it
    assert placer._near.scores(x)[2].mean() > 0.2
    near, all_of_them = placer._placed(x.astype(np.float32)), placer._walk_all(x.astype(np.float32))
    assert (near[0] == all_of_them[0]).mean() > 0.999
    assert np.abs(near[1] - all_of_them[1]).max() < 0.02
    assert np.abs(near[1] - all_of_them[1]).mean() < 1e-3
    assert held(placer.place(x), truth).mean() > 0.88


def test_what_cannot_be_fitted_is_refused() -> None:
    x = np.eye(4)
    with pytest.raises(ValueError, match="Every group has a single row"):
        Placer.fit(x, np.arange(4)[:, None])
    with pytest.raises(ValueError, match="a group that some of them are in"):
        Placer.fit(x, np.full((4, 1), -1))
    with pytest.raises(ValueError, match=r"got \(4, 4\) and \(4,\)"):
        Placer.fit(x, np.arange(4))
    with pytest.raises(ValueError, match="Expected rows of 12 columns"):
        Placer.fit(*data(50, 0)).place(x)
