"""What the guide of security takes for granted: certificates."""

from tests.support.certificates import Authority

refunded = []


def prepare(sandbox):
    Authority(sandbox.folder, "ca").issue("server")
