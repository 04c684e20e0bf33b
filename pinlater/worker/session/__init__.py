"""What a job process and a server say to each other."""
