"""Decentral regulations (CVDR): search records and versions, and from the XML of one version to a law.

Nothing here knows the network: bytes come in, typed values go out.
"""
