"""Deterministic gates: pure functions from a law to findings that an agent can be asked to answer (D56).

``table`` says which checks each gate runs and evaluates one; ``rounds`` counts a gate's feedback rounds; ``reconcile``
is the mechanical half of the closing pass. The other modules are the checks, by topic.
"""
