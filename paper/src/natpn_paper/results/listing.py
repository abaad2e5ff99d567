"""Tables of results as plain text for a terminal, and as Markdown with remarks.

Remarks are kept in a Markdown file of their own, so that measuring again does not lose them. What stands before its
first heading is about all results; what stands below a heading such as `## uci-kin8nm` is about the table or figure of
that name.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from natpn_paper.results.svg_figures import Drawing
from natpn_paper.results.tables import Cell, Table
from natpn_paper.results.tally import Agreement, counts
from natpn_paper.results.words import LEGEND, QUICK, about, heading, ours, paper, spread

BEST, BEST_SINGLE = "*", "°"
SUMMARY = (
    "table",
    "`NatPN (paper)` within two of the paper’s standard errors",
    "`NatPN` against the paper’s best single pass",
)
TITLE = "# The paper’s results, measured again"
ALL = ""  # the name of the remark on all results
_GAP = "  "
_HEADING = "## "


def text(table: Table, width: int = 120) -> str:
    """Return a table for a terminal.

    Args:
        table: The table.
        width: The characters in a line; columns that do not fit go below.
    """
    names = ["", *(row.model for row in table.rows)]
    first = max(map(len, names))
    columns = [_column(name, [row.cells[j] for row in table.rows]) for j, name in enumerate(table.view.columns)]
    blocks: list[list[list[str]]] = [[]]
    used = first
    for column in columns:
        if blocks[-1] and used + len(_GAP) + len(column[0]) > width:
            blocks.append([])
            used = first
        blocks[-1].append(column)
        used += len(_GAP) + len(column[0])
    lines = [f"{heading(table.name, table.lines)}: {table.title}", *about(table.lines)]
    for block in blocks:
        lines.append("")
        lines += [
            _GAP.join([f"{name:<{first}}", *(column[i] for column in block)]).rstrip() for i, name in enumerate(names)
        ]
    return "\n".join(lines)


def legend() -> str:
    """Explain the signs in a plain-text table."""
    return f"{LEGEND} {BEST} best of all, {BEST_SINGLE} best with a single pass."


def summary(agreements: Sequence[Agreement]) -> str:
    """Return how well our scores agree with the paper's, for a terminal."""
    heads = tuple(head.replace("`", "") for head in SUMMARY)
    rows = counts(agreements)
    first = max(len(row[0]) for row in [heads, *rows])
    second = max(len(row[1]) for row in rows)
    lines = [f"{heads[1]} (a),", f"{heads[2]} (b):", f"{'':<{first}}  {'a':<{second}}  b"]
    return "\n".join([*lines, *(f"{name:<{first}}  {near:<{second}}  {rank}".rstrip() for name, near, rank in rows)])


def markdown(
    tables: Sequence[Table],
    agreements: Sequence[Agreement],
    drawings: Sequence[Drawing] = (),
    quick: bool = False,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return all results as one Markdown text.

    Args:
        tables: The tables.
        agreements: How well they agree with the paper's.
        drawings: The figures.
        quick: Whether they are of quick runs.
        notes: Remarks, by the name of a table or figure; `read_notes` reads them.
    """
    parts = [TITLE, *([f"**{QUICK}**"] if quick else [])]
    parts += [notes[ALL]] if ALL in notes else []
    if agreements:
        parts += ["## Agreement with the paper", _grid(SUMMARY, counts(agreements))]
    if tables:
        parts += ["## Tables", f"{LEGEND} Bold: best with a single pass; \\*: best of all; as in the paper."]
    for table in tables:
        filled = [(row.model, *map(_markdown_cell, row.cells)) for row in table.rows]
        parts += [f"### {heading(table.name, table.lines)}", f"{table.title}. {' '.join(about(table.lines))}"]
        parts.append(_grid(("", *table.view.columns), filled))
        parts += [notes[table.name]] if table.name in notes else []
    if drawings:
        parts.append("## Figures")
    for drawing in drawings:
        parts += [f"### {heading(drawing.name, drawing.lines)}", f"{drawing.title}. {' '.join(about(drawing.lines))}"]
        parts.append(f"![{drawing.title}](figures/{drawing.name}.svg)")
        parts += [notes[drawing.name]] if drawing.name in notes else []
    return "\n\n".join(parts) + "\n"


def read_notes(text: str) -> dict[str, str]:
    r"""Return remarks by the name of their table or figure.

    Raises:
        ValueError: If a name has two headings.

    Examples:
        >>> read_notes("One machine.\n\n## mnist\n\nAs in the paper.\n")
        {'': 'One machine.', 'mnist': 'As in the paper.'}
    """
    found: dict[str, list[str]] = {ALL: []}
    name = ALL
    for line in text.splitlines():
        if line.startswith(_HEADING):
            name = line.removeprefix(_HEADING).strip()
            if name in found:
                raise ValueError(f"{name!r} has two headings.")
            found[name] = []
        else:
            found[name].append(line)
    return {name: remark for name, lines in found.items() if (remark := "\n".join(lines).strip())}


def without_table(notes: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names of remarks for which there is neither a table nor a figure."""
    known = {ALL, *names}
    return [name for name in notes if name not in known]


def _column(name: str, cells: Sequence[Cell]) -> list[str]:
    """Return a column as texts of one width, its name first, with the numbers aligned."""
    parts = [(_mark(cell) + ours(cell), spread(cell.error), paper(cell.paper, with_error=False)) for cell in cells]
    widths = [max(map(len, part)) for part in zip(*parts, strict=True)]
    texts = [" ".join(f"{p:>{w}}" for p, w in zip(part, widths, strict=True) if w) for part in parts]
    width = max(map(len, [name, *texts]))
    return [f"{one:>{width}}" for one in [name, *texts]]


def _mark(cell: Cell) -> str:
    return BEST * cell.best + BEST_SINGLE * cell.best_single


def _markdown_cell(cell: Cell) -> str:
    mean = f"**{ours(cell)}**" if cell.best_single else ours(cell)
    return " ".join(filter(None, [mean + "\\*" * cell.best, spread(cell.error), paper(cell.paper)]))


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
