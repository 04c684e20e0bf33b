"""What the page on MySQL takes for granted: a database server for both shards."""

from tests.support.mariadb_service import shared_service


def prepare(sandbox):
    service = shared_service()
    here = f'"host": "{service.host}", "port": {service.port}'
    sandbox.moved |= {f'"host": "db{number}", "port": 3306': here for number in (1, 2)}
    sandbox.moved |= {'"passwd": "secret"': f'"passwd": "{service.password}"'}
