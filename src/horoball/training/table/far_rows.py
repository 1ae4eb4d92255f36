"""Rows that lie far outside of those of the fit, as rows in another unit do: they are embedded, and said."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from horoball.data.tables.column_names import some_names

__all__ = ["FarRowWarning", "far_report"]

_LOG_LIMIT = 12.0  # of |log| of a positive number over the geometric mean: 160,000 times as much, or as little
_NAMED = 5  # rows that a report names


class FarRowWarning(UserWarning):
    """Rows lie far outside of those that the model was fitted to.

    Example:
        >>> issubclass(FarRowWarning, UserWarning)
        True
    """


@contextmanager
def far_report(
    columns: Sequence[str], likelihoods: str, limit: float, first: int = 0
) -> Iterator[Callable[[Tensor], None]]:
    """Collect scaled rows, block by block, and warn once of those far outside of the rows of the fit.

    Args:
        columns: Names of the features.
        likelihoods: The likelihood of each feature of a mixed model; empty if all are scaled alike.
        limit: In standard deviations, beyond which a value is far: twice as far as any row of the fit. 0 for none.
        first: Number of the first row.

    Example:
        >>> with warnings.catch_warnings(record=True, action="always") as caught, far_report(["a"], "", 10.0) as note:
        ...     note(torch.tensor([[1.0], [1e6]]))
        >>> str(caught[0].message)[:79]
        '1 of 2 rows lies far outside of the rows of the fit: row 1, most of all in colu'
    """
    kinds = likelihoods.split(",") if likelihoods else ["normal"] * len(columns)
    real = torch.tensor([i for i, kind in enumerate(kinds) if kind == "normal"], dtype=torch.long)
    positive = torch.tensor([i for i, kind in enumerate(kinds) if kind == "log_normal"], dtype=torch.long)
    seen, count, named = 0, 0, list[int]()
    farthest, where = 1.0, 0  # times the limit, and the column

    def note(block: Tensor) -> None:
        nonlocal seen, count, farthest, where
        x = block[:, : len(columns)].detach().cpu()
        times = torch.cat((x[:, real].abs() / limit, x[:, positive].clamp_min(1e-30).log().abs() / _LOG_LIMIT), 1)
        times = times.nan_to_num(0.0)  # gaps
        if times.numel() and float(times.max()) > 1:
            far = (times > 1).any(1).nonzero().ravel()
            count += len(far)
            named.extend((first + seen + far[: _NAMED - len(named)]).tolist())
            if float(times.max()) > farthest:
                farthest = float(times.max())
                where = int(torch.cat((real, positive))[int(times.amax(0).argmax())])
        seen += len(block)

    yield note if limit > 0 else lambda block: None
    if count:
        lie = "lies" if count == 1 else "lie"
        warnings.warn(
            f"{count:,} of {seen:,} rows {lie} far outside of the rows of the fit: row {', '.join(map(str, named))}"
            f"{' …' * (count > _NAMED)}, most of all in column {some_names([columns[where]])}. The model knows nothing "
            "of such rows. Check their units, and that they were prepared as those of the fit.",
            FarRowWarning,
            stacklevel=3,
        )
