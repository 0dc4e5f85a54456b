"""``make demo``: the whole product on one machine, with sample laws of our own."""
