"""Lines of two node ids, with any separator.

Tables of facts (head, relation, tail) are refused: their first two columns are no edges.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from horoball.tables.schema import some_names

_RELATIONS = {"relation", "relationship", "predicate", "rel", "type", "edge_type", "property", "interaction", "verb"}
_LOOKED_AT = 1000  # rows
_VALUE = re.compile(r"\s*[-+.]?[\d{]")  # a weight, a date, or the attributes that networkx writes


def refuse_relations(names: Sequence[str], where: str) -> None:
    """Refuse a table whose second column is called a relation, for want of names of its ends."""
    if len(names) > 2 and names[1].strip().lower() in _RELATIONS:
        raise ValueError(
            f"{where} has a column {names[1][:40]!r} between its ends, as a table of (head, relation, tail) has. Call "
            "the columns with the ends of edges source and target, or head and tail; relations are not used."
        )


def refuse_triples(rows: Iterable[Sequence[Any]], where: str) -> None:
    """Refuse rows of three if the second is text wherever it stands, and the third no weight."""
    seen = [tuple(map(str, row)) for row in islice(rows, _LOOKED_AT)]
    if not seen or not all(map(_is_fact, seen)):
        return
    shown = ", ".join(repr(cell[:40]) for cell in seen[0])
    raise ValueError(
        f"{where} has three columns of text: {shown}. If they are (head, relation, tail), keep the first and the last; "
        "if the third is a note, drop it. Or use a .csv, .tsv or .parquet file with columns called source and target."
    )


def _is_fact(row: Sequence[str]) -> bool:
    """Whether the middle is a word, and the last another, or a number as the first is."""
    if len(row) != 3 or _is_number(row[1]):
        return False
    return (_is_number(row[0]) and _is_number(row[2])) or not _VALUE.match(row[2])


_LOG = logging.getLogger("horoball")
_NAMES = (  # of columns that hold ends
    ("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("head", "tail"), ("subject", "object"),
    ("child", "parent"), ("descendant", "ancestor"), ("hyponym", "hypernym"),
)  # fmt: skip
_BEFORE = re.compile(rb"(?:[ \t]*(?:[#%].*)?\n)*(?:[ \t]*[#%].*\Z)?")  # lines before the edges: comments, empty lines
_MARKED = re.compile(rb"^[ \t]*[#%].*", re.MULTILINE)
_ZERO = re.compile(rb"(?<![\w.])0[0-9xX]")
_QUOTED_FIRST = re.compile(rb'\s*"(?:[^"]|"")*"\s*,')
_ZERO_FIRST = "^[+-]?0[0-9xX]"
_AFTER_TWO = re.compile(rb"^(\S+ \S+) .*$", re.MULTILINE)


class Ends(NamedTuple):
    """The two ends of every edge, as a file or a table has them: pyarrow arrays of ids."""

    first: Any
    second: Any


def named_ends(names: list[str]) -> tuple[int, int] | None:
    """The columns with the ends of edges by their names: source and target, from and to, head and tail, and others."""
    low = [name.strip().lower() for name in names]
    return next(((low.index(a), low.index(b)) for a, b in _NAMES if a in low and b in low), None)


def ends_of(names: list[str], where: str) -> tuple[int, int]:
    """Which columns hold the ends of edges: those that are called so, or the first two."""
    if len(names) < 2:
        raise ValueError(f"{where} has {len(names)} column, expected two: the ends of each edge.")
    found = named_ends(names)
    if found is None:
        refuse_relations(names, where)
        found = (0, 1)
    if len(names) > 2:
        _LOG.info("Took columns %d and %d of %s; the others, such as weights, are ignored.", *np.add(found, 1), where)
    return found


class EdgeLines:
    r"""Lines of text with the two ends of an edge each.

    pyarrow reads millions of lines a second, but knows neither comments nor runs of blanks, so that both are taken
    out of the bytes first. Lines are looked at one by one only to say which is wrong.

    Comments are lines before the first edge, or before the header, that begin with # or %. Further down #cat is a node;
    what may be a comment there is refused until `comment` says what it is.

    Args:
        path: The file's name, for messages.
        data: What it holds.
        delimiter: What stands between columns; told by the lines if None.
        comment: What comments begin with, wherever they stand, such as "#"; "none" if no line is one.
    """

    def __init__(self, path: str, data: bytes, delimiter: str | None, comment: str | None = None) -> None:
        self.path, self.table, self.problem = path, delimiter is not None, ""
        self.original = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        comments = self._comments(comment)
        data = self.original
        data = data.strip(b" \n") if delimiter != "\t" else data.strip(b"\n")
        if not data:
            more = ' If lines that begin with # or % are edges, say so: --comment none (comment="none").' * bool(
                comments
            )
            raise ValueError(
                f"{path} is empty: it has no edges. Expected a line with two node ids for each edge.{more}"
            )
        self.delimiter = delimiter or self._delimiter(data)
        # pyarrow takes a single line without an end for none.
        self.data = (_single_blanks(data) if self.delimiter == " " else data) + b"\n"
        self.first = self._fields(self.data.split(b"\n", 1)[0])
        if comment is None:
            self._tell_comments(comments)
            self._refuse_marked()

    def _comments(self, comment: str | None) -> bytes:
        """The lines before the first edge; they, or all that are said to be comments, are emptied in the original."""
        if comment is None:
            found = _BEFORE.match(self.original)
            before = found[0] if found else b""
            self.original = b"\n" * before.count(b"\n") + self.original[len(before) :]
            return before if b"#" in before or b"%" in before else b""
        if not comment.strip():
            raise ValueError('Comments begin with a text such as "#" (--comment), or are "none"; got an empty text.')
        if comment != "none":
            marked = rb"^[ \t]*" + re.escape(comment.strip().encode()) + rb".*"
            self.original = re.sub(marked, b"", self.original, flags=re.MULTILINE)
        return b""

    def _tell_comments(self, comments: bytes) -> None:
        """Say which lines were taken for comments, if they might be edges: they have as many columns."""
        lines = [line for line in comments.split(b"\n") if line.strip()]
        like = [line for line in lines if len(self._fields(line)) == len(self.first) and not _IS_PROSE.match(line)]
        if len(like) > 1:
            _LOG.warning(
                "Comments: %d lines before the edges of %s, such as %r. If they are edges, say so: --comment none "
                '(comment="none").',
                len(lines),
                self.path,
                like[0].decode(errors="replace")[:40],
            )

    def _refuse_marked(self) -> None:
        """Refuse a line among the edges that may be a comment: its mark stands alone, or all other ids are numbers."""
        marked = _MARKED.search(self.data)
        if marked is None:
            return
        alone = next((each for each in _MARKED.finditer(self.data) if _IS_PROSE.match(each[0])), None)
        rest = [line for line in _MARKED.sub(b"", self.data).split(b"\n") if line.strip()][1:]
        if alone is None and not (rest and all(_is_number(self._fields(line)[0]) for line in rest)):
            return
        shown = (alone or marked)[0].decode(errors="replace").strip()
        number = next(n for n, line in enumerate(self.original.split(b"\n"), 1) if _same(line, shown))
        raise ValueError(
            f"{self.path}, line {number}: {shown[:40]!r} may be an edge or a comment. Comments stand before the edges; "
            f"if it is one, say so: --comment {shown[:1]!r} (comment={shown[:1]!r}), and if it is an edge, --comment "
            'none (comment="none").'
        )

    def _delimiter(self, data: bytes) -> str:
        """A tab if it is in every line, since names may hold blanks then; a comma if the first name has no blank.

        What may be names with blanks between commas or quotes is refused: blanks would cut them up.
        """
        first = data.split(b"\n", 1)[0]
        tabs = first.count(b"\t")
        if tabs and data.count(b"\t") == tabs * (data.count(b"\n") + 1):
            return "\t"
        if _QUOTED_FIRST.match(first) or (b"," in first and not first.split(b",")[0].strip().count(b" ")):
            return ","
        quoted, last = first.lstrip().startswith(b'"'), first.rpartition(b",")[2]
        if quoted or (b"," in first and b"{" not in first and not _is_number(last.decode(errors="replace"))):
            raise ValueError(
                f"{self.path}: {first[:40].decode(errors='replace')!r} may have blanks between its ids or in them. "
                "Name the file .csv if commas are between them, .tsv if tabs are; ids in lines with blanks have none."
            )
        return " "

    def _fields(self, line: bytes) -> list[str]:
        text = line.decode(errors="replace")
        if self.delimiter == " ":
            return text.split()
        try:
            return [field.strip() for field in next(csv.reader([text], delimiter=self.delimiter), [])]
        except csv.Error:  # a field longer than any id
            return [text]

    def ends(self) -> Ends:
        """The two columns: of whole numbers if all are, else of text."""
        import pyarrow.compute as pc

        if len(self.first) < 2:
            self._refuse_lines((0, 1))
        if self.table and named_ends(self.first) is None and len(self.first) > 3:
            self._refuse_matrix()
        columns = ends_of(self.first, self.path)
        if len(self.first) == 3 and named_ends(self.first) is None:
            refuse_triples(self._rows(), self.path)
        found = self._found(columns)
        if found is None:
            self._refuse_lines(columns)
            self.data = _AFTER_TWO.sub(rb"\1", self.data)  # lines of different lengths, such as networkx writes
            found = self._found(columns)
        if found is None:
            raise ValueError(f"{self.path} is not a list of edges: {self.problem}")
        if not len(found.first):
            raise ValueError(f"{self.path} has no edges below its header line: {some_names(self.first)}.")
        if found.first.null_count or found.second.null_count:
            self._refuse_lines(columns, _MISSING)
        if str(found.first.type) == "string" and any(pc.any(pc.equal(end, "")).as_py() for end in found):
            self._refuse_lines(columns, ("",))
        return found

    def _rows(self) -> Iterator[list[str]]:
        """Lines as fields, without the first if there are others: it may be a header."""
        start = self.data.index(b"\n") + 1
        while (end := self.data.find(b"\n", start)) >= 0:
            yield self._fields(self.data[start:end])
            start = end + 1
        if self.data.count(b"\n") == 1:
            yield self.first

    def _found(self, columns: tuple[int, int]) -> Ends | None:
        """Numbers, below a header if the first line holds none; else text, below the header of a table.

        A line whose words are ids further down is an edge, and no header.
        """
        import pyarrow.compute as pc

        text = not any(_is_number(self.first[column]) for column in columns)
        numbers = self._read(columns, header=text, whole=True)
        if numbers is not None and not self._are_words(columns, header=text):
            return numbers
        named = named_ends(self.first) is not None
        header = named or (text and self.table)
        words = self._read(columns, header=header, whole=False)
        if words is not None and header and not named:
            if any(pc.any(pc.equal(end, self.first[column])).as_py() for end in words for column in columns):
                return self._read(columns, header=False, whole=False)
            _LOG.warning("Took the first line of %s as its header: %s.", self.path, some_names(self.first))
        return words

    def _are_words(self, columns: tuple[int, int], header: bool) -> bool:
        """Whether ids are written as no number is: 007 and 7 are two nodes, and 0x10 is not 16."""
        import pyarrow.compute as pc

        if not _ZERO.search(self.data):
            return False
        words = self._read(columns, header=header, whole=False)
        return words is not None and any(pc.any(pc.match_substring_regex(end, _ZERO_FIRST)).as_py() for end in words)

    def _read(self, columns: tuple[int, int], header: bool, whole: bool) -> Ends | None:
        """Two columns, or None if they do not hold what is asked for."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv

        names = [f"f{column}" for column in columns]
        kind = pa.int64() if whole else pa.string()
        lines = self.data.partition(b"\n")[2] if header else self.data
        if not lines:
            return None if whole else Ends(pa.array([], kind), pa.array([], kind))
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(lines),
                read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 24),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, quote_char=False if self.delimiter == " " else '"'
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=names, column_types=dict.fromkeys(names, kind), strings_can_be_null=False
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            self.problem = str(error).splitlines()[0]
            return None
        if whole:
            return Ends(table.column(0), table.column(1))
        return Ends(*(pc.utf8_trim_whitespace(table.column(position)) for position in (0, 1)))

    def _refuse_matrix(self) -> None:
        """As many lines as columns, maybe below a header, are an adjacency matrix rather than edges."""
        if self.data.count(b"\n") - len(self.first) in (0, 1):
            raise ValueError(
                f"{self.path} has {len(self.first)} columns and as many lines, as an adjacency matrix has. Save it as "
                "a scipy sparse matrix (.npz), or call the columns with the ends of edges source and target."
            )

    def _refuse_lines(self, columns: tuple[int, int], missing: tuple[str, ...] = ()) -> None:
        """Name the first line that lacks an end, if there is one."""
        for number, line in enumerate(self.original.split(b"\n"), 1):
            if not line.strip():
                continue
            fields = self._fields(line)
            shown = repr(line.decode(errors="replace").strip()[:40])
            if len(fields) <= max(columns):
                raise ValueError(
                    f"{self.path}, line {number}: expected two node ids, got {len(fields)} column"
                    f"{'' if len(fields) == 1 else 's'}: {shown}."
                )
            if any(fields[column].lower() in missing for column in columns):
                raise ValueError(
                    f"{self.path}, line {number}: a node id is missing: {shown}. Fill or drop such lines first."
                )


_IS_PROSE = re.compile(rb"^[ \t]*[#%][#% \t]*([ \t]|$)")  # a mark by itself, as before the words of a comment


def _same(line: bytes, shown: str) -> bool:
    """Whether a line is the one that is shown, which may have other blanks."""
    return line.decode(errors="replace").split() == shown.split()


_MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "<na>", "none")  # what pyarrow takes for no number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _single_blanks(data: bytes) -> bytes:
    """One blank between words, none around lines."""
    data = data.replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b"\n ", b"\n").replace(b" \n", b"\n")
