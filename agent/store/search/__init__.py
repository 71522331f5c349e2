"""Full-text search over conversations: the words of a message, and for each store an index of them.

``words`` tells what of a message is searched, and how text falls into words; it is the same for every store.
"""
