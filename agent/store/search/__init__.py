"""Full-text search over conversations: the words of a message, and for each store an index of them.

``words`` defines which text of a message is searched and how text is split into words, for every store.
"""
