"""What commands say and write: results, notes, problems that end them, and files by the rule of `natpn.outputs`."""

import contextlib
import csv
import errno
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

import click

from natpn import outputs
from natpn.outputs import Kind

LISTED = 30  # columns
_LONGEST = 40  # characters of a name
_CURES = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "your quota on the disk is used up; free some space or write elsewhere",
    errno.EACCES: "permission denied; change its permissions or choose another place",
    errno.EPERM: "not permitted; change its permissions or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.ENOENT: "there is no such file or directory; check the path",
    errno.EISDIR: "it is a directory; name a file",
    errno.ENOTDIR: "a part of the path is a file, not a directory; check the path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}
GROUP = 1 << 16  # rows that Parquet keeps together
# A spreadsheet runs a cell that begins so as a formula, unless it is a number; after an apostrophe it is a text.
FORMULA, NUMBER = r"^[=+\-@\t\r\n]", r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"
_LAST = ["aleatoric", "epistemic", "familiarity", "novelty_p", "novel"]  # columns of all predictions
_REASON = "reason"  # comes after them, but not in files of earlier versions
_PREDICTED = re.compile(rf"prediction(_\d+)?|lower|upper|p_.*|{'|'.join(_LAST)}|{_REASON}", re.DOTALL)
_EXPLAINED = ["surprise", "column", "value", "familiar", _REASON]
_MARK = b"natpn.predictions"  # in the metadata of Parquet


class Problem(click.ClickException):
    """Bad input: the command ends with this sentence and exit code 2."""

    exit_code = 2


def of_system(error: OSError, path: str | None = None) -> Problem:
    """Return an error of the operating system as a sentence with the cure."""
    where = path or error.filename
    cure = _CURES.get(error.errno or 0, error.strerror or str(error))
    return Problem(f"{where}: {cure}." if where else f"{cure}.")


@contextlib.contextmanager
def system_errors(path: str) -> Iterator[None]:
    """Word errors of the operating system about a path; a reader that went away is not one of them."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise of_system(error, path) from None


def part(module: str, name: str, extra: str) -> Any:
    """Return a function of a part of natpn that may not be installed."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        missing = error.name if isinstance(error, ImportError) else None
        what = f"{missing} is not installed" if missing else f"this natpn has no {module}.{name}"
        raise Problem(f"{what}; in a clone of natpn, run: pip install '.[{extra}]'") from None


# Lines.


def is_first_process() -> bool:
    """Say whether this process prints and writes: the only one, or the first of those that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"


def on_terminal() -> bool:
    """Say whether a person watches, so that a progress bar makes sense."""
    return is_first_process() and sys.stderr.isatty()


def say(line: str = "") -> None:
    """Print a line, in the first process only."""
    if is_first_process():
        click.echo(line)


def note(line: str) -> None:
    """Print a remark to standard error, in the first process only."""
    if is_first_process():
        click.echo(f"note: {line}", err=True)


def score_lines(scores: dict[str, float], same: dict[str, float], model: Any) -> Iterator[str]:
    """Yield a line for each score: its name, its value, that of the same answer for every row, and what it means."""
    from natpn.report.scores import METRICS, baseline_words

    width = max(map(len, scores))
    yield f"  {'':<{width}}  {'model':>10}  {'baseline':>10}"
    for name, value in scores.items():
        other = f"{same[name]:.4g}" if name in same else ""
        yield f"  {name:<{width}}  {value:>10.4g}  {other:>10}  {METRICS[name].meaning}"
    yield f"  The baseline is the same answer for every row: {baseline_words(model)}."
    if "precision" in scores:
        yield f"  Of the two classes, {str(model.classes_[1])!r} is the second."


def column_lines(columns: Sequence[Any], units: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each of the first columns: its name, its kind, what it holds and the share missing; then a sum.

    `units` are those of the columns that have one, by name.
    """
    cells = []
    for column in columns[:LISTED]:
        name = _printable(column.name)
        short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        kind = column.words[0] + (f", in {units[column.name]}" if column.name in units else "")
        missing = f"{100 * column.missing:.2g} % missing" if 0 < column.missing < 1 else ""
        cells.append((short, kind, _printable(column.facts), missing))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    rest = Counter(column.words for column in columns[LISTED:])
    if rest:
        counts = ", ".join(f"{number:,} {words[number > 1]}" for words, number in rest.items())
        yield f"  and {rest.total():,} more: {counts}"


def _printable(text: str) -> str:
    """Return a text of a file so that it stays in its line and does nothing to a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


# Files.


def _are_predictions(file: IO[bytes]) -> bool:
    """Say whether the columns are those of predictions: at most one that names the rows, then what natpn predicts.

    Of a file with some of these columns, Parquet says itself that natpn wrote it; in CSV there must be one that only
    natpn has.
    """
    names, mark = columns_and_mark(file)
    without = names[:-1] if names[-1:] == [_REASON] else names
    if mark is not None or ("prediction" in names[:2] and without[-len(_LAST) :] == _LAST):
        return True
    own = names if names and _PREDICTED.fullmatch(names[0]) else names[1:]
    return all(map(_PREDICTED.fullmatch, own)) and not set(own).isdisjoint(_LAST)


def _are_explanations(file: IO[bytes]) -> bool:
    """Say whether the columns are those of explanations: at most one that names the rows, then what natpn explains."""
    names, mark = columns_and_mark(file)
    own = [name for name in names if name in _EXPLAINED or name.startswith("adds_")]
    return names[-len(own) :] == own and len(names) <= len(own) + 1 and (mark is not None or "surprise" in own)


EXPLANATIONS = Kind("a file of explanations that natpn wrote", _are_explanations)
PREDICTIONS = Kind("a file of predictions that natpn wrote", _are_predictions)
PAGE = Kind("a page that natpn wrote", lambda file: b'<meta name="generator" content="natpn ' in file.read(1 << 10))


def as_input(path: str) -> str:
    """Return a name for the operating system, whose standard input may be a file too."""
    return "/dev/stdin" if path == "-" else path


def check_output(out: str, kind: Kind, *inputs: str | None) -> None:
    """Raise if a file cannot be written there, before time is spent on it; "-" is standard output, and input."""
    if out == "-" or outputs.is_special(out):
        return
    with system_errors(out):
        outputs.check_apart(out, *(as_input(path) for path in inputs if path is not None))
        outputs.check_file(out, kind)
        outputs.check_writable(Path(os.path.realpath(out)).parent)


@contextlib.contextmanager
def open_output(path: str, kind: Kind) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name when the block ends well, and not at all otherwise.

    Only a file of the same kind is replaced; "-" is standard output.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with system_errors(path), outputs.replacing(path, kind) as file:
        yield file


def write_text(path: str, text: str, kind: Kind) -> None:
    """Write a text file, whole or not at all."""
    with open_output(path, kind) as file:
        file.write(text.encode())


def columns_and_mark(file: IO[bytes]) -> tuple[list[str], str | None]:
    """Return the columns of a CSV or Parquet file, none if it is neither, and the mark that `TableWriter` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    is_parquet = file.read(4) == b"PAR1"
    file.seek(0)
    try:
        if not is_parquet:
            head = file.read(1 << 20).decode(errors="replace")
            return next(csv.reader(io.StringIO(head, newline="")), []), None
        schema = pq.ParquetFile(file).schema_arrow
        mark = (schema.metadata or {}).get(_MARK)
        return schema.names, None if mark is None else mark.decode(errors="replace")
    except (pa.ArrowException, OSError, ValueError, csv.Error):
        return [], None


class TableWriter:
    """Write tables one after the other, all with the same columns; as a context, whose end writes what is left.

    Args:
        file: Where to.
        parquet: Whether to write Parquet instead of CSV.
        mark: What Parquet says of itself, so that `columns_and_mark` finds it.
    """

    def __init__(self, file: IO[bytes], parquet: bool, mark: str | None = None) -> None:
        self._file, self._parquet, self._mark = file, parquet, mark
        self._started = False
        self._writer: Any = None  # of Parquet
        self._held: list[Any] = []  # the rows of its next group

    def write(self, table: Any) -> None:
        """Write a table."""
        if self._parquet:
            import pyarrow as pa
            import pyarrow.parquet as pq

            if self._mark is not None:
                table = table.replace_schema_metadata({_MARK: self._mark})
            if self._writer is None:  # a dictionary of numbers that hardly repeat takes time, and makes files larger
                repeated = [f.name for f in table.schema if not pa.types.is_floating(f.type)]
                self._writer = pq.ParquetWriter(self._file, table.schema, use_dictionary=repeated)
            self._held.append(table)
            if sum(part.num_rows for part in self._held) >= GROUP:
                self._write_group()
            return
        import pyarrow.csv as pc

        if not self._started:
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(map(_harmless, table.column_names))
            self._file.write(header.getvalue().encode())
            self._started = True
        table, style = _harmless_table(table)
        pc.write_csv(table, self._file, pc.WriteOptions(include_header=False, quoting_style=style))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        if kind is None:
            self._write_group()
            self._writer.close()
            return
        with contextlib.suppress(Exception):  # the file is lost; pyarrow would complain if it went before its writer
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held = []


def _harmless(text: str) -> str:
    """Return a cell that a spreadsheet does not run."""
    return f"'{text}" if re.match(FORMULA, text) and not re.match(NUMBER, text) else text


def _harmless_table(table: Any) -> tuple[Any, str]:
    """Return a table whose texts a spreadsheet does not run, and the style of quotes that it needs."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    style = "none"  # pyarrow puts quotes around every text or none
    for place, field in enumerate(table.schema):
        if any(fits(field.type) for fits in (types.is_string, types.is_large_string, types.is_dictionary)):
            texts = table.column(place).cast(pa.string())
            runs = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
            if pc.any(runs).as_py():
                texts = pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)
                table = table.set_column(place, field.name, texts)
            if pc.any(pc.match_substring_regex(texts, r'[",\r\n]')).as_py():
                style = "needed"
    return table, style
