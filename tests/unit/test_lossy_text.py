"""A log whose reader hangs, is slow, or has left."""

import fcntl
import logging
import os
import socket
import threading

import pytest

from pinlater import logs
from pinlater.logs import LossyText, StderrHandler

PIPE_BYTES = 65536


@pytest.fixture
def ends():
    """A reader and a writer of a pipe."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reader, writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(logs, "PATIENCE_SECONDS", 0.01)


def read_all(reader):
    os.set_blocking(reader, False)
    found = b""
    try:
        while data := os.read(reader, PIPE_BYTES):
            found += data
    except BlockingIOError:
        return found
    return found


@pytest.mark.parametrize("length", [10, 5000, 100_000])
def test_what_nobody_reads_is_dropped_and_what_comes_later_is_there(ends, impatient, length):
    reader, writer = ends
    text = LossyText(writer, "utf-8", None)
    line = "x" * length + "\n"
    count = 2 * PIPE_BYTES // length + 1
    for _ in range(count):
        text.write(line)
    written = read_all(reader)
    assert text.unread_bytes == count * len(line) - len(written) > 0
    text.forget_unread()
    text.write("later\n")
    assert read_all(reader) == b"later\n"
    assert text.unread_bytes == 0


def test_it_waits_only_once_until_there_is_room_again(ends, monkeypatch):
    waits = []
    plain = logs.select.poll

    class Poll:
        def __init__(self):
            self._poll = plain()
            self.register = self._poll.register

        def poll(self, milliseconds):
            waits.append(milliseconds)
            return self._poll.poll(0)

    monkeypatch.setattr(logs.select, "poll", Poll)
    reader, writer = ends
    text = LossyText(writer, "utf-8", None)
    for _ in range(20):
        text.write("x" * 4095 + "\n")
    read_all(reader)
    text.write("a\n")
    text.write("b\n")
    assert waits == [2000] * 17 + [0] * 4 + [2000]


def test_a_slow_reader_misses_nothing(ends):
    reader, writer = ends
    text = LossyText(writer, "utf-8", None)
    found = []

    def read():
        while len(data := b"".join(found)) < 300_000:
            found.append(os.read(reader, 1000))
        assert data.count(b"\n") == 0

    thread = threading.Thread(target=read)
    thread.start()
    text.write("x" * 300_000)
    text.flush()
    thread.join()
    assert text.unread_bytes == 0


def test_a_socket_that_nobody_reads(impatient):
    reader, writer = socket.socketpair()  # as systemd gives for the journal
    with reader, writer:
        text = LossyText(writer.fileno(), "utf-8", None)
        for _ in range(2000):
            text.write("x" * 999 + "\n")
        assert len(read_all(reader.fileno())) + text.unread_bytes == 2_000_000
        text.write("later\n")
        assert read_all(reader.fileno()) == b"later\n"


def test_a_reader_that_has_left():
    reader, writer = os.pipe()
    os.close(reader)
    text = LossyText(writer, "utf-8", None)
    text.write("x" * 100_000 + "\n")
    os.close(writer)


def test_a_descriptor_that_does_not_block(ends, impatient):
    reader, writer = ends
    os.set_blocking(writer, False)  # it is shared with a program that wants it so
    os.write(writer, bytes(PIPE_BYTES))
    text = LossyText(writer, "utf-8", None)
    text.write("lost\n")
    read_all(reader)
    text.write("x" * 10 + "\n")
    assert read_all(reader) == b"x" * 10 + b"\n"


def test_a_file_gets_long_lines_in_one_piece(tmp_path, monkeypatch):
    with (tmp_path / "log").open("ab") as file:
        text = LossyText(file.fileno(), "utf-8", None)
        sizes = []
        plain = logs._LossyFile.write
        monkeypatch.setattr(logs._LossyFile, "write", lambda self, data: sizes.append(plain(self, data)) or sizes[-1])
        text.write("x" * 100_000 + "\n")
    assert sizes == [100_001]


def test_the_log_says_how_much_its_reader_has_missed(ends, impatient):
    reader, writer = ends
    stream = LossyText(writer, "utf-8", None)
    handler = StderrHandler(stream)
    for number in range(4):
        handler.handle(logging.LogRecord("any", logging.INFO, "f.py", 1, f"{number} " + "x" * 30_000, (), None))
    lost = stream.unread_bytes
    read_all(reader)
    for text in ("back", "again"):
        handler.handle(logging.LogRecord("any", logging.INFO, "f.py", 1, text, (), None))
    told = read_all(reader).decode()
    missed = f"{lost} bytes of the log before this line were dropped, since nobody read standard error in time"
    assert told == f"back\n{missed}\nagain\n"
