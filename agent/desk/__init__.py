"""The front desk: the one service through which every interface works. docs/front-desk.md shows how to write an interface.

What happens in a session is reported by the events of agent.events. What interfaces show are translations of those.
"""
