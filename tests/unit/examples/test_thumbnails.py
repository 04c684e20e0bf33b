"""Thumbnails of the photographs in the repository."""

import pytest
from PIL import Image

from jobs_example.thumbnails import PHOTOS, MakeThumbnails
from pinlater import Discard
from pinlater.testing import FakeContext

ALL_PHOTOS = sorted(PHOTOS.glob("*.jpg"))


def sizes_in(folder):
    found = {}
    for path in folder.iterdir():
        with Image.open(path) as image:
            image.load()
            found[path.name] = max(image.size)
    return found


@pytest.mark.parametrize("photo", ALL_PHOTOS, ids=lambda photo: photo.stem)
def test_every_photo_gets_its_thumbnails(photo, tmp_path):
    MakeThumbnails(photo=str(photo), folder=str(tmp_path), sizes=(32, 100)).run(FakeContext())
    assert sizes_in(tmp_path) == {f"{photo.stem}-32.jpg": 32, f"{photo.stem}-100.jpg": 100}


def test_making_them_twice_leaves_the_same_files(tmp_path):
    job = MakeThumbnails(photo=str(ALL_PHOTOS[0]), folder=str(tmp_path / "new" / "folder"))
    job.run(FakeContext())
    first = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    job.run(FakeContext(attempt=2))
    assert {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()} == first
    assert len(first) == 3


def test_what_is_no_picture_is_discarded(tmp_path):
    text = tmp_path / "text.jpg"
    text.write_text("not a picture")
    with pytest.raises(Discard, match="not a picture"):
        MakeThumbnails(photo=str(text), folder=str(tmp_path / "out")).run(FakeContext())


def test_a_photo_that_is_missing_is_worth_another_attempt(tmp_path):
    with pytest.raises(FileNotFoundError):
        MakeThumbnails(photo=str(tmp_path / "later.jpg"), folder=str(tmp_path)).run(FakeContext())


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(self, *_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(OSError, match="No space"):
        MakeThumbnails(photo=str(ALL_PHOTOS[0]), folder=str(tmp_path)).run(FakeContext())
    assert list(tmp_path.iterdir()) == []


def test_the_source_of_every_photo_is_named():
    sources = (PHOTOS / "SOURCES.md").read_text()
    assert len(ALL_PHOTOS) >= 4
    for photo in ALL_PHOTOS:
        (line,) = [line for line in sources.splitlines() if f"`{photo.name}`" in line]
        assert "CC0" in line or "public domain" in line
