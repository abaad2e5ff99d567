"""Pictures in folders and zip archives, read one by one and resized."""

import contextlib
import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from natpn_paper.datasets.base import Array
from natpn_paper.datasets.files import DamagedData

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
METRES_8_BIT = 10 / 255  # depth maps of 8 bits reach 10 m


def open_picture(content: bytes, path: Path, mode: str | None = None) -> "Image.Image":
    """Decode a picture.

    Args:
        content: The bytes of the file.
        path: Its name, for errors.
        mode: The mode to convert it to, such as "RGB"; None leaves it.

    Raises:
        DamagedData: If it is no picture, or a truncated one.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(io.BytesIO(content))
        picture.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        problem = "it is no picture" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DamagedData(path, problem) from error
    return picture.convert(mode) if mode else picture


def listing(place: Path) -> list["PictureFile"]:
    """Return all pictures in a folder or a zip archive, at any depth, by name."""
    if place.suffix == ".zip":
        try:
            with zipfile.ZipFile(place) as archive:
                names = sorted(archive.namelist())
        except zipfile.BadZipFile as error:
            raise DamagedData(place, f"it cannot be unpacked ({error})") from error
    else:
        names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    return [PictureFile(place, name) for name in names if name.lower().endswith(SUFFIXES)]


def array_of(pictures: Iterable["PictureFile"]) -> Array:
    """Put pictures into an array, to be split like any other."""
    listed = list(pictures)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def contents(pictures: Array) -> Iterator[tuple["PictureFile", bytes]]:
    """Yield each picture with its bytes; an archive is opened once."""
    with contextlib.ExitStack() as stack:
        archives: dict[Path, zipfile.ZipFile] = {}
        for picture in pictures:
            if picture.place.suffix != ".zip":
                yield picture, (picture.place / picture.name).read_bytes()
                continue
            if picture.place not in archives:
                archives[picture.place] = stack.enter_context(zipfile.ZipFile(picture.place))
            try:
                yield picture, archives[picture.place].read(picture.name)
            except zipfile.BadZipFile as error:
                raise DamagedData(picture.path, f"it cannot be unpacked ({error})") from error


def read_images(pictures: Array, size: tuple[int, int]) -> NDArray[np.float32]:
    """Read pictures as float32 in [0, 1], shape (N, 3, height, width), resized with a bilinear filter."""
    height, width = size
    images = np.empty((len(pictures), 3, height, width), np.float32)
    for number, (picture, content) in enumerate(contents(pictures)):
        opened = open_picture(content, picture.path, "RGB")
        if opened.size != (width, height):
            opened = opened.resize((width, height), 2)  # bilinear, over all pixels that fall into one
        images[number] = np.asarray(opened, np.float32).transpose(2, 0, 1) / np.float32(255)
    return images


def read_depths(pictures: Array, size: tuple[int, int], unit: float) -> NDArray[np.float32]:
    """Read depth maps in metres, shape (N, height, width), with NaN where there is no reading.

    A pixel of the result is the mean of the readings that fall into it.

    Args:
        pictures: The depth maps; 0 means no reading.
        size: Height and width of the result.
        unit: The metres that one step of a map of 16 bits stands for. Maps of 8 bits reach 10 m.
    """
    depths = np.empty((len(pictures), *size), np.float32)
    for number, (picture, content) in enumerate(contents(pictures)):
        opened = open_picture(content, picture.path)
        values = np.asarray(opened).astype(np.float32)
        if values.ndim != 2:
            raise DamagedData(picture.path, f"it is no depth map: its mode is {opened.mode}, not 8 or 16 bits of grey")
        depths[number] = shrink(values * np.float32(METRES_8_BIT if opened.mode == "L" else unit), size)
    return depths


def shrink(depth: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Resize a depth map to (height, width) by the mean of the readings in each pixel; 0 means no reading."""
    from PIL import Image

    valid = (depth > 0).astype(np.float32)
    total, weight = (
        np.asarray(Image.fromarray(values).resize((size[1], size[0]), 4)) for values in (depth * valid, valid)
    )  # 4 is the box filter: a mean by area
    mean = np.full(size, np.nan, np.float32)
    np.divide(total, weight, out=mean, where=weight > 1e-4)
    return mean


@dataclass(frozen=True, order=True)
class PictureFile:
    """A picture: the folder or archive, and its name there."""

    place: Path
    name: str

    @property
    def path(self) -> Path:
        """The path to show in messages; inside an archive it is no file of its own."""
        return self.place / self.name
