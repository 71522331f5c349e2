"""Memory: short notes of the agent that later sessions with the same user begin with.

``document`` parses and changes one document; ``files`` stores a user's documents, each in a file that the user may read and edit;
``screening`` rejects unsafe notes; ``handler`` is the tool's handler; ``telling`` writes the memory's part of the system prompt;
``forgetting`` removes a note everywhere.
"""
