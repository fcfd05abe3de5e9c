"""A decorator for dataclasses that are instantiated millions of times in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as record

    __all__ = ["record"]
else:
    from dataclasses import dataclass

    T = TypeVar("T")

    def record(*, frozen: bool, eq: bool = True, **options: Any) -> Callable[[type[T]], type[T]]:
        """Return the `dataclass` decorator for a class whose instances never change.

        Only the type checker enforces immutability, because a constructor that enforces it takes three times as long.
        """
        assert frozen

        def make(cls: type[T]) -> type[T]:
            return dataclass(eq=eq, unsafe_hash=eq and "__hash__" not in vars(cls), **options)(cls)

        return make
