"""The gateway: many people in many chats, through platforms that plugins bring (see toolcrib.chat).

``gateway`` has the life of one process, ``platform_runner`` that of a platform in it, which ``keeping`` keeps up and
``assembly`` puts together; ``host`` is what the platform speaks to. What arrives: ``admission`` and ``pairing`` (who may
speak), ``mailbox`` (in order, by chat), ``rooms`` (which session a chat has now), ``chat_requests`` (what it is opened with),
``commands``. What is shown: ``replies`` (a run's answer while it comes, and whole), ``questions`` (tickets), ``outbox`` (in
order, until it was shown), ``splitting``. For operators: ``reloading`` (another configuration), ``figures`` and ``status``,
``metrics`` and ``watching`` (on a port), ``logs``; ``collecting`` keeps Python's collector from stopping all chats at once.
"""
