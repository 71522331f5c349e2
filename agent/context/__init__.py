"""The context of a model: its window, the system prompt, project instructions, and summaries."""
