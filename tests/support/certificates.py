"""Certificates for tests, by the ``openssl`` program: authorities, servers and clients that they vouch for."""

import shutil
import subprocess
from typing import NamedTuple

import pytest


class Issued(NamedTuple):
    """Paths of a certificate and of its key."""

    cert: str
    key: str


class Authority:
    """Somebody who vouches for others.

    Args:
        folder: where all files are put.
        name: of the authority.
    """

    def __init__(self, folder, name):
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
        self._folder = folder
        self._name = name
        self.own = self._files(name)
        _openssl("req", "-x509", *_NEW_KEY, *self._out(self.own), "-days", "2", "-subj", f"/CN={name}", *_VOUCHES)
        self.ca = self.own.cert

    def issue(self, name, alternative="DNS:localhost,IP:127.0.0.1,IP:::1"):
        """Return a new certificate for ``alternative`` names."""
        issued, request = self._files(name), str(self._folder / f"{name}.csr")
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\nauthorityKeyIdentifier=keyid\n")
        _openssl("req", *_NEW_KEY, "-keyout", issued.key, "-out", request, "-subj", f"/CN={name}")
        signed_by = ("-CA", self.own.cert, "-CAkey", self.own.key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *signed_by, "-days", "2", "-extfile", extensions, "-out", issued.cert)
        return issued

    def _files(self, name):
        return Issued(str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key"))

    @staticmethod
    def _out(issued):
        return ("-keyout", issued.key, "-out", issued.cert)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_VOUCHES = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
"""Without that, and the key identifiers of what is issued, Python 3.13 and later do not take its word."""


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)
