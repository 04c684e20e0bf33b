"""Thumbnails of photographs: the plain kind of job.

What to see here: the fields are the arguments; doing it twice does no harm; and a file that can never become
a thumbnail is given up at once instead of being tried again and again.
"""

from pathlib import Path

from PIL import Image, UnidentifiedImageError

from jobs_example.files import written_whole
from pinlater import Discard, Job, JobContext

PHOTOS = Path(__file__).parent / "photos"


class MakeThumbnails(Job, queue="thumbnails", attempts=3):
    """Write thumbnails of one photograph.

    Attributes:
        photo: path of the photograph.
        folder: where the thumbnails go, as ``<name>-<size>.jpg``.
        sizes: length of the longer side of each, in pixels.
    """

    photo: str
    folder: str
    sizes: tuple[int, ...] = (64, 160, 320)

    def run(self, context: JobContext) -> None:
        photo = Path(self.photo)
        try:
            with Image.open(photo) as image:
                picture = image.convert("RGB")
        except UnidentifiedImageError as error:
            raise Discard(f"{photo} is not a picture") from error  # trying again would not make it one
        for size in self.sizes:
            write_thumbnail(picture, size, Path(self.folder) / f"{photo.stem}-{size}.jpg")
        context.log.info("%s: %d thumbnails", photo.name, len(self.sizes))


def write_thumbnail(picture: Image.Image, size: int, path: Path) -> None:
    """Write one thumbnail, and read it back before it gets its name."""
    small = picture.copy()
    small.thumbnail((size, size), Image.Resampling.LANCZOS)
    with written_whole(path) as temporary:
        small.save(temporary, format="JPEG", quality=85)
        with Image.open(temporary) as written:
            written.load()
