"""Read the fields of a saved configuration, or say what is wrong with it."""

from collections.abc import Iterable
from math import inf, isfinite
from typing import Any


class Fields:
    """The fields of one object of a configuration, each checked when it is read.

    Args:
        config: The object.
        where: What to call it in errors.
        names: The fields it has to have; it may have no others.
    """

    def __init__(self, config: Any, where: str, names: Iterable[str]) -> None:
        if not isinstance(config, dict):
            raise ValueError(f"{where}: {config!r:.80} came where an object with named fields is needed.")
        expected = set(names)
        absent, unknown = sorted(expected - set(config)), sorted(map(str, set(config) - expected))
        if absent or unknown:
            parts = [f"lacks {', '.join(map(repr, absent))}"] * bool(absent)
            parts += [f"has the unknown {', '.join(map(repr, unknown))}"] * bool(unknown)
            raise ValueError(f"{where} {' and '.join(parts)}. Was it saved by another version of natpn?")
        self._config = config
        self.where = where

    def _fail(self, key: str, value: Any, needed: str) -> ValueError:
        return ValueError(f"{self.where}: {key!r} is {value!r:.80}, but {needed} is needed.")

    def value(self, key: str) -> Any:
        """Return a field without a check."""
        return self._config[key]

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._config[key]
        if not isinstance(value, str):
            raise self._fail(key, value, "a text")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._config[key]
        if not isinstance(value, bool):
            raise self._fail(key, value, "true or false")
        return value

    def whole(self, key: str, low: int, high: int = 2**53) -> int:
        """Return a whole number in a range."""
        value = self._config[key]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._fail(key, value, f"a whole number from {low} to {high}")
        return value

    def number(self, key: str, low: float = -inf, high: float = inf) -> float:
        """Return a finite number in a range."""
        return self._number(key, self._config[key], low, high)

    def numbers(self, key: str, length: int | None = None, low: float = -inf, high: float = inf) -> list[float]:
        """Return a list of finite numbers in a range."""
        value = self._config[key]
        if not isinstance(value, list) or (length is not None and len(value) != length):
            raise self._fail(key, value, f"a list of {'' if length is None else f'{length} '}numbers")
        return [self._number(f"{key}[{place}]", entry, low, high) for place, entry in enumerate(value)]

    def texts(self, key: str) -> list[str]:
        """Return a list of distinct texts."""
        value = self._config[key]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value) or len(set(value)) < len(value):
            raise self._fail(key, value, "a list of distinct texts")
        return list(value)

    def _number(self, key: str, value: Any, low: float, high: float) -> float:
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not (isfinite(value) and low <= value <= high)
        ):
            spread = "" if (low, high) == (-inf, inf) else f" from {low} to {high}"
            raise self._fail(key, value, f"a finite number{spread}")
        return float(value)
