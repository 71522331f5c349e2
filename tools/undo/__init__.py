"""What file tools replace is kept, and given back when a person asks for it."""
