"""Thrift: the IDL, frames, and safe encoding and decoding. No other package imports thriftpy2."""

from pinlater.protocol.deferred import defer_package

# All programs encode and decode; none parses Thrift files, or speaks a protocol other than the binary one.
for _name in ("thriftpy2", "thriftpy2.protocol"):
    defer_package(_name)
