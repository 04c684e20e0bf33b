"""A Galera cluster of two MariaDB servers, both of which take changes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.mariadb_service import MariadbService, is_mysql, skip_if_missing
from tests.support.ports import free_ports

LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")


def library():
    """Return the path of Galera; skip the test if there is none."""
    skip_if_missing()
    found = [path for path in LIBRARIES if Path(path).exists()]
    if is_mysql() or not found:
        pytest.skip("no Galera for MariaDB here (as root: apt-get install galera-4)")
    return found[0]


class Galera:
    """The cluster.

    Args:
        folder: an empty one, for its files.

    Attributes:
        nodes: the servers.
    """

    def __init__(self, folder):
        self._library = library()
        self._folder = Path(folder)
        self.nodes = []
        try:
            self._install()
            address = self._add("")
            self._add(address)
        except BaseException:
            self.end()
            raise

    def _install(self):
        """Make the files of a server with its users; all nodes begin with a copy."""
        MariadbService(self._folder).stop()
        (self._folder / "init.sql").write_text("SELECT 1;\n")

    def _add(self, peer):
        """Start a node; return its address in the cluster."""
        folder = self._folder / f"node{len(self.nodes)}"
        folder.mkdir()
        shutil.copytree(self._folder / "data", folder / "data")
        shutil.copy(self._folder / "init.sql", folder)
        if self.nodes:
            self._let_know(folder / "data" / "grastate.dat")
        port, transfer_port = free_ports(2)
        provider_options = (
            f"base_host=127.0.0.1;base_port={port};gmcast.listen_addr=tcp://127.0.0.1:{port};"
            f"ist.recv_addr=127.0.0.1:{transfer_port};gcache.size=16M"
        )
        node = MariadbService(
            folder,
            "--wsrep-on=ON",
            f"--wsrep-provider={self._library}",
            f"--wsrep-cluster-address=gcomm://{peer}",
            f"--wsrep-provider-options={provider_options}",
            "--wsrep-node-address=127.0.0.1",
            "--wsrep-sst-method=skip",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        )
        self.nodes.append(node)
        return f"127.0.0.1:{port}"

    def _let_know(self, state_file):
        """Tell a new node that its files are those of the first one, so that none have to be sent."""
        state = dict(self._status("wsrep_local_state_uuid", "wsrep_last_committed"))
        state_file.write_text(
            f"version: 2.1\nuuid: {state['wsrep_local_state_uuid']}\nseqno: {state['wsrep_last_committed']}\n"
            "safe_to_bootstrap: 0\n"
        )

    def _status(self, *names):
        node, quoted = self.nodes[0], ", ".join(f"'{name}'" for name in names)
        command = ["mariadb", f"-h{node.host}", f"-P{node.port}", f"-u{node.user}", f"-p{node.password}", "-N", "-e"]
        shown = subprocess.run(
            [*command, f"SHOW STATUS WHERE Variable_name IN ({quoted})"], capture_output=True, text=True, check=True
        )
        return [line.split("\t") for line in shown.stdout.splitlines()]

    def end(self):
        for node in self.nodes:
            node.end()
