import pytest

from tests.unit.jobs.workflow_attempts import KINDS


@pytest.fixture(params=KINDS)
def attempts(request):
    """Attempts of one workflow, in each kind of context."""
    return request.param()
