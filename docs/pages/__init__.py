"""The pages of docs/reference/, made from the code."""
