"""What one pass over a column tells: how many values it has, which, how they are spread, and whether they are an id."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.tables.cell_values import GAP_WORDS, NumberCells, OddCell, decimal_of, gap_numbers, is_text_type
from horoball.tables.encoding import days_since_1970, odd_dates_of
from horoball.tables.numbers import loses_digits
from horoball.tables.parquet_files import check_single

MOSTLY_COUNTED = 2 / 3  # part of the columns of a table that have to look counted

_NEAR_ZERO = 0.25  # of the mean: below this comes the lowest of counts that vary more than Poisson's
_POISSON = 2.0  # variance over mean up to which counts may stay far from 0
_DISPERSION = 0.5  # variance over mean that counts have at least
_SKEW = 0.5  # part of the skewness of a negative binomial that counts have at least


def looks_counted(x: Tensor) -> Tensor:
    r"""For each column of whole numbers from 0 on, whether they look counted; gray values and scores do not.

    A negative binomial of mean μ and variance σ² ≥ μ has the skewness (2σ²/μ − 1)/σ, a Poisson distribution 1/√μ. A
    column looks counted if it has half of that, less two standard errors √(6/n), if its variance is not below half of
    its mean (below what chance leaves of it in a few rows), and if it comes near 0 where it varies more than Poisson's.
    """
    x = x.double()
    mean, variance = x.mean(0), x.var(0, correction=0)
    std = variance.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    skew = ((x - mean) / std).pow(3).mean(0)
    ratio = variance / mean.clamp_min(torch.finfo(torch.float64).tiny)
    least = _SKEW * (2 * ratio.clamp_min(1) - 1) / std - 2 * (6 / len(x)) ** 0.5
    near = (ratio <= _POISSON) | (x.amin(0) <= (_NEAR_ZERO * mean).clamp_min(1))
    dispersed = ratio >= min(_DISPERSION, 1 - 3 * (2 / len(x)) ** 0.5)
    return (variance == 0) | (near & dispersed & (skew >= least))


_MOST_DISTINCT = 10_000  # values that are counted; a column with more is no category
_SAMPLE = 4096  # numbers of a batch that are kept to judge the shape of a column


class Profile:
    """What is known of a column of Arrow data, a batch at a time.

    Args:
        name: Name of the column.
        kind: Its Arrow type.
        gaps: Words that stand for a missing value, beside `GAP_WORDS`.
        decimal: The decimal mark of a text file; None where the source has types.
    """

    def __init__(self, name: str, kind: Any, gaps: Sequence[str] = (), decimal: str | None = None) -> None:
        import pyarrow as pa

        self.name = name
        self.gaps = {*GAP_WORDS, *gaps}
        self._sentinels = gap_numbers(gaps)
        # A column of categories was made so on purpose, whatever they are called.
        self._cells = None if pa.types.is_dictionary(kind) else NumberCells(decimal)
        self._numbers: Profile | None = None
        self.ordered = pa.types.is_dictionary(kind) and bool(kind.ordered)
        self.type = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.rows = self.missing = 0
        self.counts: Counter[Any] | None = Counter()  # None: more values than are counted
        self.repeats = False  # whether a value has occurred twice, as long as they were counted
        self.low, self.high, self.whole = np.inf, -np.inf, True
        self.rising = self.falling = True  # whether every number is above, or below, the one before it
        self._last: float | None = None
        self._sample: list[np.ndarray] = []
        self._digest = hashlib.sha256()
        self.ends: tuple[int, int] | None = None  # of a type of whole numbers: the least and the largest, exactly
        self.written_whole = False  # of numbers that were text: whether none has a decimal mark
        self.odd_dates: list[OddCell] = []  # of text of which nine cells in ten are dates: the others
        self.dictionary: list[str] = []  # of an ordered category, in its order

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        import pyarrow as pa

        return pa.types.is_integer(self.type) or pa.types.is_floating(self.type) or pa.types.is_decimal(self.type)

    @property
    def is_whole_type(self) -> bool:
        """Whether its type is one of whole numbers."""
        import pyarrow as pa

        return pa.types.is_integer(self.type) or self.written_whole

    @property
    def is_text(self) -> bool:
        """Whether it holds text."""
        return is_text_type(self.type)

    @property
    def numbers(self) -> Profile | None:
        """A profile of the numbers of a column of text, if nine cells in ten are numbers; `odd` has the others."""
        return self._number_profile() if self._cells is not None and self._cells.are_numbers else None

    @property
    def odd(self) -> list[OddCell]:
        """Cells of text that are no numbers, by their text; some of them if there are very many."""
        return [] if self._cells is None else list(self._cells.odd.values())

    def _number_profile(self) -> Profile:
        import pyarrow as pa

        if self._numbers is None:
            self._numbers = Profile(self.name, pa.float64())
        self._numbers.written_whole = self._cells is not None and self._cells.whole
        return self._numbers

    @property
    def observed(self) -> int:
        """Values that are there."""
        return self.rows - self.missing

    @property
    def distinct(self) -> int | None:
        """How many different values there are; None if they are too many to count."""
        return None if self.counts is None else len(self.counts)

    @property
    def digest(self) -> str:
        """Equal for columns of equal values."""
        return self._digest.hexdigest()

    @property
    def sample(self) -> np.ndarray:
        """Some of the numbers, none missing."""
        return np.concatenate(self._sample) if self._sample else np.empty(0)

    def add(self, values: Any) -> None:
        """Take in the values that follow, an Arrow array."""
        import pyarrow as pa

        if pa.types.is_dictionary(values.type):
            if self.ordered and not self.dictionary:
                self.dictionary = [str(value) for value in values.dictionary.to_pylist()]
            values = values if self.is_text else values.dictionary_decode()
        self.rows += len(values)
        if self.is_number:
            x = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)  # missing ones become NaN
            if self._sentinels:
                x = np.where(np.isin(x, self._sentinels), np.nan, x)
            if pa.types.is_integer(self.type):
                self._add_ends(values)
            self._digest.update(x.tobytes())
            there = x[~np.isnan(x)]
            self._add_numbers(there)
            self.missing += len(x) - len(there)
            if self.counts is not None:
                found, times = np.unique(there, return_counts=True)
                self._count(found.tolist(), times)
            return
        if not self.is_text:
            self.missing += values.null_count
        if pa.types.is_date(self.type) or pa.types.is_timestamp(self.type):
            days = days_since_1970(values, "time")
            self._add_numbers(days[~np.isnan(days)])
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        if self.is_text:
            codes = self._add_text(encoded.dictionary, texts, codes)
        # By the values themselves: dictionaries of equal columns may have them in another order.
        hashes = [
            hashlib.blake2b(repr(text).encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts
        ]
        self._digest.update(np.array([*hashes, b""], "V8")[codes].tobytes())
        if self.counts is not None:
            times = np.bincount(codes, minlength=len(texts) + 1)[: len(texts)]
            there = np.flatnonzero(times)  # a dictionary may hold values that do not occur
            self._count([texts[number] for number in there], times[there])

    def _add_text(self, dictionary: Any, texts: list[str | None], codes: np.ndarray) -> np.ndarray:
        """Codes with words for missing values taken as missing; numbers among the cells have a profile of their own."""
        import pyarrow as pa

        gone = np.array([text is None or text in self.gaps for text in texts] + [True])[codes]
        codes = np.where(gone, len(texts), codes.astype(np.int64))
        self.missing += int(gone.sum())
        if self._cells is None:
            return codes
        x, numbers = self._cells.add(dictionary, codes, self.rows - len(codes)), self._number_profile()
        if x is None:
            numbers.rows, numbers.missing = numbers.rows + len(codes), numbers.missing + len(codes)
        else:
            numbers.add(pa.array(np.where(np.isin(x, self._sentinels), np.nan, x) if self._sentinels else x))
        return codes

    def _add_ends(self, values: Any) -> None:
        """Of whole numbers from 2⁵³ on, float64 merges some."""
        import pyarrow.compute as pc

        found = pc.min_max(values).as_py()
        if found["min"] is not None:
            low, high = self.ends or (found["min"], found["max"])
            self.ends = min(low, found["min"]), max(high, found["max"])

    @property
    def loses_digits(self) -> bool:
        """Whether numbers vary by so little of their size that float32 rounds most of it away."""
        if not self.is_number or not self.observed:
            return False
        if self.ends is not None and not self._sentinels:
            return bool(loses_digits(*self.ends, exact=True))
        return bool(loses_digits(self.low, self.high))

    @property
    def merged(self) -> bool:
        """Whether they are whole numbers from 2⁵³ on, of which float64 makes one of several."""
        return self.ends is not None and max(abs(end) for end in self.ends) > 1 << 53 and self.loses_digits

    def _count(self, values: list[Any], times: np.ndarray) -> None:
        assert self.counts is not None  # noqa: S101  the caller has looked
        new = not self.counts
        self.repeats |= bool((times > 1).any()) or not (new or self.counts.keys().isdisjoint(values))
        if len(values) > _MOST_DISTINCT:  # they need not be counted one by one first
            self.counts = None
            return
        counts = dict(zip(values, times.tolist(), strict=True))
        if new:
            self.counts = Counter(counts)
        else:
            self.counts.update(counts)
        if len(self.counts) > _MOST_DISTINCT:
            self.counts = None

    def _add_numbers(self, x: np.ndarray) -> None:
        if not len(x):
            return
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        with np.errstate(invalid="ignore"):
            self.whole = self.whole and bool((x == np.rint(x)).all())
            steps = np.diff(x if self._last is None else np.concatenate(([self._last], x)))
        self.rising, self.falling = self.rising and bool((steps > 0).all()), self.falling and bool((steps < 0).all())
        self._last = float(x[-1])
        # A copy: a view would keep all numbers of the batch for as long as there is a profile.
        self._sample.append(x[:: max(1, len(x) // _SAMPLE)].copy())


def profile_batches(schema: Any, batches: Any, where: str = "The table", gaps: Sequence[str] = ()) -> list[Profile]:
    """A profile of each column; refuses columns of lists and records, which have no single values."""
    check_single(schema, where)
    profiles = [Profile(field.name, field.type, gaps, decimal_of(field)) for field in schema]
    for profile, field in zip(profiles, schema, strict=True):
        profile.odd_dates = odd_dates_of(field)
    for batch in batches:
        for profile, column in zip(profiles, batch.columns, strict=True):
            profile.add(column)
    return profiles
