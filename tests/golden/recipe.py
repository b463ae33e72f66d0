"""The register of golden tables: a name, a description and the function that builds the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lake import Table

Build = Callable[[Table], None]


@dataclass(frozen=True)
class Recipe:
    """How one golden table is made."""

    name: str
    description: str
    build: Build


RECIPES: dict[str, Recipe] = {}


def add(name: str, description: str, build: Build) -> None:
    """Register a recipe under a new name."""
    if name in RECIPES:
        raise ValueError(f"two recipes named {name}")
    RECIPES[name] = Recipe(name, description, build)


def recipe(name: str, description: str) -> Callable[[Build], Build]:
    """Register the decorated function as a recipe."""

    def register(build: Build) -> Build:
        add(name, description, build)
        return build

    return register
