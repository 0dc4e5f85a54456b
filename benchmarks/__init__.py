"""Ratios against peers and bare libraries, each of one run on one machine (`make bench`)."""
