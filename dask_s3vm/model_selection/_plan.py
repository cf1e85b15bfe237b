"""Which candidates share placed rows, and which are fitted together."""

from collections.abc import Sequence
from typing import Any

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._paths import OF_PLACING, has_path
from dask_s3vm.model_selection._pieces import Piece


def placements(models: dict[int, Any]) -> list[list[int]]:
    """Candidates, by number, in groups for which rows are placed alike; others one group."""
    return _grouped(models, lambda model: [repr(getattr(model, name, None)) for name in OF_PLACING])


def pieces_of(
    models: dict[int, Any], numbers: Sequence[int], n_folds: int, seeded: bool
) -> list[Piece]:
    """Pieces of some candidates: paths of those that differ in lam, from the largest one down."""
    paths: list[list[int]] = []
    alone = [number for number in numbers if not _on_path(models[number], seeded)]
    others = {number: models[number] for number in numbers if number not in set(alone)}
    for path in _grouped(others, _without_lam):
        paths.append(sorted(path, key=lambda number: (-float(models[number].lam), number)))
    paths += [[number] for number in alone]
    return [Piece(fold, tuple(path)) for fold in range(n_folds) for path in paths]


def _on_path(model: Any, seeded: bool) -> bool:
    return isinstance(model, LinearS3VM) and has_path(model, seeded)


def _without_lam(model: Any) -> list[str]:
    params = model.get_params(deep=False)
    return [f"{name}={value!r}" for name, value in sorted(params.items()) if name != "lam"]


def _grouped(models: dict[int, Any], key: Any) -> list[list[int]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, model in models.items():
        groups.setdefault(tuple(key(model)), []).append(number)
    return list(groups.values())
