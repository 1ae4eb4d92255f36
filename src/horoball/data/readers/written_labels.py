"""Labels of a text file: numbers where the text is certainly a number, and otherwise the text as it is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from horoball.data.files.gap_words import GAP_WORDS
from horoball.data.files.limits import check_widths

__all__ = ["written_labels"]

_WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"  # exact in 64 bits
_NUMBER = r"^-?((0|[1-9][0-9]{0,17})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"


def written_labels(column: Any) -> np.ndarray:
    """Labels from the cells of a column of text.

    They are numbers if every cell is one, or is empty or a marker such as NA, and if no two different cells become
    the same number. Codes such as 007, digits that no float holds, and text stay as they are written; NA among text is
    a label like any other.

    Args:
        column: A pyarrow array of text.

    Example:
        >>> import pyarrow as pa
        >>> written_labels(pa.chunked_array([["1", "NA", "3"]])).tolist()
        [1, None, 3]
        >>> written_labels(pa.chunked_array([["007", "7", "NA"]])).tolist()
        ['007', '7', 'NA']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    there = pc.if_else(pc.is_in(column, pa.array(GAP_WORDS)), None, column)
    for pattern, kind in ((_WHOLE, pa.int64()), (_NUMBER, pa.float64())):
        # `all` of no value is null: a column without a single number stays text.
        if pc.all(pc.match_substring_regex(there, pattern), min_count=1).as_py():
            numbers = there.cast(kind)
            if pc.count_distinct(numbers).as_py() == pc.count_distinct(there).as_py():
                return np.asarray(numbers.to_pylist())
    texts = column.to_pylist()
    check_widths(texts, "The labels")
    return np.asarray(texts)
