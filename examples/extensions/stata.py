"""A table format: files of Stata, read by pandas."""

import pandas as pd

from horoball.tables import ArrayTable
from horoball.tables.formats import table_reader
from horoball.tables.schema import choose


@table_reader(".dta", ids=False)
def read_stata(path, options):
    """The columns that were asked for; the label apart."""
    frame = pd.read_stata(path)
    chosen = choose(list(frame.columns), options, path)
    labels = None if chosen.label is None else frame[chosen.label].to_numpy(str)
    return ArrayTable(frame[chosen.features].to_numpy("float32"), chosen.features, labels)
