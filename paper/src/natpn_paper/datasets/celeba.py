"""CelebA: 202,599 faces of celebrities, aligned, 178 x 218 pixels. It serves as an OOD set and has no targets here.

Read from the folder ``img_align_celeba`` or the archive ``img_align_celeba.zip``. Pictures 182,638 to 202,599 are the
official test part.
"""

import numpy as np

from natpn_paper.datasets.base import Request, Rows, Splits, assemble, check_size
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import Source
from natpn_paper.datasets.pictures import array_of, listing, read_images

HOME = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
TERMS = "for non-commercial research only"
SOURCES = (
    Source("celeba/img_align_celeba", home=HOME, terms=TERMS),
    Source("celeba/img_align_celeba.zip", home=HOME, terms=TERMS),
)
N_PICTURES = 202_599
FIRST_TEST = 182_638
SIZE = (32, 32)  # of CIFAR-10, whose OOD set it is


def celeba(request: Request, size: tuple[int, int] = SIZE) -> Splits:
    """Load faces, resized to ``size`` (height, width); the targets have shape (N, 0)."""
    check_size("size", size)
    return assemble("celeba", celeba_rows(request, size=size), request)


def celeba_rows(request: Request, size: tuple[int, int] = SIZE, test_only: bool = False) -> Rows:
    """List the faces; those of the test part alone if asked for, unless none of them is there."""
    place = find(SOURCES, request.directory, request.download)
    pictures = listing(place)
    note = "" if len(pictures) == N_PICTURES else f"{len(pictures):,} of {N_PICTURES:,} faces"
    if test_only:
        numbers = [picture.path.stem for picture in pictures]
        test = [p for p, n in zip(pictures, numbers, strict=True) if n.isdigit() and int(n) >= FIRST_TEST]
        pictures = test or pictures
    return Rows(array_of(pictures), np.empty((len(pictures), 0)), lambda X: read_images(X, size), note=note)
