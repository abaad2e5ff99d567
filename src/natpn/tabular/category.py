"""Categories: a 0/1 column for each frequent level, one for the rare ones together, and one for missing values.

A level is kept if training had it in at least 2 rows and in at least 0.1 % of them, and at most 64 are. Rare and unseen
levels share the column "other" if training had rare ones. Of two columns that would always be opposites, one is left. A
value that no column stands for, unseen or missing for the first time, is encoded as the most frequent one: the row then
looks like one that training had, and only the surprise says that it is not.

The surprise of an unseen level is log((s + 1) / (N + 2)), where s of the training levels were seen once (Good-Turing):
new levels are ordinary in a column of identifiers, and surprising in a closed set.
"""

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, Self

import numpy as np

from natpn.tabular.base import Arithmetic, Codes, Column, oddness_of, standardised_flags
from natpn.tabular.cells import Cells, Encoded, Floats, Places, to_levels
from natpn.tabular.texts import MARKS, PLAIN, Fields, Written, find_number, is_mark

MAX_LEVELS = 64
MIN_COUNT = 2
MIN_SHARE = 0.001
# If there are more rare levels than these, only their hashes are kept.
MAX_NAMED = 1_000
MAX_COUNTED = 400_000  # levels of a table that is read in parts
# With at least so many levels for each known row, they name the rows.
OWN = 0.95
_TRIED = 24  # levels that are tried in place of a strange one
SHOWN = 20  # characters of a level in `facts`


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A column of categories.

    Attributes:
        levels: The levels that are kept, the most frequent first.
        shares: The share of each in the training rows.
        rare: The levels that are not kept; empty if there are more than 1,000.
        rare_hashes: Then the base64 form of their sorted 8-byte hashes; otherwise empty.
        rare_share: The share of all rare levels together.
        n_levels: How many levels there were; a missing value is none.
        n_singletons: How many of them were in one row only.
    """

    levels: list[str]
    shares: list[float]
    rare: list[str]
    rare_hashes: str
    rare_share: float
    n_levels: int
    n_singletons: int

    kind = "category"
    words = ("category", "categories")
    keeps_texts = True

    @classmethod
    def parse(cls, text: str, written: Written = PLAIN, unit: str = "") -> str | None:
        """Return the text without spaces around it, None if nothing is left."""
        return text.strip() or None

    @classmethod
    def fit(cls, name: str, cells: Cells) -> Self:
        """Learn the levels."""
        return cls._of_counts(name, cls.summarise(name, cells))

    @classmethod
    def summarise(cls, name: str, cells: Cells) -> Counter[str | None]:
        """Return how often there is each level."""
        texts, codes = to_levels(cells, name)
        counts = zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True)
        return Counter({text: count for text, count in counts if count})

    @classmethod
    def combine(cls, summaries: list[Counter[str | None]]) -> list[Counter[str | None]]:
        """Return the sum of counts; of very many levels the rarest are forgotten, as if they were never seen."""
        total = _sum(summaries)
        return [total if len(total) <= MAX_COUNTED else Counter(dict(total.most_common(MAX_COUNTED // 2)))]

    @classmethod
    def widened(cls, shown: Column, summaries: Sequence[Counter[str | None]], n_empty: int) -> Self:
        """Return the column with the levels of all rows."""
        return cls._of_counts(shown.name, _sum([*summaries, Counter({None: n_empty} if n_empty else {})]))

    @classmethod
    def _of_counts(cls, name: str, counts: Counter[str | None]) -> Self:
        rows = counts.total()
        shares = {text: count / rows for text, count in counts.items()}
        seen = [(-count, text) for text, count in counts.items() if text is not None]
        seen.sort()  # by count, then by name, whatever the order of the rows
        least = max(MIN_COUNT, MIN_SHARE * rows)
        kept = [text for count, text in seen[:MAX_LEVELS] if -count >= least]
        rare = sorted(text for _, text in seen[len(kept) :])
        rare_share = float(sum(shares[text] for text in rare))
        named = len(rare) <= MAX_NAMED
        return cls(
            name,
            rows,
            shares.get(None, 0.0),
            kept,
            [shares[text] for text in kept],
            rare if named else [],
            "" if named else _packed(map(_hash, rare)),
            rare_share if kept or shares.get(None) else 1.0,  # exactly, if there is nothing else
            len(seen),
            sum(count == -1 for count, _ in seen),
        )

    @property
    def n_flags(self) -> int:
        """One for each level that is kept, and for rare and missing ones, as this module describes."""
        return int(self._table.shape[1])

    def as_rare_as(self, other: Column) -> Self:
        """Return this column, with levels that it never had as rare as in another column of that name."""
        singletons = other.n_singletons if isinstance(other, CategoryColumn) else self.n_singletons
        return replace(self, n_rows=other.n_rows, n_singletons=singletons)

    def meeting(self, cells: Cells) -> Self:
        """Return the column with levels of these cells that it never had among the rare ones."""
        texts, codes = to_levels(cells, self.name)
        there = np.unique(codes)
        read = [None if texts[code] is None else self.read_text(texts[code]) for code in there]
        met = {text for text in read if text is not None and not self._knows(text)}
        known = self.meeting_missing(np.array([text is None for text in read]))
        if not met:
            return known
        hashes = {*self._rare} if self.rare_hashes else {*map(_hash, self.rare)}
        named = not self.rare_hashes and len(self.rare) + len(met) <= MAX_NAMED
        rare = sorted({*self.rare, *met}) if named else []
        kept = "" if named else _packed({*hashes, *map(_hash, met)})
        return replace(known, rare=rare, rare_hashes=kept, n_levels=self.n_levels + len(met))

    @property
    def log_unseen(self) -> float:
        """The log-probability of a level that training never had."""
        if self.n_levels == 1 and not self.missing:
            return self.log_never
        return log((self.n_singletons + 1) / (self.n_rows + 2))

    @cached_property
    def _table(self) -> Encoded:
        """The encoding of each kept level, then of rare ones, of missing, and of unseen ones."""
        shares = [*self.shares, self.rare_share, self.missing]
        n = len(shares)
        table = np.zeros((n + 1, n))
        for place, share in enumerate(shares):
            if 0 < share < 1:
                no, yes = standardised_flags(share)
                table[:n, place] = no
                table[place, place] = yes
        usual = table[int(np.argmax(shares))]
        table[n] = table[n - 2] if self.rare_share else usual
        if not self.missing:
            table[n - 1] = usual
        used = [place for place, share in enumerate(shares) if 0 < share < 1]
        if len(used) == 2 and not self.rare_share:
            used = used[1:]
        return table[:, used].astype(np.float32)

    @cached_property
    def _place(self) -> dict[str | None, int]:
        """The row of the table that each kept level and the missing value have."""
        return {**{level: place for place, level in enumerate(self.levels)}, None: len(self.levels) + 1}

    @cached_property
    def _rare(self) -> frozenset[str | int]:
        """The rare levels, or their hashes."""
        hashes = np.frombuffer(base64.b64decode(self.rare_hashes), "<u8")
        return frozenset(hashes.tolist() if self.rare_hashes else self.rare)

    def _places(self, cells: Cells) -> tuple[Places, Places]:
        """Return the row of the table that each distinct value has, and each row's place among them."""
        texts, codes = to_levels(cells, self.name)
        read = [None if text is None else self.read_text(text) for text in texts]
        rare = len(self.levels)
        found = [self._place[t] if t in self._place else rare if self._knows(t) else rare + 2 for t in read]
        return np.array(found, np.intp), codes

    def _knows(self, text: str | None) -> bool:
        """Say whether a text was a level in training."""
        key = _hash(text) if self.rare_hashes and text is not None else text
        return text is not None and (text in self._place or key in self._rare)

    def read_text(self, text: str, written: Written = PLAIN) -> str | None:
        """Return the level that a text stands for, seen or not, None if it stands for a missing value.

        A text that training had as a level is that level, with its spaces; others are trimmed and may stand for a
        missing value.
        """
        if self._knows(text):
            return text
        plain = text.strip()
        return None if is_mark(plain) and not self._knows(plain) else plain

    @cached_property
    def _json_types(self) -> dict[type, tuple[str, str]]:
        """The types of JSON values that may stand for a level, by what training had, and the names of these types."""
        levels = [*self.levels, *self.rare]
        types: dict[type, tuple[str, str]] = {str: ("string", "a text")}
        if any(find_number(level, PLAIN, "") is not None for level in levels):
            types |= dict.fromkeys((int, float), ("number", "a number"))
        if not {"True", "False"}.isdisjoint(levels):
            types[bool] = ("boolean", "a truth value")
        return types

    def read_json(self, value: Any) -> Any:
        """Return a number or a truth value, if training had such levels."""
        return value if type(value) in self._json_types else super().read_json(value)

    @property
    def expected(self) -> str:
        """A text, or also a number or a truth value if training had such levels."""
        return " or ".join(dict.fromkeys(words for _, words in self._json_types.values()))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of what `expected` says."""
        types = dict.fromkeys(name for name, _ in self._json_types.values())
        some = ", ".join(self.levels[:20]) + (", …" if self.n_levels > 20 else "")
        return {"type": [*types, "null"], "description": f"In training: {some}. null if it is not known."}

    @property
    def mlflow_type(self) -> str:
        """A string, unless levels may be numbers or truth values."""
        return "string" if list(self._json_types) == [str] else "any"

    @property
    def usual(self) -> str | None:
        """The most frequent level."""
        return self.levels[0] if self.levels else next(iter(self.rare), None)

    def as_json(self, cells: Cells) -> list[str | None]:
        """Return the levels."""
        texts, codes = to_levels(cells, self.name)
        return [None if texts[code] is None else self.read_text(str(texts[code])) for code in codes]

    @property
    def familiar(self) -> list[str | None]:
        """The most frequent levels, and the missing value if training had one."""
        return [*self.levels[:_TRIED], *([None] if self.missing else [])]

    def cells_of(self, values: Sequence[str | None]) -> Cells:
        """Return levels as categories, whatever they look like."""
        return Cells("categories", list(values))

    def why_strange(self, value: str | None) -> str:
        """Say that a level is new."""
        if value is None or self._knows(value):
            return super().why_strange(value)
        return f"{self.spoken(value)} was never seen in training"

    @cached_property
    def _log_events(self) -> Floats:
        """The surprise of each row of the table."""
        events = np.zeros(len(self.levels) + 3)
        events[-1] = self.log_unseen
        if not self.missing:
            events[-2] = self.log_never
        return events

    def encode(self, cells: Cells, numbers: Encoded, flags: Encoded) -> Floats | None:
        """Write the encoded values, and return the surprise of each row, or None if it is 0 in all of them."""
        places, codes = self._places(cells)
        flags[...] = self._table[places][codes]
        surprise = self._log_events[places]
        return surprise[codes] if surprise.any() else None

    @property
    def arithmetic(self) -> Arithmetic | None:
        """A code for each text; None if of some levels only hashes are known, which no graph calculates."""
        if self.rare_hashes:
            return None
        rare, missing, unseen = (len(self.levels) + place for place in range(3))
        of = {form: missing for mark in MARKS for form in (mark, mark.upper(), mark.capitalize())}
        of |= dict.fromkeys(("NaN", "NaT", "-NaN"), missing) | dict.fromkeys(self.rare, rare)
        of |= {level: place for place, level in enumerate(self.levels)}
        codes = Codes(of, unseen, self._table, self._log_events)
        return Arithmetic(codes=codes, unit="a text as in training, without spaces around it; empty if missing")

    def oddness(self, cells: Cells) -> Floats:
        """Return how unusual each value is, in standard deviations."""
        places, codes = self._places(cells)
        n_rare = self.n_levels - len(self.levels)
        shares = np.array([*self.shares, self.rare_share / n_rare if n_rare else 0.0, self.missing, 0.0])
        with np.errstate(divide="ignore"):
            logs = np.where(shares > 0, np.log(shares / shares.max()), 0.0)
        return oddness_of(logs + self._log_events)[places][codes]

    @property
    def facts(self) -> str:
        """How many levels there are, and the most frequent."""
        count = "1 value" if self.n_levels == 1 else f"{self.n_levels:,} values"
        names = [level if len(level) <= SHOWN else level[: SHOWN - 1] + "…" for level in self.levels[:3]]
        more = ", …" if names and self.n_levels > len(names) else ""
        return f"{count}{': ' if names else ''}{', '.join(names)}{more}"

    def usually(self, value: Callable[[Any], str], share: Callable[[float], str]) -> str:
        """The most frequent levels."""
        names = ", ".join(map(value, self.levels[:3]))
        return names + (", …" if self.n_levels > 3 else "") if self.levels else "ever new values"

    def all_differ(self, cells: Cells) -> bool:
        """Say whether nearly every known value is a level of its own."""
        return self.n_levels >= OWN * self.n_rows * (1 - self.missing)

    @property
    def summary(self) -> dict[str, Any]:
        """The kept levels with their shares, the number of levels, the share of rare ones, and the share missing."""
        return {
            "levels": dict(zip(self.levels, self.shares, strict=True)),
            "n_levels": self.n_levels,
            "rare": self.rare_share,
            "missing": self.missing,
        }

    @classmethod
    def _read(cls, read: Fields) -> dict[str, Any]:
        levels, rare = read.texts("levels"), read.texts("rare")
        hashes = read.text("rare_hashes")
        try:
            n_hashes, rest = divmod(len(base64.b64decode(hashes, validate=True)), 8)
        except binascii.Error:
            n_hashes, rest = 0, 1
        if rest or (rare and hashes):
            wrong = "'rare_hashes' is no base64 text of 8-byte hashes, or 'rare' has levels too."
            raise ValueError(f"{read.where}: {wrong}")
        if len(levels) > MAX_LEVELS:
            raise ValueError(f"{read.where}: 'levels' has {len(levels)} levels, but at most {MAX_LEVELS} are kept.")
        n_levels = len(levels) + len(rare) + n_hashes
        return {
            "levels": levels,
            "shares": read.numbers("shares", len(levels), 0, 1),
            "rare": rare,
            "rare_hashes": hashes,
            "rare_share": read.number("rare_share", 0, 1),
            "n_levels": read.whole("n_levels", n_levels, n_levels),
            "n_singletons": read.whole("n_singletons", 0, n_levels),
        }


def _sum(counts: Sequence[Counter[str | None]]) -> Counter[str | None]:
    total: Counter[str | None] = Counter()
    for part in counts:
        total.update(part)
    return total


def _packed(hashes: Iterable[Any]) -> str:
    """Return hashes, sorted, as a text."""
    return base64.b64encode(np.array(sorted(hashes), "<u8").tobytes()).decode()


def _hash(text: str) -> int:
    """Return an 8-byte hash that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
