"""Context of a model: its window, the system prompt, instructions of a project, and summaries."""
