"""The gateway: many people in many chats, through platforms that plugins bring (see toolcrib.chat).

``gateway`` has the life of one process; ``door`` is what a platform speaks to. What arrives: ``admission`` and ``pairing`` (who
may speak), ``mailbox`` (in order, by chat), ``rooms`` (which session a chat has), ``commands``. What is shown: ``replies`` (a
run's answer while it comes, and whole), ``questions`` (tickets), ``outbox`` (in order, until it was shown), ``splitting``.
"""
