"""Proof under fire: servers, workers and stores die, freeze and lose each other, and a checker reads what was seen."""
