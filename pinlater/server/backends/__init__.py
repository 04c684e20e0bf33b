"""The stores: one contract, one conformance suite, one package for each store."""
