"""Make thumbnails of photographs: a plain job.

This example shows the basics. The fields are the arguments. Running it twice does no harm. If the file is not a
picture, the job is given up at once instead of being retried.
"""

from pathlib import Path

from PIL import Image, UnidentifiedImageError

from jobs_example.files import atomic_write
from pinlater import Discard, Job, JobContext

PHOTOS = Path(__file__).parent / "photos"


class MakeThumbnails(Job, queue="thumbnails", attempts=3, latency_target=30):
    """Write thumbnails of one photograph.

    Attributes:
        photo: path of the photograph.
        folder: folder for the thumbnails, which are named ``<name>-<size>.jpg``.
        sizes: lengths of the longer side, in pixels.
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
            raise Discard(f"{photo} is not a picture") from error  # another attempt would not help
        for size in self.sizes:
            write_thumbnail(picture, size, Path(self.folder) / f"{photo.stem}-{size}.jpg")
        context.log.info("%s: %d thumbnails", photo.name, len(self.sizes))


def write_thumbnail(picture: Image.Image, size: int, path: Path) -> None:
    """Write one thumbnail; read it back before it gets its final name."""
    small = picture.copy()
    small.thumbnail((size, size), Image.Resampling.LANCZOS)
    with atomic_write(path) as temporary:
        small.save(temporary, format="JPEG", quality=85)
        with Image.open(temporary) as written:
            written.load()
