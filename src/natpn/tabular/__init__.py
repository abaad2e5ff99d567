"""Turn data frames into float32 matrices: numbers, categories, dates, missing values, and what was never seen."""

from natpn.tabular.base import Column
from natpn.tabular.category import CategoryColumn
from natpn.tabular.cells import CellError, CellTypeError
from natpn.tabular.column_kinds import KINDS, BooleanColumn, EmptyColumn
from natpn.tabular.date import DateColumn
from natpn.tabular.input_tables import ColumnsError, Table, read_table
from natpn.tabular.number import NumberColumn
from natpn.tabular.transform import TableParts, TableTransform

__all__ = [
    "KINDS",
    "BooleanColumn",
    "CategoryColumn",
    "CellError",
    "CellTypeError",
    "Column",
    "ColumnsError",
    "DateColumn",
    "EmptyColumn",
    "NumberColumn",
    "Table",
    "TableParts",
    "TableTransform",
    "read_table",
]
