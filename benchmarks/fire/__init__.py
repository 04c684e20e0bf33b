"""Fault injection: servers, workers and stores die, freeze and lose each other, and a checker examines the journals."""
