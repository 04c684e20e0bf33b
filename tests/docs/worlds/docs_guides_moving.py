"""What the page on moving takes for granted."""

legacy = []
