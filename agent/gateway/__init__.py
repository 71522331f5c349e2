"""The gateway: serves many users in many chats, through platforms that plugins add (see toolcrib.chat).

``gateway`` runs the process, ``platform_runner`` one platform in it, which ``keeping`` restarts and ``assembly`` puts together;
``host`` is the platform's interface to the gateway. Incoming: ``admission`` and ``pairing`` (who may write), ``mailbox``
(messages in order, by chat), ``rooms`` (the session of a chat), ``chat_requests`` (how it is opened), ``commands``. Outgoing:
``replies`` (a run's answer, streamed and final), ``questions`` (tickets), ``outbox`` (posts in order, until shown),
``splitting``. For operators: ``reloading`` (a new configuration), ``figures`` and ``status``, ``metrics`` and ``watching`` (on a
port), ``logs``. ``collecting`` keeps Python's garbage collector from pausing all chats at once.
"""
