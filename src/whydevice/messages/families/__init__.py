"""Every wording of the catalogue. Of those that match a text, the one with the most words of its own wins."""

from __future__ import annotations

from ..family import Family
from . import automatic, checks, elsewhere, host, kernels, libraries, parallel

FAMILIES: tuple[Family, ...] = tuple(
    sorted(
        (
            *checks.FAMILIES,
            *kernels.FAMILIES,
            *automatic.FAMILIES,
            *host.FAMILIES,
            *parallel.FAMILIES,
            *elsewhere.FAMILIES,
            *libraries.FAMILIES,
        ),
        key=lambda family: -family.weight,
    )
)
