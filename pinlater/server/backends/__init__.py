"""The stores: one contract, one conformance suite, one package per store."""
