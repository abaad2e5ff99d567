"""What people get wrong in tables: numbers and dates read as categories, ids, columns of no use, or that know too much.

A text such as 9,171 is never taken for a decimal where it can be one of thousands. A column gives the target away if a
decision tree that sees only that column, as the network does, predicts rows that were left out: with a correlation of
0.99 between the ranks of numbers, or 99 % of the rows of each class on average.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natpn.choices import listed
from natpn.tabular import read_table
from natpn.tabular.texts import MOSTLY, ORDERS, PLAIN, Written, is_mark, number_of_text, shown, split_unit

FEW_ROWS = 20  # below which nothing is said of ids and targets
GIVEN_AWAY = 0.99
_FEW_OF_A_CLASS = 5  # of which nothing can be learned
_HOPELESS = 0.8  # in the first part that is left out
_ROWS, _COLUMNS, _FOLDS = 1000, 1000, 5  # rows and columns that are looked at for that, and parts left out in turn
_ID = re.compile(r"(?:^|[\W_])(?:id|key|uuid|guid|idx|index|row)(?:$|[\W_])|[a-z]I[dD]$|^Unnamed: 0$", re.ASCII)
_TEXTS = 500  # that are looked at for dates and numbers
# In this order: what can be thousands is that.
_SEPARATORS = [(".", ","), (".", "'"), (".", " "), (",", ""), (",", "."), (",", " "), (",", "'")]
_FORMATS = ["%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y"]
_DATES = [Written(dates=form) for form in (*ORDERS, *_FORMATS, "%B %d, %Y")]
_NUMBER = re.compile(r"[+-]?\d[\d.,'’\s]*")


def number_form(texts: Sequence[str]) -> Written | None:
    """Return how texts that are all numbers are written, with a decimal comma or separators; None if they are not."""
    return next((form for form in (Written(*signs) for signs in _SEPARATORS) if _are_numbers(texts, form)), None)


def number_options(texts: Sequence[str]) -> str | None:
    """Return the options by which all texts are numbers, None if there are none."""
    found = number_form(texts)
    if found is None:
        return None
    decimal = f"--decimal {found.decimal!r}" if found.decimal != "." else ""
    thousands = f"--thousands {found.thousands!r}" if found.thousands else ""
    return " ".join(filter(None, (decimal, thousands)))


def _are_numbers(texts: Sequence[str], written: Written) -> bool:
    try:
        return all(number_of_text(text, written) is not None for text in texts)
    except ValueError:
        return False


def lookalike(counts: Mapping[str, int], written: Written = PLAIN) -> str | None:
    """Say that texts look like dates or numbers, and what to do to have them read as such; None if they do not.

    `counts` says how often there is each text, and `written` what has been said of how their file writes values.
    """
    texts = sorted((text for text in counts if not is_mark(text)), key=lambda text: -counts[text])[:_TEXTS]
    least = MOSTLY * sum(counts[text] for text in texts)
    forms = [form.dates for form in _DATES if sum(counts[t] for t in texts if form.date(t.strip())) >= least]
    if texts and forms:
        options = " or ".join(f"--dates {form if form in ORDERS else repr(form)}" for form in forms[:2])
        return f"looks like dates, as {shown(texts[0])}; say {options}{', whichever it is' if len(forms) > 1 else ''}"
    amounts = {text: found for text in texts if _NUMBER.fullmatch((found := split_unit(text))[0])}
    if not amounts or sum(counts[text] for text in amounts) < least:
        return None
    numbers = [number for number, _ in amounts.values()]
    needed = "" if _are_numbers(numbers, written) else number_options(numbers)
    if needed is None:
        return None
    units = sorted({unit for _, unit in amounts.values() if unit})
    several = f" in {', '.join(units[:-1])} and {units[-1]}" if len(units) > 1 else ""
    cures = ["convert them to one unit"] * bool(several) + [f"say {needed}"] * bool(needed)
    return f"looks like numbers{several}, as {shown(texts[0])}; {' and '.join(cures)}" if cures else None


def remarks(
    X: Any, y: NDArray[Any], target: str, columns: Sequence[Any], guessed: Sequence[str], written: Written = PLAIN
) -> Iterator[str]:
    """Yield a sentence with the cure for each thing that is probably not meant.

    X is a pyarrow table, `columns` are the same as `natpn.tabular` knows them, and `guessed` are categories by what
    they hold, not by what they were said to be.
    """
    known = set()  # of which something has been said
    for name in guessed:
        counts = {pair["values"]: pair["counts"] for pair in X[name].value_counts().to_pylist() if pair["values"]}
        seen, sign = lookalike(counts, written), _placeholder(counts)
        if seen:
            known.add(name)
            yield f"{name!r} is read as categories, but {seen}"
        elif sign:
            yield (
                f"{name!r} is {sign!r} in {counts[sign]:,} rows, which is taken for a category; if nothing is known "
                f"there, say --na {sign!r}"
            )
    ids = [name for name in _ids(X, columns) if name not in known] if len(y) >= FEW_ROWS else []
    if ids:
        yield f"{_subject(ids, 'differs', 'differ')} in every row, as an id does, and cannot help; {_drop(ids)}"
    known.update(ids)
    constant = [c.name for c in columns if c.name not in known and not c.n_numbers + c.n_flags]
    if constant:
        yield f"{_subject(constant, 'is', 'are')} the same in all rows, and cannot help; {_drop(constant)}"
    given = giving_away(X, y, columns, known) if len(y) >= FEW_ROWS else []
    if given:
        yield (
            f"{_subject(given, 'almost gives', 'almost give')} {target!r} away; if not known before {target!r} is, "
            f"{_drop(given)}"
        )


def giving_away(X: Any, y: NDArray[Any], columns: Sequence[Any], without: set[str]) -> list[str]:
    """Return the columns from each of which alone the target can be predicted almost without error.

    X is a pyarrow table, `columns` are the same as `natpn.tabular` knows them, and those in `without` are passed over.
    """
    from scipy.stats import rankdata
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    rows = np.random.default_rng(0).permutation(len(y))[:_ROWS]
    numbers = y.dtype.kind == "f"
    if not numbers:
        _, code, count = np.unique(y[rows], return_inverse=True, return_counts=True)
        rows = rows[count[code] >= _FEW_OF_A_CLASS]
    truth = rankdata(y[rows]) if numbers else np.unique(y[rows], return_inverse=True)[1]
    if not len(rows) or not np.ptp(truth):
        return []
    part = np.arange(len(rows)) % _FOLDS
    tree: Any = (DecisionTreeRegressor if numbers else DecisionTreeClassifier)(random_state=0)
    quality = _correlation if numbers else _recalled
    found = []
    for column, cells in zip(columns[:_COLUMNS], read_table(X.take(rows)).columns(), strict=False):
        n = column.n_numbers
        block = np.zeros((len(rows), n + column.n_flags), np.float32)
        if column.name in without or not block.shape[1]:
            continue
        column.encode(cells, block[:, :n], block[:, n:])
        guess = np.zeros(len(rows))
        for fold in range(_FOLDS):
            left_out = part == fold
            guess[left_out] = tree.fit(block[~left_out], truth[~left_out]).predict(block[left_out])
            if quality(truth[left_out], guess[left_out]) < _HOPELESS:
                break
        else:
            if quality(truth, guess) >= GIVEN_AWAY:
                found.append(column.name)
    return found


def _placeholder(counts: Mapping[str, int]) -> str | None:
    """Return the most frequent text that is signs alone, as ?, among several that are not; None if there is none."""
    signs = [text for text in counts if not is_mark(text) and not re.search(r"\w", text)]
    words = sum(not is_mark(text) for text in counts) - len(signs)
    return max(signs, key=lambda text: counts[text]) if signs and words > 1 else None


def _correlation(truth: NDArray[Any], guess: NDArray[Any]) -> float:
    """Return the correlation; 0 if either does not vary."""
    return float(np.corrcoef(truth, guess)[0, 1]) if np.ptp(truth) and np.ptp(guess) else 0.0


def _recalled(truth: NDArray[Any], guess: NDArray[Any]) -> float:
    """Return the share of rows that are found again, the mean over classes."""
    return float(np.mean([np.mean(guess[truth == label] == label) for label in np.unique(truth)]))


def _ids(X: Any, columns: Sequence[Any]) -> Iterator[str]:
    """Yield the columns that name rows: texts that all differ, or such whole numbers by their name or order."""
    first = read_table(X.slice(0, _ROWS)).columns()  # which rule out most columns
    for column in [column for column, cells in zip(columns, first, strict=True) if column.all_differ(cells)]:
        (cells,) = read_table(X.select([column.name])).columns()
        counts_up = column.n_numbers and (np.diff(np.asarray(cells.values, np.float64)) == 1).all()
        named = not column.n_numbers or counts_up or _ID.search(column.name)
        if named and column.all_differ(cells):
            yield column.name


def _subject(names: Sequence[str], one: str, several: str) -> str:
    return f"{listed(names)} {one if len(names) == 1 else several}"


def _drop(names: Sequence[str]) -> str:
    return f"say --drop {shlex.quote(names[0])}" if len(names) == 1 else "leave them out with --drop"
