"""The rules of each call: what it may say, what it does, what it answers."""
