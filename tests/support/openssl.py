"""Certificates that the program openssl makes."""

import subprocess


def certificates(folder):
    """Make an authority and a certificate for 127.0.0.1; return the files."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    # From Python 3.13 on, an authority has to say what its key is for, and a certificate who has signed it.
    (folder / "extension").write_text("subjectAltName = IP:127.0.0.1\nauthorityKeyIdentifier = keyid\n")
    authority = ("-subj", "/CN=ca", "-addext", "keyUsage = critical,keyCertSign,cRLSign")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *authority, "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redis", "-keyout", "redis.key", "-out", "redis.csr")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extension")
    openssl("x509", "-req", "-in", "redis.csr", *signing, "-out", "redis.pem")
    return [str(folder / name) for name in ("ca.pem", "redis.pem", "redis.key")]
