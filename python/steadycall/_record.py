"""Frozen value objects without the import time of ``dataclasses`` (which brings ``inspect`` along).

A class decorated with ``frozen`` takes its annotated fields as keywords, refuses assignment, and compares, hashes,
prints and pickles by value. Type checkers see it as a frozen dataclass. An ``__init__`` of its own is kept.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_kwargs):
        return lambda decorator: decorator


@dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen value object of its annotated fields; class attributes are their defaults."""
    fields = tuple(name for name in cls.__annotations__ if not name.startswith("_"))
    defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}

    def __init__(self: Any, **values: Any) -> None:
        given = self.__dict__
        for name in fields:
            if name in values:
                given[name] = values.pop(name)
            elif name in defaults:
                given[name] = defaults[name]
            else:
                raise TypeError(f"{cls.__name__}() is missing the argument {name!r}")
        if values:
            raise TypeError(f"{cls.__name__}() got an unexpected argument {next(iter(values))!r}")

    def __setattr__(self: Any, name: str, _value: object) -> None:
        raise AttributeError(f"{cls.__name__} is frozen: cannot set {name!r}")

    def __delattr__(self: Any, name: str) -> None:
        raise AttributeError(f"{cls.__name__} is frozen: cannot delete {name!r}")

    def __eq__(self: Any, other: Any) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return all(self.__dict__[name] == other.__dict__[name] for name in fields)

    def __hash__(self: Any) -> int:
        return hash((cls, *(self.__dict__[name] for name in fields)))

    def __repr__(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in fields)})"

    def __reduce__(self: Any) -> Any:
        return _rebuild, (type(self), {name: self.__dict__[name] for name in fields})

    methods = (__init__, __setattr__, __delattr__, __eq__, __hash__, __repr__, __reduce__)
    for method in methods:
        if method.__name__ not in cls.__dict__:
            setattr(cls, method.__name__, method)
    setattr(cls, "__match_args__", fields)  # noqa: B010 - mypy knows no such attribute of any class
    return cls


def _rebuild(cls: type[Any], values: dict[str, Any]) -> Any:
    return cls(**values)
