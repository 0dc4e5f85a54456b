"""The debug prompt of a running supervisor, over a unix socket that only its own user can reach.

``server`` is the actor that listens, ``session`` one conversation, ``commands`` what can be asked, ``evaluator`` the Python
prompt, ``client`` the other end, ``dumper`` the same view on SIGUSR1.
"""
