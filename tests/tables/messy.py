"""A table as people have it: ids, dates, text, gaps, a rating, a flag, amounts with a long tail, a constant, a copy."""

from __future__ import annotations

import numpy as np
import pandas as pd

KINDS = {
    "customer_id": "skip",
    "name": "skip",
    "signup": "date",
    "country": "category",
    "age": "real",
    "income": "positive",
    "visits": "count",
    "rating": "ordinal",
    "newsletter": "binary",
    "plan": "binary",
    "currency": "skip",
    "age_again": "skip",
    "last_seen": "date",
}


def messy(rows: int = 300, gaps: float = 0.1, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, rows)
    days = (group * 200 + rng.integers(0, 180, rows)).astype("timedelta64[D]")
    country = np.where(rng.random(rows) < 0.8, group, rng.integers(0, 4, rows))
    frame = pd.DataFrame(
        {
            "customer_id": 100_000 + np.arange(rows),
            "name": [f"Customer {i}" for i in rng.permutation(rows)],
            "signup": (np.datetime64("2022-01-01") + days).astype(str),
            "country": np.array(["DE", "FR", "US", "BR"])[country],
            "age": np.round(30 + 8 * group + rng.normal(0, 4, rows)),
            "income": np.round(np.exp(9.5 + 0.5 * group + 0.6 * rng.normal(size=rows)), 2),
            "visits": rng.poisson(1 + 2 * group),
            "rating": np.clip(1 + group + rng.integers(0, 2, rows), 1, 5),
            "newsletter": rng.random(rows) < 0.15 + 0.2 * group,
            "plan": np.where(rng.random(rows) < 0.2 + 0.2 * group, "plus", "free"),
            "currency": "EUR",
            "age_again": 0,
            "last_seen": 1_700_000_000 + 86_400 * rng.integers(0, 300, rows),
            "segment": np.array(list("abcd"))[group],
        }
    )
    frame["age"] = frame["age"].astype("Int64")
    frame["rating"] = frame["rating"].astype("Int64")
    frame["newsletter"] = frame["newsletter"].astype("boolean")
    for name in ("signup", "country", "age", "income", "rating", "newsletter"):
        frame.loc[rng.random(rows) < gaps, name] = None
    frame["age_again"] = frame["age"]
    return frame
