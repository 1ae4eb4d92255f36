"""Fields of a model's configuration that follow from the numbers of a table, or from their being counts of cells."""

from __future__ import annotations

import logging
from typing import Any

from horoball.data.tables.standardizer import Summary
from horoball.likelihoods import LIKELIHOODS, guess_likelihood

__all__ = ["observed_fields"]

_log = logging.getLogger("horoball")


def observed_fields(fields: dict[str, Any], summary: Summary) -> dict[str, Any]:
    """Fields of `ModelConfig` with those that depend on the numbers: what is given stays, if the numbers suit it.

    Args:
        fields: What is given; the likelihood may be "auto", or left out.
        summary: Of the numbers.

    Example:
        >>> from horoball.data.tables.array_table import ArrayTable
        >>> from horoball.data.tables.standardizer import summarize
        >>> observed_fields({"d": 2}, summarize(ArrayTable([[0.0, 1.5]])))
        {'log_input': False, 'learn_scale': True, 'd': 2, 'likelihood': 'normal'}
    """
    name = fields.get("likelihood", "auto")
    if name == "auto":
        name, why = guess_likelihood(summary)
        _log.info("Likelihood: %s, because %s.", name, why)
    kind = LIKELIHOODS[name]
    kind.check(summary, **{option: fields[option] for option in kind.options if option in fields})
    return kind.fields(summary) | fields | {"likelihood": name}
