"""Structs of the wire <-> records, both ways, each written once: one module for each noun of the domain."""
