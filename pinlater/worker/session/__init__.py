"""What a job process and a server exchange on their connection."""
