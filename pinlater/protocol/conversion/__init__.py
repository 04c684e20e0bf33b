"""Conversion of wire structs to records and back, each defined once; one module for each noun of the domain."""
