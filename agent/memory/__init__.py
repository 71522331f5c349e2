"""Memory: short notes of the agent that later sessions with the same person begin with.

``document`` reads and changes the text of one document; ``files`` keeps the documents of a person, each in a file that the
person may read and edit; ``screening`` says why a text is not kept; ``handler`` is the tool's; ``telling`` words the part of the
system prompt; ``forgetting`` removes a note everywhere.
"""
