"""CelebA and LSUN: photographs that the paper uses as OOD sets, read from folders and archives of pictures.

CelebA has 202,599 aligned faces of 178 x 218 pixels, and no targets here. It is read from the folder
``img_align_celeba`` or the archive ``img_align_celeba.zip``. Pictures 182,638 to 202,599 are the official test part.

LSUN has classrooms and churches, read from the folders ``lsun/classroom`` and ``lsun/church_outdoor``. The official
databases are in LMDB form; ``python data.py export classroom_val_lmdb --out_dir lsun/classroom --flat`` of
https://github.com/fyu/lsun writes them as pictures.
"""

import numpy as np

from natpn_paper.datasets.base import Request, Rows, Splits, assemble, check_size
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import Source
from natpn_paper.datasets.pictures import PictureFile, array_of, listing, read_images

CELEBA_HOME = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
CELEBA_TERMS = "for non-commercial research only"
CELEBA = tuple(
    Source(f"celeba/{name}", home=CELEBA_HOME, terms=CELEBA_TERMS)
    for name in ("img_align_celeba", "img_align_celeba.zip")
)
CELEBA_SIZE = (32, 32)  # of CIFAR-10, whose OOD set it is
N_FACES = 202_599
FIRST_TEST_FACE = 182_638
LSUN_HOME = "https://www.yf.io/p/lsun"
LSUN_TERMS = "for research only; export the pictures with https://github.com/fyu/lsun"
LSUN = {
    name: Source(f"lsun/{folder}", home=LSUN_HOME, terms=LSUN_TERMS)
    for name, folder in {"classroom": "classroom", "church": "church_outdoor"}.items()
}
LSUN_SIZE = (480, 640)  # of NYU Depth v2, whose OOD set it is


def celeba(request: Request, size: tuple[int, int] = CELEBA_SIZE) -> Splits:
    """Load faces, resized to ``size`` (height, width); the targets have shape (N, 0)."""
    check_size("size", size)
    return assemble("celeba", celeba_rows(request, size=size), request)


def celeba_rows(request: Request, size: tuple[int, int] = CELEBA_SIZE, test_only: bool = False) -> Rows:
    """List all faces, or with ``test_only`` those of the test part; if none of these is there, all."""
    place = find(CELEBA, request.directory, request.download)
    pictures = listing(place)
    note = "" if len(pictures) == N_FACES else f"{len(pictures):,} of {N_FACES:,} faces"
    if test_only:
        numbers = [picture.path.stem for picture in pictures]
        test = [p for p, n in zip(pictures, numbers, strict=True) if n.isdigit() and int(n) >= FIRST_TEST_FACE]
        pictures = test or pictures
    return Rows(array_of(pictures), np.empty((len(pictures), 0)), lambda X: read_images(X, size), note=note)


def lsun(request: Request, size: tuple[int, int] = LSUN_SIZE) -> Splits:
    """Tell classrooms (0) from churches (1), resized to ``size`` (height, width)."""
    check_size("size", size)
    return assemble("lsun", lsun_rows(request, size), request, n_classes=2)


def lsun_rows(request: Request, size: tuple[int, int] = LSUN_SIZE, only: str | None = None) -> Rows:
    """List the pictures of both categories, or of one."""
    pictures: list[PictureFile] = []
    labels: list[int] = []
    for label, (name, source) in enumerate(LSUN.items()):
        if only in (None, name):
            found = listing(find(source, request.directory, request.download))
            pictures += found
            labels += [label] * len(found)
    return Rows(array_of(pictures), np.array(labels, dtype=np.int64), lambda X: read_images(X, size))
