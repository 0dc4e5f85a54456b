"""Composition: command line, settings, the supervision tree, drain. Nothing imports it.

Layers, imports only downwards: supervisor -> actors -> schema -> protocols."""
