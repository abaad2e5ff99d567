"""LSUN: classrooms and churches, the two of its categories that the paper takes as OOD sets of NYU Depth v2.

Read from the folders ``lsun/classroom`` and ``lsun/church_outdoor``, which hold the pictures one by one. The official
databases are in LMDB form; ``python data.py export classroom_val_lmdb --out_dir lsun/classroom --flat`` of
https://github.com/fyu/lsun writes them out.
"""

import numpy as np

from natpn_paper.datasets.base import Request, Rows, Splits, assemble, check_size
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import Source
from natpn_paper.datasets.pictures import PictureFile, array_of, listing, read_images

HOME = "https://www.yf.io/p/lsun"
TERMS = "for research only; export the pictures with https://github.com/fyu/lsun"
SOURCES = {
    name: Source(f"lsun/{folder}", home=HOME, terms=TERMS)
    for name, folder in {"classroom": "classroom", "church": "church_outdoor"}.items()
}
SIZE = (480, 640)  # of NYU Depth v2, whose OOD set it is


def lsun(request: Request, size: tuple[int, int] = SIZE) -> Splits:
    """Tell classrooms (0) from churches (1), resized to ``size`` (height, width)."""
    check_size("size", size)
    return assemble("lsun", lsun_rows(request, size), request, n_classes=2)


def lsun_rows(request: Request, size: tuple[int, int] = SIZE, only: str | None = None) -> Rows:
    """List the pictures of both categories, or of one."""
    pictures: list[PictureFile] = []
    labels: list[int] = []
    for label, (name, source) in enumerate(SOURCES.items()):
        if only in (None, name):
            found = listing(find(source, request.directory, request.download))
            pictures += found
            labels += [label] * len(found)
    return Rows(array_of(pictures), np.array(labels, dtype=np.int64), lambda X: read_images(X, size))
