"""Example jobs, each in one small module and on real input.

Run them with ``pinlater-worker jobs_example``; ``make demo`` runs all of them.
"""

from jobs_example.delivery import DeliverEvent
from jobs_example.source_index import IndexStandardLibrary
from jobs_example.thumbnails import MakeThumbnails
from jobs_example.workflow import PublishReport

__all__ = ["DeliverEvent", "IndexStandardLibrary", "MakeThumbnails", "PublishReport"]
