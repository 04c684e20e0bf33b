"""Thrift: the IDL, frames, and safe encoding and decoding. Nothing else imports thriftpy2."""
