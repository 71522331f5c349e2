"""Approval: what a call would do, whether a person must agree, and what was agreed before."""
