"""Parquet files whose bytes have changed: what is refused, with which words, and what nobody can notice."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from quality.drills.outcome import Outcome, refused
from quality.drills.stage import GROUP, Stage

__all__ = ["damage", "damaged_cut", "damaged_footer", "damaged_page", "damaged_unseen", "damaged_values"]

_COLUMN, _ROW_GROUP = 3, 4


def damage(path: Path, *, group: int, header: bool) -> Path:
    """Flip bytes of a page of a row group: those of its header, or eight of its values."""
    chunk = pq.read_metadata(path).row_group(group).column(_COLUMN)
    end = chunk.data_page_offset + chunk.total_compressed_size
    return _flip(path, chunk.data_page_offset if header else end - 80, 8)


def _flip(path: Path, first: int, count: int) -> Path:
    data = bytearray(path.read_bytes())
    for place in range(first, first + count):
        data[place] ^= 0x5A
    path.write_bytes(data)
    return path


def damaged_page(stage: Stage) -> Outcome:
    """The header of a page is no longer one."""
    drill = Outcome("damaged-page", "bytes of a page's header are flipped in row group 4")
    path = damage(stage.write(stage.base / "page.parquet"), group=_ROW_GROUP, header=True)
    return _both(stage, drill, path, "page.parquet is damaged in row group 4")


def damaged_values(stage: Stage) -> Outcome:
    """Values that would still decode, in a file with checksums."""
    drill = Outcome("damaged-values", "eight bytes of values are flipped, in a file with checksums")
    path = damage(stage.write(stage.base / "values.parquet", checksums=True), group=_ROW_GROUP, header=False)
    return _both(stage, drill, path, "values.parquet is damaged in row group 4", "CRC")


def damaged_footer(stage: Stage) -> Outcome:
    """The list of row groups at the end of a file."""
    drill = Outcome("damaged-footer", "bytes of the file's footer are flipped")
    path = stage.write(stage.base / "footer.parquet")
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    return _both(
        stage, drill, _flip(path, path.stat().st_size - 8 - length, 40), "footer.parquet is not a Parquet file"
    )


def damaged_cut(stage: Stage) -> Outcome:
    """A copy that was not finished."""
    drill = Outcome("damaged-cut", "the second half of the file is missing")
    path = stage.write(stage.base / "cut.parquet")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return _both(stage, drill, path, "cut.parquet is not a Parquet file")


def _both(stage: Stage, drill: Outcome, path: Path, *words: str) -> Outcome:
    """Neither `fit` nor `embed` takes the file."""
    folder, output = stage.base / f"{path.stem}.run", stage.base / f"{path.stem}.z.parquet"
    ended, embedding = stage.play(*stage.embed(output, rows=path))
    code, fitting = stage.play(*stage.fit(folder, rows=path))
    embed = all(refused(ended, embedding, *words).values())
    drill.seen = fitting if embed else f"`embed` ended with {ended}: {embedding}"
    drill.checks = refused(code, fitting, *words) | {"by `embed` too": embed}
    left = [*stage.base.glob(f"{output.name}*"), *folder.glob("*")]
    drill.checks["nothing written"] = not left
    return drill


def damaged_unseen(stage: Stage) -> Outcome:
    """Values that still decode, in a file without checksums: read as they are, and only their rows move."""
    drill = Outcome("damaged-unseen", "eight bytes of values are flipped, in a file without checksums")
    path = damage(stage.write(stage.base / "unseen.parquet"), group=_ROW_GROUP, header=False)
    output = stage.base / "unseen.z.parquet"
    code, _ = stage.play(*stage.embed(output, rows=path))
    drill.seen = "nothing: the file does not say what its bytes were (documented)"
    if code:
        drill.checks = {"embedded": False}
        return drill
    before, after = pq.read_table(stage.embedded).to_pylist(), pq.read_table(output).to_pylist()
    moved = [row for row, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    within = range(_ROW_GROUP * GROUP, (_ROW_GROUP + 1) * GROUP)
    drill.checks = {f"{len(moved)} rows moved, all of that group": 0 < len(moved) <= 8 and set(moved) <= set(within)}
    return drill
