"""Remarks on tables and figures, kept in a file of their own so that measuring again does not lose them.

Markdown: what stands before the first heading is about all results; below a heading such as `## uci-kin8nm` stands what
is about the table or figure of that name.
"""

from collections.abc import Iterable

ALL = ""  # the name of what is about all results
_HEADING = "## "


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
    """Return the names of remarks for which there is neither table nor figure."""
    known = {ALL, *names}
    return [name for name in notes if name not in known]
