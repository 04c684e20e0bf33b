"""Jobs about photos, which call each other."""

from dataclasses import dataclass

from pinlater.jobs.job import Job

ran = []


@dataclass
class Size:
    width: int


class Resize(Job[Size], queue="photos", attempts=2):
    photo: int

    def run(self, context):
        ran.append(self.photo)
        if self.photo < 0:
            raise ValueError(f"no photo {self.photo}")
        return Size(self.photo * 10)


class Album(Job[list[int]], queue="albums"):
    photos: list[int]

    def run(self, context):
        sizes = context.call_all([Resize(photo=photo) for photo in self.photos], name="resize", batch_size=2)
        return [size.width for size in sizes]


class Cover(Job[Size], queue="albums"):
    photo: int

    def run(self, context):
        return context.call(Resize(photo=self.photo))


class Twice(Job[list[int]], queue="albums"):
    """Calls one job after another under the same name, and a job that calls itself."""

    def run(self, context):
        return [context.call(Cover(photo=number), name="cover").width for number in (1, 2)]
