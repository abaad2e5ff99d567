"""Parquet files as tables, by pyarrow."""

from collections.abc import Iterator
from typing import IO, Any

from natpn.cli.problems import Problem
from natpn.cli.source import ROWS, Source
from natpn.tabular.written import Written


class ParquetFile(Source):
    """A Parquet file, whose columns have types."""

    file: Any

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of at most `ROWS` rows with some of the columns."""
        import pyarrow as pa

        try:
            for batch in self.file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False):
                self.position += batch.num_rows
                if batch.num_rows:
                    yield _without_views(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise Problem(f"{self.name} is damaged ({error}); write or copy it again.") from None


def open_parquet(name: str, file: IO[bytes], written: Written) -> Source:
    """Return the table in a Parquet file, which must be seekable.

    Raises:
        Problem: If it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        names = list(parquet.schema_arrow.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise Problem(f"{name} is a Parquet file that was cut short or damaged; write or copy it again.") from None
    source = ParquetFile(name, names, False, parquet.metadata.num_rows, "rows", written)
    source.file = parquet
    return source


def _without_views(table: Any) -> Any:
    """Return a table whose texts are of the usual type, which every function of pyarrow takes."""
    import pyarrow as pa

    for place, kind in enumerate(table.schema.types):
        if kind == pa.string_view():
            table = table.set_column(place, table.column_names[place], table[place].cast(pa.string()))
    return table
